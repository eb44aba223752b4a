// Schedules are made by hand here; kernels are plain functions.
#include "runtime/cpu/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/runtime/cpu/schedule_builder.h"

namespace reprise {
namespace {

constexpr size_t kKernels = 2;
constexpr int32_t kMeets = 1;  ///< The second; the first adds one.

/// Two that wait for each other, so both are under way at the same time.
class Meeting {
 public:
  void attend() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++here_;
    changed_.notify_all();
    const bool met = changed_.wait_for(lock, std::chrono::seconds(30),
                                       [&] { return here_ >= 2; });
    missed_ = missed_ || !met;
  }
  bool is_missed() const { return missed_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  bool missed_ = false;
};

Meeting meeting;

void meet(void* const*, int64_t, int64_t) { meeting.attend(); }

/// Doubles its operand after a while, or fails in one call.
class FakeCommunicator : public Communicator {
 public:
  FakeCommunicator(std::chrono::milliseconds duration, int failing_call)
      : duration_(duration), failing_call_(failing_call) {}
  Status attach(std::span<std::byte>) override { return {}; }
  Status check(const CollectiveSpec&) const override { return {}; }
  using Communicator::run;
  Status run(const CollectiveSpec&, std::span<const ArrayBytes> arrays,
             uint32_t) override {
    if (duration_.count() > 0) std::this_thread::sleep_for(duration_);
    if (calls_++ == failing_call_) {
      return fail(ErrorKind::kDevice, "rank 1 was lost");
    }
    *static_cast<float*>(arrays[0].output) *= 2;
    return {};
  }

 private:
  std::chrono::milliseconds duration_;
  int failing_call_ = -1, calls_ = 0;
};

class MeetingCommunicator : public FakeCommunicator {
 public:
  MeetingCommunicator() : FakeCommunicator(std::chrono::milliseconds(0), -1) {}
  Status run(const CollectiveSpec& spec, std::span<const ArrayBytes> arrays,
             uint32_t tag) override {
    meeting.attend();
    return FakeCommunicator::run(spec, arrays, tag);
  }
};

std::unique_ptr<Executor> make_executor(const Schedule& schedule,
                                        Communicator& communicator) {
  static const Kernel empty;
  const std::vector<KernelCode> kernels = {
      {.function = add_one, .kernel = &empty},
      {.function = meet, .kernel = &empty}};
  static const Module module;
  auto executor =
      Executor::create(module, schedule, kernels, communicator, nullptr, {});
  EXPECT_TRUE(executor) << executor.error().message;
  return std::move(*executor);
}

float& value(Executor& executor, int parameter) {
  return *reinterpret_cast<float*>(executor.parameter(parameter).data());
}

TEST(Executor, WaitsWhereADependencyCrossesStreams) {
  ScheduleBuilder builder(3, kKernels);
  builder.kernel(0, 1).all_reduce(1).after(0).copy(1, 2).after(1).kernel(2, 0);
  FakeCommunicator communicator(std::chrono::milliseconds(0), -1);
  const auto executor = make_executor(builder.schedule(), communicator);
  double expected = 0;
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(executor->run_step(step));
    expected = 2 * (expected + 1) + 1;
    ASSERT_EQ(value(*executor, 0), expected) << step;
  }
}

TEST(Executor, ComputesWhileACollectiveRuns) {
  ScheduleBuilder builder(3, kKernels);
  builder.kernel(0, 1).all_reduce(1).after(0);
  builder.kernel(2, 2, kMeets).copy(1, 2).after(1);
  MeetingCommunicator communicator;
  const auto executor = make_executor(builder.schedule(), communicator);
  ASSERT_TRUE(executor->run_step(0));
  EXPECT_FALSE(meeting.is_missed());  // One after the other, they would.
  EXPECT_EQ(value(*executor, 2), 2);
}

TEST(Executor, EndsWithTheErrorOfALostRank) {
  ScheduleBuilder builder(2, kKernels);
  builder.kernel(0, 1).all_reduce(1).after(0).copy(1, 0).after(1);
  FakeCommunicator communicator(std::chrono::milliseconds(1), 3);
  const auto executor = make_executor(builder.schedule(), communicator);
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor->run_step(step));
  const Status failed = executor->run_step(3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "step 3, all-reduce: rank 1 was lost");
  EXPECT_FALSE(executor->run_step(4));
}

TEST(Executor, StepEndsOnlyWhenTheLastCollectiveHas) {
  ScheduleBuilder builder(2, kKernels);
  builder.kernel(0, 1).all_reduce(1).after(0);
  FakeCommunicator communicator(std::chrono::milliseconds(20), -1);
  const auto executor = make_executor(builder.schedule(), communicator);
  ASSERT_TRUE(executor->run_step(0));
  EXPECT_EQ(value(*executor, 1), 2);
}

TEST(Executor, NeedsNoThreadForOneRank) {
  ScheduleBuilder builder(3, kKernels);
  builder.kernel(0, 1).all_reduce(1).after(0).copy(1, 2).after(1).kernel(2, 0);
  const auto communicator = make_solo_communicator();
  const auto executor = make_executor(builder.schedule(), *communicator);
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor->run_step(step));
  EXPECT_EQ(value(*executor, 0), 6);
}

TEST(StreamWaits, KeepOnlyWhatOrderDoesNotImply) {
  ScheduleBuilder builder(3, kKernels);
  builder.kernel(0, 1);                     // 0
  builder.kernel(0, 2);                     // 1
  builder.all_reduce(1).after(0);           // 2
  builder.all_reduce(2).after(0).after(1);  // 3
  builder.copy(2, 0).after(3);              // 4
  builder.copy(1, 0).after(2).after(4);     // 5: unit 2 ended before 3 did.
  const StreamSequences waits = make_stream_waits(builder.schedule());
  EXPECT_EQ(waits.compute.wait_for, (std::vector<uint32_t>{0, 0, 2, 0}));
  EXPECT_EQ(waits.communication.wait_for, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(waits.communication.tell, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace reprise
