// Loops, branches and routines over the fake driver: what JAX computes,
// whatever the order of the device's work, as a graph where the host need not
// choose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "data/schedule/called_program.h"
#include "tests/runtime/cpu/jax_values.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/cuda/on_device.h"

namespace reprise {
namespace {

class CudaRoutines : public testing::Test {
 protected:
  void SetUp() override { fake_cuda_clear(); }
  void TearDown() override {
    EXPECT_STREQ(fake_cuda_report(), "");
    EXPECT_EQ(fake_cuda_live_objects(), 0);
  }
};

/// Of types that matrix products have: those of others the host runs.
bool is_device_convolution(const std::string& name) {
  return name.rfind("conv.", 0) == 0 &&
         name.find(".float16") == std::string::npos &&
         name.find("float64") == std::string::npos &&
         name.find("int") == std::string::npos;
}

bool is_gradient_of_pooling(const std::string& name) {
  return name.find("_pool.gradient") != std::string::npos;
}

TEST_F(CudaRoutines, AgreeWithJax) {
  size_t run = 0, graphs = 0, convolutions = 0, poolings = 0;
  for (const JaxCase& one : jax_cases()) {
    SCOPED_TRACE(one.name);
    fake_cuda_seed(run);
    const auto alone = make_solo_device_communicator();
    const auto on = put_on_device(one.hlo, *alone, {});
    if (!has_routine(on->schedule)) continue;
    const uint64_t on_host = fake_cuda_calls("cuLaunchHostFunc");
    expect_as_in_jax(one, *on);
    if (HasFatalFailure()) return;
    if (is_device_convolution(one.name) || is_gradient_of_pooling(one.name)) {
      EXPECT_EQ(fake_cuda_calls("cuLaunchHostFunc"), on_host);
      ++(is_gradient_of_pooling(one.name) ? poolings : convolutions);
    }
    ++run;
    graphs += on->executor->replays_graph() ? 1U : 0U;
  }
  EXPECT_GT(run, 100U);
  EXPECT_GT(convolutions, 35U);
  EXPECT_EQ(poolings, 5U);
  EXPECT_GT(graphs, run / 2);
}

/// x = 2 x + 1, as often as `condition` says of (i, n).
std::string doubling_loop(const std::string& condition,
                          const std::string& extra = "") {
  return "HloModule m\n"
         "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
         " ROOT s = f32[] add(a, b) }\n"
         "c {\n p = (s32[], s32[], f32[3]) parameter(0)\n"
         " i = s32[] get-tuple-element(p), index=0\n"
         " n = s32[] get-tuple-element(p), index=1\n"
         " five = s32[] constant(5)\n" +
         condition +
         "}\n"
         "b {\n p = (s32[], s32[], f32[3]) parameter(0)\n"
         " i = s32[] get-tuple-element(p), index=0\n"
         " n = s32[] get-tuple-element(p), index=1\n"
         " x = f32[3] get-tuple-element(p), index=2\n"
         " one = s32[] constant(1)\n"
         " j = s32[] add(i, one)\n"
         " ones = f32[3] constant({1, 1, 1})\n"
         " d = f32[3] add(x, x)\n" +
         (extra.empty() ? " y = f32[3] add(d, ones)\n" : extra) +
         " ROOT r = (s32[], s32[], f32[3]) tuple(j, n, y)\n}\n"
         "ENTRY e {\n n = s32[] parameter(0)\n x = f32[3] parameter(1)\n"
         " zero = s32[] constant(0)\n"
         " t = (s32[], s32[], f32[3]) tuple(zero, n, x)\n"
         " w = (s32[], s32[], f32[3]) while(t), condition=c, body=b\n"
         " ROOT g = f32[3] get-tuple-element(w), index=2\n}\n";
}

constexpr const char* kFiveTimes =
    " ROOT r = pred[] compare(i, five), direction=LT\n";
constexpr const char* kNTimes =
    " ROOT r = pred[] compare(i, n), direction=LT\n";

float first_of(const OnDevice& on) {
  float value = 0;
  std::memcpy(&value, on.output(0).data(), sizeof value);
  return value;
}

TEST_F(CudaRoutines, ALoopOfAKnownCountIsPartOfTheGraph) {
  const auto alone = make_solo_device_communicator();
  const auto on = put_on_device(doubling_loop(kFiveTimes), *alone, {});
  on->feed<int32_t>(0, {2});
  for (int step = 0; step < 3; ++step) {
    const auto x = static_cast<float>(step);
    on->feed<float>(1, {x, 0, 0});
    ASSERT_TRUE(on->executor->run_step(step));
    EXPECT_EQ(first_of(*on), 32 * x + 31);
  }
  EXPECT_TRUE(on->executor->replays_graph());
}

TEST_F(CudaRoutines, ALoopOfAnyCountAsksTheDeviceBeforeEachPass) {
  const auto alone = make_solo_device_communicator();
  const auto on = put_on_device(doubling_loop(kNTimes), *alone, {});
  EXPECT_FALSE(on->executor->wants_graph());
  for (int32_t n = 0; n < 4; ++n) {
    on->feed<int32_t>(0, {n});
    on->feed<float>(1, {1, 0, 0});
    ASSERT_TRUE(on->executor->run_step(n));
    EXPECT_EQ(first_of(*on), static_cast<float>((2 << n) - 1));
  }
}

/// Ends the process, as a device is abandoned for good.
void wait_for_ever_inside_a_loop() {
  const auto alone = make_solo_device_communicator();
  const auto on =
      put_on_device(doubling_loop(kNTimes), *alone, {.timeout_s = 0.2});
  on->feed<int32_t>(0, {3});
  on->feed<float>(1, {1, 0, 0});
  fake_cuda_hang(2);
  const Status done = on->executor->run_step(0);
  fmt::print(stderr, "{}\n", done ? "it ended" : done.error().message);
  std::_Exit(7);
}

TEST_F(CudaRoutines, AWaitInsideALoopHasADeadlineThatNamesIt) {
  EXPECT_EXIT(wait_for_ever_inside_a_loop(), testing::ExitedWithCode(7),
              "^w: the device has not ended its work after 0.2 s");
}

/// Doubles what it is given, in stream order.
class DoublingInLoops : public DeviceCommunicator {
 public:
  Status attach(DeviceSpan memory, size_t largest_bytes) override {
    memory_ = memory;
    EXPECT_EQ(largest_bytes, 12U);
    return {};
  }
  Status check(const CollectiveSpec&) const override {
    ++checked_;
    return {};
  }
  Status join(const CollectiveSpec&) override {
    ++joined_;
    return {};
  }
  bool is_host_staged() const override { return false; }
  Status enqueue(const CollectiveSpec&, std::span<const ArrayAddresses> arrays,
                 CUstream_st* stream) override {
    const uint64_t data = arrays[0].output;
    EXPECT_GE(data, memory_.base);
    EXPECT_LE(data + 12, memory_.base + memory_.size_bytes);
    EXPECT_EQ(fake_cuda_enqueue(
                  stream,
                  [](void* at) {
                    for (int i = 0; i < 3; ++i) static_cast<float*>(at)[i] *= 2;
                  },
                  reinterpret_cast<void*>(data), [](void*) {}),
              CUDA_SUCCESS);
    return {};
  }
  mutable int checked_ = 0;
  int joined_ = 0;

 private:
  DeviceSpan memory_;
};

TEST_F(CudaRoutines, CollectivesInsideALoopRunWhereTheyStand) {
  DoublingInLoops communicator;
  const auto on = put_on_device(
      doubling_loop(kFiveTimes,
                    " a = f32[3] all-reduce(d), replica_groups={{0,1}}, "
                    "to_apply=s\n y = f32[3] add(a, ones)\n"),
      communicator, {}, 2);
  EXPECT_EQ(communicator.checked_, 1);
  EXPECT_EQ(communicator.joined_, 1);
  on->feed<int32_t>(0, {2});
  for (int step = 0; step < 3; ++step) {
    on->feed<float>(1, {1, 0, 0});
    ASSERT_TRUE(on->executor->run_step(step));
    EXPECT_EQ(first_of(*on), 1365);  // x = 4 x + 1, five times.
  }
  EXPECT_TRUE(on->executor->replays_graph());
}

// They were refused.
TEST_F(CudaRoutines, ARankThatIsAloneGathersItself) {
  const auto alone = make_solo_device_communicator();
  const auto on = put_on_device(
      "HloModule m\n"
      "l {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT c = pred[] compare(a, b), direction=LT\n}\n"
      "ENTRY e {\n x = f32[3] parameter(0)\n"
      " s = f32[3] sort(x), dimensions={0}, to_apply=l\n"
      " g = f32[3] all-gather(s), replica_groups={{0}}, dimensions={0}\n"
      " ROOT y = f32[3] add(g, x)\n}\n",
      *alone, {});
  for (int step = 0; step < 3; ++step) {
    on->feed<float>(0, {3, 1, 2});
    ASSERT_TRUE(on->executor->run_step(step));
    EXPECT_EQ(first_of(*on), 4);
  }
  EXPECT_TRUE(on->executor->replays_graph());
}

}  // namespace
}  // namespace reprise
