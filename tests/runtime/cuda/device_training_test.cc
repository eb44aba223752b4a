// Whole programs on the fake device, under any plan, on one rank and two: the
// bits of the CPU runtime.
#include "tests/runtime/cuda/device_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "runtime/cuda/host_staged_communicator.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/testing/random_plan.h"

namespace reprise {
namespace {

struct ProgramCase {
  const char* program;
  int32_t steps;
  uint64_t seeds;
};

class ProgramOnDevice : public testing::TestWithParam<ProgramCase> {};

// Kernels are the CPU's code and dots its library, so the bits are the same.
TEST_P(ProgramOnDevice, GivesTheBitsOfTheCpu) {
  const ProgramCase& c = GetParam();
  const Result<TestProgram> program = load_test_program(c.program);
  ASSERT_TRUE(program) << program.error().message;
  const auto host = make_test_run(*program, identity_plan(program->module, 1));
  ASSERT_TRUE(host) << host.error().message;
  const auto losses = train_steps(**host, c.steps);
  ASSERT_TRUE(losses) << losses.error().message;
  const auto expected = (*host)->run->state_digests();
  for (uint64_t seed = 0; seed < c.seeds; ++seed) {
    fake_cuda_clear();
    fake_cuda_seed(seed);
    const Plan plan = seed == 0 ? identity_plan(program->module, 1)
                                : random_valid_plan(program->module, seed, 1);
    const auto communicator = make_solo_device_communicator();
    const auto trained = train_on_device(*program, plan, seed % 2 == 0, c.steps,
                                         0, *communicator);
    ASSERT_TRUE(trained) << trained.error().message;
    EXPECT_EQ(trained->losses, *losses) << "seed " << seed;
    EXPECT_EQ(trained->digests, *expected) << "seed " << seed;
    EXPECT_STREQ(fake_cuda_report(), "");
    EXPECT_EQ(fake_cuda_live_objects(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ProgramOnDevice,
                         testing::Values(ProgramCase{"mlp.1", 3, 4},
                                         ProgramCase{"gpt.1", 2, 2}));

/// All-reduces of two ranks of this process, on the device's streams and in its
/// graphs: each publishes its operand, then adds the other's once it is there.
struct SharedExchanges {
  struct Exchange {
    std::vector<float> operands[2];
    uint64_t published[2] = {0, 0}, consumed[2] = {0, 0};
  };
  std::vector<Exchange> exchanges;  ///< One for each collective of a step.
};

/// One rank's side of one exchange, as its stream's work sees it. The fake
/// driver's lock is held.
struct Side {
  SharedExchanges::Exchange* exchange = nullptr;
  int rank = 0;
  float* data = nullptr;
  size_t elements = 0;

  bool may_publish() const {
    return exchange->consumed[1 - rank] == exchange->published[rank];
  }
  void publish() const {
    exchange->operands[rank].assign(data, data + elements);
    ++exchange->published[rank];
  }
  bool may_add() const {
    return exchange->published[1 - rank] > exchange->consumed[rank];
  }
  void add() const {
    const auto& [first, second] = exchange->operands;
    for (size_t i = 0; i < elements; ++i) data[i] = first[i] + second[i];
    ++exchange->consumed[rank];
  }
};

class PairCommunicator : public DeviceCommunicator {
 public:
  PairCommunicator(SharedExchanges& shared, int rank)
      : shared_(shared), rank_(rank) {}
  Status attach(DeviceSpan, size_t) override { return {}; }
  Status check(const CollectiveSpec& spec) const override {
    EXPECT_EQ(spec.kind, CollectiveKind::kAllReduce);
    return {};
  }
  bool is_host_staged() const override { return false; }
  Status enqueue(const CollectiveSpec& spec,
                 std::span<const ArrayAddresses> arrays,
                 CUstream_st* stream) override {
    const uint64_t data = arrays[0].output;
    const Side side{&shared_.exchanges[next_++ % shared_.exchanges.size()],
                    rank_, reinterpret_cast<float*>(data),
                    static_cast<size_t>(spec.elements)};
    const auto drop = [](void* made) {
      std::unique_ptr<Side>(static_cast<Side*>(made)).reset();
    };
    EXPECT_EQ(fake_cuda_enqueue_when(
                  stream,
                  [](void* made) -> int {
                    return static_cast<Side*>(made)->may_publish();
                  },
                  [](void* made) { static_cast<Side*>(made)->publish(); },
                  std::make_unique<Side>(side).release(), drop),
              CUDA_SUCCESS);
    EXPECT_EQ(fake_cuda_enqueue_when(
                  stream,
                  [](void* made) -> int {
                    return static_cast<Side*>(made)->may_add();
                  },
                  [](void* made) { static_cast<Side*>(made)->add(); },
                  std::make_unique<Side>(side).release(), drop),
              CUDA_SUCCESS);
    return {};
  }

 private:
  SharedExchanges& shared_;
  int rank_ = 0;
  size_t next_ = 0;
};

size_t collectives_of(const TestProgram& program, const Plan& plan) {
  const Result<Schedule> schedule = lower_schedule(program.module, plan);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return static_cast<size_t>(std::count_if(
      schedule->units.begin(), schedule->units.end(),
      [](const Unit& unit) { return unit.kind == UnitKind::kCollective; }));
}

std::vector<std::vector<std::string>> train_two_on_device(
    const TestProgram& program, const Plan& plan, bool graph, int32_t steps) {
  // Compiles: then no rank waits for another's compiler.
  EXPECT_TRUE(make_test_run(program, plan));
  SharedExchanges shared;
  shared.exchanges.resize(collectives_of(program, plan));
  std::vector<std::vector<std::string>> digests(2);
  on_two_threads([&](int rank) {
    PairCommunicator communicator(shared, rank);
    const auto trained =
        train_on_device(program, plan, graph, steps, rank, communicator);
    ASSERT_TRUE(trained) << trained.error().message;
    digests[static_cast<size_t>(rank)] = trained->digests;
  });
  return digests;
}

Result<std::vector<std::vector<std::string>>> train_two_through_the_host(
    const TestProgram& program, const Plan& plan, int32_t steps) {
  return run_two_ranks(
      [&](ProcessGroup& group) -> Result<std::vector<std::string>> {
        const Result<const Driver*> driver = Driver::load();
        if (!driver) return pass(driver.error());
        auto gloo = make_gloo_communicator(group, 100);
        if (!gloo) return pass(gloo.error());
        const auto communicator =
            make_host_staged_communicator(**driver, std::move(*gloo));
        auto trained = train_on_device(program, plan, false, steps,
                                       group.rank(), *communicator);
        if (!trained) return pass(trained.error());
        return std::move(trained->digests);
      });
}

// Buckets, chunks and any order: what crosses the streams differs with the
// plan, the bits do not. Nor where collectives go through the host, which a
// thread of each rank's own does.
TEST(DeviceTraining, TwoRanksGiveTheBitsOfTheCpuUnderAnyPlan) {
  const Result<TestProgram> program = load_test_program("mlp.2");
  ASSERT_TRUE(program) << program.error().message;
  constexpr int32_t kSteps = 3;
  const auto expected =
      train_two_ranks(*program, identity_plan(program->module, 2), kSteps);
  ASSERT_TRUE(expected) << expected.error().message;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    fake_cuda_clear();
    fake_cuda_seed(seed);
    const Plan plan = random_valid_plan(program->module, seed, 2);
    EXPECT_EQ(train_two_on_device(*program, plan, seed % 2 == 0, kSteps),
              *expected)
        << "seed " << seed;
    if (seed <= 2) {
      const auto staged = train_two_through_the_host(*program, plan, kSteps);
      ASSERT_TRUE(staged) << staged.error().message;
      EXPECT_EQ(*staged, *expected) << "seed " << seed;
    }
    EXPECT_STREQ(fake_cuda_report(), "");
    EXPECT_EQ(fake_cuda_live_objects(), 0);
  }
}

}  // namespace
}  // namespace reprise
