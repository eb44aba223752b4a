// The real executor over the fake driver: whatever the order in which the
// device gets to its work, a step computes what the CPU runtime computes.
#include "runtime/cuda/cuda_executor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <future>
#include <numeric>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/device_programs.h"
#include "runtime/kernels/compiler.h"
#include "tests/runtime/cpu/schedule_builder.h"
#include "tests/runtime/cuda/device_training.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/cuda/host_cubins.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

constexpr uint64_t kSeeds = 6;

Cubins cubins_of(const ScheduleBuilder& builder) {
  const KernelCode code{.function = add_one};
  return host_cubins(builder.schedule().kernels, {&code, 1});
}

/// Doubles its operand on the device, or through the host, or fails.
class DoublingCommunicator : public DeviceCommunicator {
 public:
  explicit DoublingCommunicator(bool staged, int failing_call = -1)
      : staged_(staged), failing_call_(failing_call) {}
  Status attach(DeviceSpan, size_t largest_bytes) override {
    EXPECT_EQ(largest_bytes, 4U);
    return {};
  }
  Status check(const CollectiveSpec&) const override { return {}; }
  bool is_host_staged() const override { return staged_; }
  Status enqueue(const CollectiveSpec&, std::span<const ArrayAddresses> arrays,
                 CUstream_st* stream) override {
    const uint64_t data = arrays[0].output;
    if (calls_++ == failing_call_)
      return fail(ErrorKind::kDevice, "rank 1 was lost");
    if (!staged_) {
      const CUresult enqueued = fake_cuda_enqueue(
          stream, [](void* value) { *static_cast<float*>(value) *= 2; },
          reinterpret_cast<void*>(data), [](void*) {});
      EXPECT_EQ(enqueued, CUDA_SUCCESS);
      return {};
    }
    const Result<const Driver*> driver = Driver::load();
    float value = 0;
    (*driver)->stream_synchronize(stream);
    EXPECT_EQ((*driver)->copy_to_host(&value, data, 4), CUDA_SUCCESS);
    value *= 2;
    EXPECT_TRUE(
        write_device(**driver, data, std::as_bytes(std::span(&value, 1))));
    return {};
  }
  void abort() override { aborted_ = true; }
  bool aborted() const { return aborted_; }

 private:
  bool staged_ = false, aborted_ = false;
  int failing_call_ = -1, calls_ = 0;
};

/// Its work never ends by itself, as when a peer is gone; the communicator
/// knows of it or not.
class StuckCommunicator : public DeviceCommunicator {
 public:
  explicit StuckCommunicator(bool knows) : knows_(knows) {}
  Status attach(DeviceSpan, size_t) override { return {}; }
  Status check(const CollectiveSpec&) const override { return {}; }
  bool is_host_staged() const override { return false; }
  Status enqueue(const CollectiveSpec&, std::span<const ArrayAddresses>,
                 CUstream_st* stream) override {
    const CUresult enqueued = fake_cuda_enqueue_when(
        stream, [](void* released) { return *static_cast<int*>(released); },
        [](void*) {}, &released_, [](void*) {});
    EXPECT_EQ(enqueued, CUDA_SUCCESS);
    return {};
  }
  Status poll() override {
    if (!knows_) return {};
    return fail(ErrorKind::kDevice, "rank 1 was lost");
  }
  void abort() override { released_ = 1; }

 private:
  bool knows_ = false;
  int released_ = 0;
};

float value_of(CudaExecutor& executor, int parameter) {
  const auto bytes = executor.read_parameter(parameter);
  EXPECT_TRUE(bytes) << bytes.error().message;
  float value = 0;
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

void feed(CudaExecutor& executor, int parameter, float value) {
  std::memcpy(executor.edit_parameter(parameter).data(), &value, sizeof value);
  ASSERT_TRUE(executor.commit_parameter(parameter));
}

class CudaExecutorTest : public testing::Test {
 protected:
  void SetUp() override { fake_cuda_clear(); }
  void TearDown() override {
    EXPECT_STREQ(fake_cuda_report(), "");
    EXPECT_EQ(fake_cuda_live_objects(), 0);
  }
};

struct Mode {
  bool graph, staged;
};
constexpr Mode kModes[] = {{true, false}, {false, false}, {true, true}};

// 0 is the state, 4 the batch. 1 = batch + 1, reduced in place; 2 is what the
// communication stream leaves to compute; 3 what overlaps with it.
ScheduleBuilder crossing_schedule() {
  ScheduleBuilder builder(6);
  builder
      .kernel(0, 5)  // 0: 5 = state + 1
      .kernel(4, 1)  // 1: 1 = batch + 1
      .all_reduce(1)
      .after(1)      // 2: 1 = 2 (batch + 1)
      .kernel(5, 3)  // 3: 3 = state + 2
      .all_reduce(3)
      .after(3)  // 4: 3 = 2 (state + 2)
      .copy(1, 2)
      .after(2)  // 5
      .kernel(3, 0)
      .after(4);  // 6: state = 2 (state + 2) + 1
  return builder;
}

TEST_F(CudaExecutorTest, JoinsStreamsWhereDependenciesCrossThem) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  for (const Mode& mode : kModes) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      fake_cuda_seed(seed);
      Bound bound;
      DoublingCommunicator communicator(mode.staged);
      const auto executor =
          make_executor(bound, module, builder.schedule(), cubins_of(builder),
                        communicator, {.graph = mode.graph, .fed = {4}});
      ASSERT_TRUE(executor) << executor.error().message;
      EXPECT_EQ((*executor)->wants_graph(), mode.graph && !mode.staged);
      feed(**executor, 0, 0);
      float state = 0;
      for (int step = 0; step < 5; ++step) {
        const auto batch = static_cast<float>(10 * step);
        feed(**executor, 4, batch);
        const Status ran = (*executor)->run_step(step);
        ASSERT_TRUE(ran) << ran.error().message;
        state = 2 * (state + 2) + 1;
        ASSERT_EQ(value_of(**executor, 0), state) << "seed " << seed;
        ASSERT_EQ(value_of(**executor, 2), 2 * (batch + 1)) << "seed " << seed;
        EXPECT_GT((*executor)->device_step_ns().value_or(0), 0);
      }
      EXPECT_EQ((*executor)->replays_graph(), (*executor)->wants_graph());
    }
  }
}

TEST_F(CudaExecutorTest, ReplaysOneGraphForEachStepAfterTheFirst) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  Bound bound;
  DoublingCommunicator communicator(false);
  const auto executor =
      make_executor(bound, module, builder.schedule(), cubins_of(builder),
                    communicator, {.fed = {4}});
  ASSERT_TRUE(executor) << executor.error().message;
  const uint64_t graphs = fake_cuda_calls("cuGraphLaunch");
  ASSERT_TRUE((*executor)->run_step(0));
  const uint64_t kernels = fake_cuda_calls("cuLaunchKernel");
  for (int step = 1; step < 4; ++step) ASSERT_TRUE((*executor)->run_step(step));
  EXPECT_EQ(fake_cuda_calls("cuGraphLaunch") - graphs, 3U);
  EXPECT_EQ(fake_cuda_calls("cuLaunchKernel"), kernels);
}

// Without the dependency of unit 5 on unit 2, some order must give a wrong
// answer: the test above can fail.
TEST_F(CudaExecutorTest, AMissingDependencyGivesAWrongAnswerForSomeSeed) {
  ScheduleBuilder builder(3);
  builder.kernel(0, 1).all_reduce(1).after(0).copy(1, 2);
  const Module module;
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    fake_cuda_seed(seed);
    Bound bound;
    DoublingCommunicator communicator(false);
    const auto executor = make_executor(bound, module, builder.schedule(),
                                        cubins_of(builder), communicator, {});
    ASSERT_TRUE(executor) << executor.error().message;
    feed(**executor, 0, 1);
    ASSERT_TRUE((*executor)->run_step(0));
    if (value_of(**executor, 2) != 4) ++wrong;
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(CudaExecutorTest, EndsWithTheErrorOfALostRank) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  for (const bool staged : {false, true}) {
    Bound bound;
    DoublingCommunicator communicator(staged, 3);
    const auto executor =
        make_executor(bound, module, builder.schedule(), cubins_of(builder),
                      communicator, {.graph = false, .fed = {4}});
    ASSERT_TRUE(executor) << executor.error().message;
    ASSERT_TRUE((*executor)->run_step(0));
    const Status failed = (*executor)->run_step(1);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::kDevice);
    EXPECT_EQ(failed.error().message, "step 1, all-reduce: rank 1 was lost");
    EXPECT_TRUE(communicator.aborted());
    EXPECT_FALSE((*executor)->run_step(2));
    EXPECT_FALSE((*executor)->read_parameter(0));
  }
}

// The time-outs of this test and the next are those of a busy machine: the fake
// device must have come to the unit that hangs.
TEST_F(CudaExecutorTest, ASilentPeerEndsTheStep) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  for (const bool knows : {true, false}) {
    Bound bound;
    StuckCommunicator communicator(knows);
    const auto executor = make_executor(
        bound, module, builder.schedule(), cubins_of(builder), communicator,
        {.timeout_s = 1, .fed = {4}, .peers = "rank 1"});
    ASSERT_TRUE(executor) << executor.error().message;
    const Status failed = (*executor)->run_step(0);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message,
              knows ? "step 0: rank 1 was lost"
                    : "step 0: the device has not ended it after 1 s: "
                      "compute has come to 'copy', communication has come to "
                      "'all-reduce'; rank 1 is silent, or --timeout is too "
                      "short");
  }
}

// One step of the schedule above, each unit by a name of its own, with kernel
// `hanging` of all launches never ending; says the error and ends.
[[noreturn]] void train_into_a_hang(bool graph, uint64_t hanging) {
  Schedule schedule = crossing_schedule().schedule();
  for (size_t i = 0; i < schedule.units.size(); ++i)
    schedule.units[i].name = fmt::format("u{}", i);
  const Module module;
  std::string said;
  {
    Bound bound;
    const auto communicator = make_solo_device_communicator();
    const auto executor = make_executor(
        bound, module, schedule, cubins_of(crossing_schedule()), *communicator,
        {.graph = graph, .timeout_s = 1, .fed = {4}});
    fake_cuda_hang(hanging);
    Status ran;
    for (int step = 0; ran && step < 3; ++step)
      ran = (*executor)->run_step(step);
    said = ran ? "nothing hung" : ran.error().message;
    said += bound.context->driver().is_abandoned() ? " abandoned" : " kept";
  }
  std::fputs(said.c_str(), stderr);
  ::_exit(7);
}

// All destructors have run: none may have waited for the device.
TEST_F(CudaExecutorTest, AKernelThatNeverEndsIsNamedAndNothingWaitsForIt) {
  constexpr const char* kEnd =
      "; a kernel that never ends, or --timeout is too short for the step "
      "abandoned";
  for (const bool graph : {false, true}) {
    EXPECT_EXIT(train_into_a_hang(graph, 2), testing::ExitedWithCode(7),
                std::string("^step 0: the device has not ended it after 1 s: "
                            "compute has come to 'u3'") +
                    kEnd);
  }
  // Launched first when the step was captured: its graph's first kernel.
  EXPECT_EXIT(train_into_a_hang(true, 4), testing::ExitedWithCode(7),
              std::string("^step 1: the device has not ended it after 1 s: "
                          "compute (has come to|is between) 'u0'.*") +
                  kEnd);
}

TEST(DeviceWatch, TellsOfACallThatDoesNotComeBack) {
  std::promise<DeviceWatch::Place> told;
  DeviceWatch watch(
      0.01, [&](const DeviceWatch::Place& place) { told.set_value(place); });
  {
    const DeviceWatch::Visit visit(&watch, DeviceWatch::kIssuing, "a call", 1);
  }
  const DeviceWatch::Visit visit(&watch, DeviceWatch::kCommunicating, 5, 77);
  const DeviceWatch::Place place = told.get_future().get();
  EXPECT_EQ(place.call, nullptr);
  EXPECT_EQ(place.step, 5);
  EXPECT_EQ(place.unit, 77U);
}

TEST_F(CudaExecutorTest, SaysHowToDoWithoutAGraphThatCannotBeMade) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  for (const char* function : {"cuStreamEndCapture", "cuGraphInstantiate"}) {
    fake_cuda_clear();
    Bound bound;
    DoublingCommunicator communicator(false);
    const auto executor =
        make_executor(bound, module, builder.schedule(), cubins_of(builder),
                      communicator, {.fed = {4}});
    ASSERT_TRUE(executor) << executor.error().message;
    fake_cuda_fail(function, 0, CUDA_ERROR_NOT_SUPPORTED);
    const Status failed = (*executor)->run_step(0);
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().message.find("--no-graph does without"),
              std::string::npos)
        << failed.error().message;
  }
}

TEST_F(CudaExecutorTest, ErrorsOfTheDriverNameTheUnit) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  for (const bool staged : {false, true}) {
    fake_cuda_clear();
    Bound bound;
    DoublingCommunicator communicator(staged);
    const auto executor =
        make_executor(bound, module, builder.schedule(), cubins_of(builder),
                      communicator, {.fed = {4}});
    ASSERT_TRUE(executor) << executor.error().message;
    fake_cuda_fail("cuLaunchKernel", 2, CUDA_ERROR_LAUNCH_FAILED);
    const Status failed = (*executor)->run_step(0);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message,
              "kernel: cuLaunchKernel: FAKE_ERROR_719 (719), an error of the "
              "fake driver");
  }
}

TEST_F(CudaExecutorTest, GivesEverythingBackWhenMemoryRunsOut) {
  const ScheduleBuilder builder = crossing_schedule();
  const Module module;
  for (const char* function :
       {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreateWithPriority",
        "cuEventCreate", "cuModuleLoadData", "cuModuleGetFunction"}) {
    fake_cuda_clear();
    fake_cuda_fail(function, 0, CUDA_ERROR_OUT_OF_MEMORY);
    Bound bound;
    DoublingCommunicator communicator(false);
    const auto executor =
        make_executor(bound, module, builder.schedule(), cubins_of(builder),
                      communicator, {.fed = {4}});
    ASSERT_FALSE(executor) << function;
    EXPECT_EQ(executor.error().kind, ErrorKind::kDevice);
  }
}

// The batch dimension of `a` is innermost, so no matrix library can read its
// matrices in place. Small integers: sums are exact in any order.
TEST_F(CudaExecutorTest, PacksMatricesWithoutAUnitStride) {
  const auto module = parse_inlined(R"(HloModule m
ENTRY main {
  a = f32[4,9,2] parameter(0)
  b = f32[2,9,5] parameter(1)
  ROOT d = f32[2,4,5] dot(a, b), lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
})");
  ASSERT_TRUE(module) << module.error().message;
  const auto schedule = lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(schedule) << schedule.error().message;
  const std::vector<Kernel> kernels =
      device_programs(*module, *schedule).kernels;
  ASSERT_EQ(kernels.size(), schedule->kernels.size() + 1);
  const auto compiled = compile_kernels(
      kernels, {.cache_directory = build_directory() + "/kernel_cache"});
  ASSERT_TRUE(compiled) << compiled.error().message;
  std::vector<KernelCode> code;
  for (size_t i = 0; i < kernels.size(); ++i) {
    code.push_back({.function = compiled->functions[i],
                    .kernel = &kernels[i],
                    .iterations = kernel_iterations(kernels[i])});
  }
  Bound bound;
  const auto communicator = make_solo_device_communicator();
  const auto executor = make_executor(
      bound, *module, *schedule, host_cubins(kernels, code), *communicator, {});
  ASSERT_TRUE(executor) << executor.error().message;
  std::vector<float> a(72), b(90);
  std::iota(a.begin(), a.end(), 1.0F);
  std::iota(b.begin(), b.end(), -7.0F);
  const std::vector<float>* operands[] = {&a, &b};
  for (const int64_t i : {0, 1}) {
    std::memcpy((*executor)->edit_parameter(i).data(), operands[i]->data(),
                operands[i]->size() * sizeof(float));
    ASSERT_TRUE((*executor)->commit_parameter(i));
  }
  for (int step = 0; step < 3; ++step) ASSERT_TRUE((*executor)->run_step(step));
  const auto bytes = (*executor)->read_output(0);
  ASSERT_TRUE(bytes) << bytes.error().message;
  std::vector<float> out(40);
  std::memcpy(out.data(), bytes->data(), bytes->size());
  for (size_t batch = 0; batch < 2; ++batch) {
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < 5; ++column) {
        float expected = 0;
        for (size_t k = 0; k < 9; ++k) {
          expected +=
              a[(row * 9 + k) * 2 + batch] * b[(batch * 9 + k) * 5 + column];
        }
        EXPECT_EQ(out[(batch * 4 + row) * 5 + column], expected);
      }
    }
  }
}

}  // namespace
}  // namespace reprise
