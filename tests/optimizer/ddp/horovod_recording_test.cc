// A Horovod job as dPRO records it: two ranks, two tensors, one step.
#include "optimizer/ddp/horovod_recording.h"

#include <gtest/gtest.h>

#include "tests/replay/analysis/analysis_trace.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

/// Backward makes w1 at 300 us and w0 at 500 us, on rank 1 20 us later. Each is
/// negotiated, copied and reduced, one after the other; w1 takes until 450 us,
/// w0 until 700 us; an update ends the step at 720 us.
class HorovodRun {
 public:
  Trace trace(bool has_edges = true) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const int64_t late = rank * 20 * kUs;
      const uint32_t compute = build.device_stream(rank, "operators");
      const uint32_t sender = build.device_stream(rank, "communication");
      build.step(rank, 0, 0, 720 * kUs);
      add(compute, EventKind::kCompute, "BW.b", 100 * kUs, 300 * kUs + late, 1);
      add(compute, EventKind::kCompute, "BW.a", 300 * kUs + late,
          500 * kUs + late, 2);
      reduce(sender, "Comm.1", 300 * kUs + late, 450 * kUs, 3, 0);
      reduce(sender, "Comm.0", 500 * kUs + late, 700 * kUs, 6, 1);
      add(compute, EventKind::kCompute, "UPDATE_.u", 700 * kUs, 720 * kUs, 9);
    }
    Trace& all = build.trace();
    all.dependencies = {{0, 5, 6}, {0, 8, 9}, {1, 5, 6}, {1, 8, 9}};
    if (has_edges) {
      all.dependencies = {{0, 1, 3}, {0, 2, 6}, {0, 5, 6}, {0, 8, 9},
                          {1, 1, 3}, {1, 2, 6}, {1, 5, 6}, {1, 8, 9}};
    }
    for (const int64_t elements : {1000, 2000}) {
      CollectiveInfo info;
      info.kind = CollectiveKind::kAllReduce;
      info.communicator = "horovod";
      info.type = PrimitiveType::kF32;
      info.group = {0, 1};
      info.group_size = 2;
      info.input_elements = info.output_elements = elements;
      all.collectives.push_back(info);
    }
    all.strings.push_back(R"({"tensors":["w0","w2"]})");
    for (Event& event : all.events) {
      if (event.kind == EventKind::kCollective && event.detail == 1)
        event.attributes = static_cast<int32_t>(all.strings.size()) - 1;
    }
    return all;
  }

 private:
  Event& add(uint32_t stream, EventKind kind, const std::string& name,
             int64_t start, int64_t end, int64_t id) {
    Event& event = build.add(stream, kind, name, start, end);
    event.external_id = id;
    event.step = 0;
    return event;
  }
  void reduce(uint32_t stream, const std::string& name, int64_t start,
              int64_t end, int64_t id, int32_t detail) {
    add(stream, EventKind::kCopy, name + ".MEMCPY_IN_FUSION_BUFFER", start,
        start + 10 * kUs, id);
    Event& transfer = add(stream, EventKind::kCollective, name,
                          start + 10 * kUs, end - 10 * kUs, id + 1);
    transfer.detail = detail;
    transfer.bytes = detail == 0 ? 4000 : 8000;
    add(stream, EventKind::kCopy, name + ".MEMCPY_OUT_FUSION_BUFFER",
        end - 10 * kUs, end, id + 2);
  }
  AnalysisTrace build;
};

TEST(HorovodRecording, ReadsWhenTensorsAreReadyAndWhatCarriesThem) {
  Trace trace = HorovodRun().trace();
  const Result<DdpRecording> recording = ddp_recording(trace);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->ranks, 2U);
  EXPECT_EQ(recording->step_time_ns, 620 * kUs);  // From BW.b's start.
  EXPECT_EQ(recording->gradients,
            (std::vector<DdpGradient>{{"Comm.1", "f32", "1000", 4000},
                                      {"w0+w2", "f32", "2000", 8000}}));
  ASSERT_EQ(recording->steps.size(), 1U);
  const DdpStep& step = recording->steps[0];
  EXPECT_EQ(step.ready_ns,
            (std::vector<std::vector<int64_t>>{{300 * kUs, 500 * kUs},
                                               {320 * kUs, 520 * kUs}}));
  ASSERT_EQ(step.transfers.size(), 2U);
  // From the last rank's copy into the fusion buffer to the last copy out.
  EXPECT_EQ(step.transfers[0].arrival_ns, 320 * kUs);
  EXPECT_EQ(step.transfers[0].end_ns, 450 * kUs);
  EXPECT_EQ(step.transfers[1].arrival_ns, 520 * kUs);
  EXPECT_EQ(step.transfers[1].end_ns, 700 * kUs);
  EXPECT_EQ(recording->notes,
            (std::vector<std::string>{
                "1 of 2 reductions carried several tensors and stay whole"}));
  // The recorded buckets replay as recorded: 700 us and the update's 20 us.
  const DdpModel model = ddp_model(*recording);
  EXPECT_DOUBLE_EQ(model.tail_ns, 20.0 * kUs);
}

TEST(HorovodRecording, RefusesAGraphWithoutEdges) {
  Trace trace = HorovodRun().trace(false);
  const Result<DdpRecording> recording = horovod_recording(trace);
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().message,
            "the data-flow graph does not say which operator makes what "
            "'Comm.0' reduces: has dag.gml its edges?");
}

}  // namespace
}  // namespace reprise
