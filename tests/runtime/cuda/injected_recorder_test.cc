// An injected profiler is told which unit launches what. This binary has the
// functions that libreprise_inject.so would bring into the process.
#include "runtime/cuda/injected_recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
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
bool is_open = true;

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
int reprise_is_window_open() { return is_open ? 1 : 0; }
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

/// Two kernels on a fake device.
class InjectedRecorderTest : public testing::Test {
 protected:
  void open(bool graph) {
    const auto context = DeviceContext::open(0);
    ASSERT_TRUE(context) << context.error().message;
    auto cublas = CublasLibrary::create((*context)->driver(), {});
    ASSERT_TRUE(cublas) << cublas.error().message;
    cublas_ = std::move(*cublas);
    auto program = DeviceProgram::create(
        **context, module_, schedule_,
        host_cubins(schedule_.kernels, {&code_, 1}), *cublas_);
    ASSERT_TRUE(program) << program.error().message;
    auto executor = CudaExecutor::create(
        *context, schedule_, std::move(*program), *alone_, {.graph = graph});
    ASSERT_TRUE(executor) << executor.error().message;
    executor_ = std::move(*executor);
  }

  const Schedule schedule_ = two_kernels();
  const KernelCode code_{.function = nothing};
  const Module module_;
  std::unique_ptr<CublasLibrary> cublas_;
  std::unique_ptr<DeviceCommunicator> alone_ = make_solo_device_communicator();
  std::unique_ptr<CudaExecutor> executor_;
};

TEST_F(InjectedRecorderTest, HearsOfEveryUnitEagerlyAndUnderCapture) {
  for (const bool graph : {false, true}) {
    heard().clear();
    open(graph);
    executor_->leave_out_third(3, 9);
    ASSERT_TRUE(executor_->run_step(0));
    ASSERT_TRUE(executor_->run_step(1));
    const uint64_t graphs = fake_cuda_calls("cuGraphInstantiate");
    const auto made_anew = [&](bool is_open_after) {
      is_open = is_open_after;
      executor_->mark_step(6, false, 5, 9);
      return fake_cuda_calls("cuGraphInstantiate") - graphs;
    };
    EXPECT_EQ(made_anew(true), 0U);
    EXPECT_EQ(made_anew(false), graph ? 1U : 0U);
    EXPECT_EQ(made_anew(true), graph ? 1U : 0U);  // Such graphs have failed.
    ASSERT_TRUE(executor_->run_step(9));          // Of neither graph.
    is_open = false;
    ASSERT_TRUE(executor_->run_step(10));
    is_open = true;
    executor_.reset();
    // With a graph: the eager first step, then its capture; the replays launch
    // nothing of their own. Without: eager steps.
    const std::string units = "+0 k - +1 k - ";
    EXPECT_EQ(fmt::format("{}", fmt::join(heard(), " ")),
              (graph ? "leave out 7 2147483647 " : "leave out 5 7 ") + units +
                  units + "step 6 0 5 9 step 6 0 5 9 step 6 0 5 9 " + units +
                  (graph ? "" : units) + "flush");
  }
}

TEST_F(InjectedRecorderTest, AGraphThatFailsWhileRecordedSaysWhatDoesWithout) {
  for (const bool graph : {false, true}) {
    open(graph);
    ASSERT_TRUE(executor_->run_step(0));
    fake_cuda_fail("cuEventQuery", 0, CUDA_ERROR_LAUNCH_FAILED);
    const Status failed = executor_->run_step(1);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message.find("--no-graph") != std::string::npos,
              graph)
        << failed.error().message;
    executor_.reset();
    fake_cuda_clear();
  }
}

}  // namespace
}  // namespace reprise
