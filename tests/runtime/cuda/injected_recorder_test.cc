// An injected profiler is told which unit launches what. This binary has the
// functions that libreprise_inject.so would bring into the process.
#include "runtime/cuda/injected_recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/cuda/cuda_executor.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/cuda/host_cubins.h"

namespace {

// "+3" unit 3 begins, "-" it ends, "k" a kernel was launched meanwhile.
std::vector<std::string>& heard() {
  static std::vector<std::string> words;
  return words;
}
uint64_t launches_before = 0;

}  // namespace

extern "C" {
void reprise_push_unit(int64_t unit) {
  heard().push_back(fmt::format("+{}", unit));
  launches_before = fake_cuda_calls("cuLaunchKernel");
}
void reprise_pop_unit() {
  for (; launches_before < fake_cuda_calls("cuLaunchKernel"); ++launches_before)
    heard().push_back("k");
  heard().push_back("-");
}
void reprise_mark_step(int32_t step, int32_t warmup, int64_t start_ns,
                       int64_t end_ns) {
  heard().push_back(
      fmt::format("step {} {} {} {}", step, warmup, start_ns, end_ns));
}
void reprise_leave_out_steps(int32_t first, int32_t end) {
  heard().push_back(fmt::format("leave out {} {}", first, end));
}
void reprise_flush() { heard().push_back("flush"); }
}

namespace reprise {
namespace {

void nothing(void* const*, int64_t, int64_t) {}

Schedule two_kernels() {
  Schedule schedule;
  schedule.buffers.push_back(
      {.kind = BufferKind::kParameter, .size_bytes = 64, .parameter = 0});
  schedule.parameter_buffers = {BufferId{0}};
  schedule.arena_bytes = 64;
  schedule.kernels.resize(1);
  for (int i = 0; i < 2; ++i) {
    Unit& unit = schedule.units.emplace_back();
    unit.name = "kernel";
    unit.kernel = 0;
  }
  return schedule;
}

TEST(InjectedRecorder, HearsOfEveryUnitEagerlyAndUnderCapture) {
  for (const bool graph : {false, true}) {
    heard().clear();
    {
      const Schedule schedule = two_kernels();
      const KernelCode code{.function = nothing};
      const auto context = DeviceContext::open(0);
      ASSERT_TRUE(context) << context.error().message;
      const auto cublas = CublasLibrary::create((*context)->driver(), {});
      ASSERT_TRUE(cublas) << cublas.error().message;
      const Module module;
      auto program = DeviceProgram::create(
          **context, module, schedule,
          host_cubins(schedule.kernels, {&code, 1}), **cublas);
      ASSERT_TRUE(program) << program.error().message;
      const auto communicator = make_solo_device_communicator();
      const auto executor =
          CudaExecutor::create(*context, schedule, std::move(*program),
                               *communicator, {.graph = graph});
      ASSERT_TRUE(executor) << executor.error().message;
      (*executor)->leave_out_steps(7, 9);
      ASSERT_TRUE((*executor)->run_step(0));
      ASSERT_TRUE((*executor)->run_step(1));
      const uint64_t graphs = fake_cuda_calls("cuGraphInstantiate");
      // Steps 7 and 8 run without a tracer. Graphs made anew then have failed.
      for (int32_t step = 1; step < 9; ++step)
        (*executor)->mark_step(step, step == 1, 5, 9);
      EXPECT_EQ(fake_cuda_calls("cuGraphInstantiate"), graphs);
      ASSERT_TRUE((*executor)->run_step(9));
    }
    // With a graph: the eager first step, then its capture; the replay launches
    // nothing of its own. Without: eager steps.
    const std::string units = "+0 k - +1 k - ";
    EXPECT_EQ(fmt::format("{}", fmt::join(heard(), " ")),
              "leave out 7 9 " + units + units +
                  "step 1 1 5 9 step 2 0 5 9 step 3 0 5 9 step 4 0 5 9 "
                  "step 5 0 5 9 step 6 0 5 9 step 7 0 5 9 step 8 0 5 9 " +
                  (graph ? "" : units) + "flush");
  }
}

}  // namespace
}  // namespace reprise
