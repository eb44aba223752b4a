// Recordings of DDP on a device: what its gradients wait for.
#include <gtest/gtest.h>

#include "optimizer/ddp/ddp_recording.h"
#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

constexpr int64_t kDeviceMs = 1'000'000;

/// Ranks with steps of 100 ms whose host is 40 ms ahead of its device: of a
/// step at 0 it launches forward at -40 ms, which runs from 0 to 20 ms, and
/// backward of gradients of 1 and 2 MB, done at 40 and 60 ms, which one bucket
/// carries until 90 ms. Another stream copies the next batch meanwhile.
class DeviceRun {
 public:
  AnalysisTrace build;
  /// Of the copy, from the step's start on the device.
  int64_t copy_start_ns = 0, copy_end_ns = 0;
  bool metric = false;  ///< All-reduced by another group, behind the step.
  uint32_t ranks = 1;
  int64_t late_ns = 0;  ///< Of one rank a step, by turns, until 90 ms.

  Trace trace(int steps) {
    for (uint32_t rank = 0; rank < ranks; ++rank) add_rank(rank, steps);
    return described();
  }

 private:
  void add_rank(uint32_t rank, int steps) {
    const uint32_t host = build.host_thread(rank);
    const uint32_t compute = build.device_stream(rank, "stream 7");
    const uint32_t copies = build.device_stream(rank, "stream 9");
    const uint32_t nccl = build.device_stream(rank, "stream 20");
    const uint32_t metrics = build.device_stream(rank, "stream 21");
    for (int i = 0; i < steps; ++i) {
      const int64_t at = (i + 1) * 100 * kDeviceMs, mark = at - 40 * kDeviceMs;
      const bool is_late = static_cast<uint32_t>(i) % ranks == rank;
      const int64_t late = is_late ? late_ns : 0;
      build.step(rank, i, mark, mark + 100 * kDeviceMs);
      const auto launch = [&](int64_t called_ms, uint32_t stream,
                              const char* name, int64_t start_ns,
                              int64_t end_ns, EventKind kind) {
        build.kernel(host, mark + called_ms * kDeviceMs, stream, name,
                     at + start_ns, at + end_ns, kind);
      };
      if (copy_end_ns > copy_start_ns) {
        launch(0, copies, "Memcpy HtoD", copy_start_ns, copy_end_ns,
               EventKind::kCopy);
      }
      launch(1, compute, "forward", late, late + 20 * kDeviceMs,
             EventKind::kCompute);
      launch(2, compute, "dgrad", late + 20 * kDeviceMs, late + 40 * kDeviceMs,
             EventKind::kCompute);
      gradient(host, mark + 3 * kDeviceMs);
      launch(5, compute, "dgrad", late + 40 * kDeviceMs, late + 60 * kDeviceMs,
             EventKind::kCompute);
      gradient(host, mark + 6 * kDeviceMs);
      launch(8, nccl, "ncclDevKernel_AllReduce", late + 60 * kDeviceMs,
             90 * kDeviceMs, EventKind::kCollective);
      if (metric) {
        launch(9, metrics, "ncclDevKernel_AllReduce", 91 * kDeviceMs,
               92 * kDeviceMs, EventKind::kCollective);
      }
    }
  }

  void gradient(uint32_t host, int64_t at) {
    build.add(host, EventKind::kHostOp, "torch::autograd::AccumulateGrad", at,
              at + kDeviceMs);
  }

  Trace described() {
    Trace& all = build.trace();
    for (const int64_t elements : {750'000, 16}) {
      CollectiveInfo info;
      info.kind = CollectiveKind::kAllReduce;
      info.type = PrimitiveType::kF32;
      info.input_elements = info.output_elements = elements;
      all.collectives.push_back(info);
    }
    const auto first = static_cast<int32_t>(all.strings.size());
    for (const char* elements : {"250000", "500000"}) {
      all.strings.push_back(std::string(R"({"input_dims":[[)") + elements +
                            R"(]],"input_types":["float"]})");
    }
    int32_t gradients = 0;
    for (Event& event : all.events) {
      if (event.kind == EventKind::kCollective) {
        const bool is_bucket = all.streams[event.stream].name == "stream 20";
        event.detail = is_bucket ? 0 : 1;
        event.bytes = is_bucket ? 3'000'000 : 64;
      } else if (all.text(event.name).starts_with("torch::")) {
        event.attributes = first + gradients++ % 2;
      }
    }
    return all;
  }
};

DdpRecording read(DeviceRun run) {
  Trace trace = run.trace(6);
  Result<DdpRecording> read = ddp_recording(trace);
  EXPECT_TRUE(read) << read.error().message;
  return read ? *std::move(read) : DdpRecording();
}

void expect_the_steps_of(const DdpRecording& recording) {
  ASSERT_FALSE(recording.steps.empty());
  EXPECT_EQ(recording.buckets.size(), 1U);
  EXPECT_EQ(recording.step_time_ns, 100 * kDeviceMs);
  for (const DdpStep& step : recording.steps) {
    const std::vector<int64_t>& ready = step.ready_ns.front();
    EXPECT_EQ(ready[0] - step.start_ns, 40 * kDeviceMs);
    EXPECT_EQ(ready[1] - step.start_ns, 60 * kDeviceMs);
  }
}

TEST(DdpDevice, AGradientIsReadyWhenItsStreamIs) {
  expect_the_steps_of(read({}));
}

// A copy of the next batch on a stream of its own, launched before backward and
// done after it: no all-reduce waits for it.
TEST(DdpDevice, AGradientWaitsForNoOtherStreamsCopy) {
  DeviceRun run;
  run.copy_start_ns = 10 * kDeviceMs;
  run.copy_end_ns = 95 * kDeviceMs;
  expect_the_steps_of(read(run));
}

// It may run while the device still is in the step before: a step begins with
// its own work on backward's stream, else the step before would end ahead of
// its all-reduces (at 70 of 100 ms here).
TEST(DdpDevice, AStepDoesNotBeginWithACopyForIt) {
  DeviceRun run;
  run.copy_start_ns = -30 * kDeviceMs;
  run.copy_end_ns = -20 * kDeviceMs;
  expect_the_steps_of(read(run));
}

// A metric's all-reduce has a group and with it a stream of its own: buckets
// still go one after the other.
TEST(DdpDevice, OtherGroupsStreamsCarryNoBuckets) {
  DeviceRun run;
  run.metric = true;
  const DdpRecording recording = read(run);
  expect_the_steps_of(recording);
  EXPECT_EQ(recording.workers, 1);
}

// The late rank's step before lasts 110 ms and its own 90; a step is over when
// the first rank begins the next, after 100 ms.
TEST(DdpDevice, StepsOfRanksThatAreLateByTurnsCountOnce) {
  DeviceRun run;
  run.ranks = 2;
  run.late_ns = 10 * kDeviceMs;
  const DdpRecording recording = read(run);
  ASSERT_FALSE(recording.steps.empty());
  for (const DdpStep& step : recording.steps)
    EXPECT_EQ(step.time_ns, 100 * kDeviceMs);
  EXPECT_NEAR(simulate_buckets(ddp_model(recording), recording.buckets).step_ns,
              100.0 * kDeviceMs, 1.0 * kDeviceMs);
}

ContentionKey runs(std::vector<ContentionSample> samples) {
  return {.samples = std::move(samples)};
}

// One name of kernels on several sizes: runs of 250 us beside a transfer and of
// 30 to 150 us beside none say nothing of a slow-down.
TEST(DdpDevice, AKernelOfManySizesTellsNoSlowdown) {
  DdpRecording recording = read({});
  recording.compute = {
      {"gemm", runs({{30, 0}, {80, 0}, {150, 0}, {250, 250}})}};
  EXPECT_NEAR(ddp_model(recording).compute_slowdown, 1.03, 0.01);
  // The first layers of backward are small, and no transfer is under way yet.
  recording.compute = {
      {"gemm", runs({{99, 0}, {101, 0}, {100, 100}, {400, 400}})}};
  EXPECT_NEAR(ddp_model(recording).compute_slowdown, 1.03, 0.01);
  recording.compute = {
      {"gemm", runs({{98, 0}, {100, 0}, {102, 0}, {150, 150}})}};
  // 50 us beside 150, drawn to 1.03 by 3 % of all 450.
  EXPECT_NEAR(ddp_model(recording).compute_slowdown, 1 / (1 - 50.4 / 163.5),
              0.01);
}

}  // namespace
}  // namespace reprise
