#include "profiler/gather/device_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/trace/recording_cost.h"
#include "profiler/trainer_context.h"

namespace reprise {
namespace {

const std::vector<UnitLabel> kUnits = {{"f0", EventKind::kCompute, 0},
                                       {"b0", EventKind::kCollective, 4096},
                                       {"dot.1", EventKind::kCompute, 0}};

/// One rank, two steps of 1,000 ns from 0, streams as the trainer names them.
Trace trainer() {
  Trace trace;
  trace.ranks.emplace_back();
  trace.streams = {{.rank = 0, .name = "compute"},
                   {.rank = 0, .name = "communication"}};
  trace.strings = {"f0", "b0", "dot.1", "kernel", "cudaLaunchKernel"};
  for (int32_t step = 0; step < 2; ++step) {
    trace.steps.push_back({0, step, step * 1000, step * 1000 + 1000, false});
  }
  return trace;
}

void record(Trace& trace, int32_t unit, int64_t start_ns, int64_t end_ns) {
  Event event;
  event.kind = kUnits[static_cast<size_t>(unit)].kind;
  event.stream = event.kind == EventKind::kCollective ? 1 : 0;
  event.step = static_cast<int32_t>(start_ns / 1000);
  event.unit = unit;
  event.name = StringId{static_cast<uint32_t>(unit)};
  event.enqueue_ns = event.start_ns = start_ns;
  event.end_ns = end_ns;
  trace.events.push_back(event);
}

/// The device's side: a host thread and a stream.
Trace device() {
  Trace trace;
  trace.ranks.emplace_back();
  trace.streams = {
      {.rank = 0, .name = "thread 1", .kind = StreamKind::kHostThread},
      {.rank = 0, .name = "stream 7", .kind = StreamKind::kDeviceStream}};
  trace.strings = {"kernel", "cudaLaunchKernel"};
  return trace;
}

/// A launch at `called_ns` and its kernel.
void launch(Trace& trace, int64_t unit, int64_t called_ns, int64_t start_ns,
            int64_t end_ns) {
  Event call;
  call.kind = EventKind::kRuntime;
  call.name = StringId{1};
  call.start_ns = called_ns;
  call.end_ns = called_ns + 1;
  call.correlation = std::ssize(trace.events);
  Event kernel;
  kernel.stream = 1;
  kernel.start_ns = start_ns;
  kernel.end_ns = end_ns;
  kernel.external_id = unit;
  kernel.correlation = call.correlation;
  trace.events.push_back(call);
  trace.events.push_back(kernel);
}

const Event* find(const Trace& trace, int32_t unit, int32_t step) {
  for (const Event& event : trace.events) {
    if (event.unit == unit && event.step == step) return &event;
  }
  return nullptr;
}

// f0 was enqueued at 10..20 by two launches, whose kernels ran 400..450 and
// 460..500; dot.1 at 30..40, in both steps.
TEST(DeviceUnits, AUnitLastsFromItsFirstKernelToItsLast) {
  Trace trace = trainer(), kernels = device();
  record(trace, 0, 10, 20);
  record(trace, 2, 30, 40);
  record(trace, 2, 1030, 1040);
  launch(kernels, 0, 12, 400, 450);
  launch(kernels, 0, 15, 460, 500);
  launch(kernels, 2, 33, 500, 600);
  launch(kernels, 2, 1033, 1500, 1650);
  attribute_device_work(kUnits, kernels, trace);
  ASSERT_EQ(trace.events.size(), 3u);
  const Event* f0 = find(trace, 0, 0);
  EXPECT_EQ(f0->enqueue_ns, 10);
  EXPECT_EQ(f0->start_ns, 400);
  EXPECT_EQ(f0->end_ns, 500);
  EXPECT_EQ(f0->stream, 0u);
  EXPECT_EQ(trace.strings[static_cast<size_t>(f0->attributes)],
            R"({"device_operations":2})");
  EXPECT_EQ(find(trace, 2, 0)->start_ns, 500);
  EXPECT_EQ(find(trace, 2, 1)->end_ns, 1650);
  EXPECT_TRUE(trace.warnings.empty());
}

// A step replayed as one graph: the recorder saw no unit, the nodes' kernels
// say all. The launch is at 5; collectives are counted in their order.
TEST(DeviceUnits, UnitsThatOnlyTheDeviceSawGetEvents) {
  Trace trace = trainer(), kernels = device();
  for (int64_t step = 0; step < 2; ++step) {
    launch(kernels, 0, step * 1000 + 5, step * 1000 + 100, step * 1000 + 200);
    launch(kernels, 1, step * 1000 + 5, step * 1000 + 150, step * 1000 + 300);
  }
  attribute_device_work(kUnits, kernels, trace);
  ASSERT_EQ(trace.events.size(), 4u);
  const Event* bucket = find(trace, 1, 1);
  ASSERT_NE(bucket, nullptr);
  EXPECT_EQ(bucket->kind, EventKind::kCollective);
  EXPECT_EQ(bucket->stream, 1u);
  EXPECT_EQ(bucket->bytes, 4096);
  EXPECT_EQ(bucket->enqueue_ns, 1005);
  EXPECT_EQ(bucket->start_ns, 1150);
  EXPECT_EQ(bucket->end_ns, 1300);
  EXPECT_EQ(bucket->correlation, 1);
  EXPECT_EQ(find(trace, 1, 0)->correlation, 0);
  EXPECT_EQ(trace.text(find(trace, 0, 1)->name), "f0");
}

// Only step 1 was within the window of the profiler: of step 0 the recorder
// knows when it was enqueued, which is no time of the device.
TEST(DeviceUnits, StepsWithoutDeviceWorkAreLeftOut) {
  Trace trace = trainer(), kernels = device();
  record(trace, 0, 10, 20);
  record(trace, 0, 1010, 1020);
  launch(kernels, 0, 1012, 1400, 1450);
  launch(kernels, -1, 1015, 1500, 1600);
  launch(kernels, 99, 1016, 1600, 1700);
  attribute_device_work(kUnits, kernels, trace);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].start_ns, 1400);
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps[0].step, 1);
  ASSERT_TRUE(bare_steps(trace).has_value());
  EXPECT_EQ(bare_steps(trace)->median_ns, 1000);
  EXPECT_EQ(bare_steps(trace)->samples, 1);
  ASSERT_EQ(trace.warnings.size(), 2u);
  EXPECT_NE(trace.warnings[0].find("1 of its steps ran while"),
            std::string::npos);
  EXPECT_NE(trace.warnings[1].find("2 kernels of its steps belong to no unit"),
            std::string::npos);
}

// The trainer told nobody of its units, or nobody heard it. What copies the
// batch, what ran before the first step, and what NCCL alone tells of (without
// a launch) are no loss.
TEST(DeviceUnits, KernelsWithoutUnitsAreTold) {
  Trace trace = trainer(), kernels = device();
  launch(kernels, -1, 1012, 1400, 1450);
  launch(kernels, -1, 1015, 1500, 1600);
  kernels.events.back().kind = EventKind::kCopy;
  launch(kernels, -1, 1020, 1600, 1700);
  kernels.events.back().kind = EventKind::kCollective;
  kernels.events.back().correlation = -1;
  launch(kernels, -1, -500, -400, -300);
  attribute_device_work(kUnits, kernels, trace);
  EXPECT_TRUE(trace.events.empty());
  EXPECT_EQ(trace.steps.size(), 2u);
  ASSERT_EQ(trace.warnings.size(), 1u);
  EXPECT_EQ(trace.warnings[0],
            "rank 0: 1 kernels of its steps belong to no unit");
}

TEST(DeviceUnits, TimesThatCannotBeAreNotUsed) {
  Trace trace = trainer(), kernels = device();
  launch(kernels, 0, 1'000, 1'100, 1'300);
  launch(kernels, 0, 1'000, -99'000, 1'300);  // The clocks' error.
  launch(kernels, 1, 1'000, -100'000, 1'400);
  launch(kernels, 0, 1'000, 1'500, 200'000);
  attribute_device_work(kUnits, kernels, trace);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].start_ns, -99'000);
  EXPECT_EQ(trace.events[0].end_ns, 1'300);
  ASSERT_EQ(trace.warnings.size(), 2u);
  EXPECT_EQ(trace.warnings[1],
            "rank 0: 2 operations of the device do not lie between their "
            "launch and their step's end: not used");
}

TEST(DeviceUnits, ACpuTrainerStaysAsItWas) {
  Trace trace = trainer();
  record(trace, 0, 10, 20);
  const Trace before = trace;
  attribute_device_work(kUnits, device(), trace);
  EXPECT_EQ(trace.events, before.events);
  EXPECT_EQ(trace.steps, before.steps);
  EXPECT_TRUE(trace.warnings.empty());
}

TEST(TrainerContext, ReadsBackWhatItPrints) {
  const TrainerContext context{.program_text = "HloModule m\n",
                               .manifest_text = "{}",
                               .plan_text = "{\"schema\": 1}",
                               .environment = {{"device", "cuda"}},
                               .units = kUnits};
  const auto read = parse_trainer_context(print_trainer_context(context), "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->program_text, context.program_text);
  EXPECT_EQ(read->plan_text, context.plan_text);
  EXPECT_EQ(read->environment, context.environment);
  ASSERT_EQ(read->units.size(), 3u);
  EXPECT_EQ(read->units[1].kind, EventKind::kCollective);
  EXPECT_EQ(read->units[1].bytes, 4096);
}

TEST(TrainerContext, RefusesWhatIsNone) {
  for (const char* text :
       {"", "[]", "{}", R"({"schema": "reprise.trainer/1"})",
        R"({"schema": "reprise.trainer/1", "program_text": "x", "units": [1]})",
        R"({"schema": "reprise.trainer/1", "program_text": "x",
            "units": [{"name": "f", "kind": "copy"}]})"}) {
    const auto read = parse_trainer_context(text, "trainer.json");
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().message.starts_with("trainer.json: "));
  }
}

}  // namespace
}  // namespace reprise
