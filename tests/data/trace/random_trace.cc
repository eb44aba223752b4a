#include "tests/data/trace/random_trace.h"

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>

namespace reprise::testing {
namespace {

void sort_events(Trace& trace) {
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const Event& a, const Event& b) {
                     return std::tie(a.rank, a.start_ns, a.stream) <
                            std::tie(b.rank, b.start_ns, b.stream);
                   });
}

void add_rank(Trace& trace, uint32_t rank) {
  trace.ranks.push_back({.rank = rank,
                         .host = "host",
                         .process = 100 + rank,
                         .device = "cpu",
                         .clock_offset_ns = -int64_t{rank} * 1000,
                         .clock_drift_ppm = 0.125 * rank,
                         .clock_reference_ns = 5'000'000,
                         .clock_residual_ns = 40});
  trace.streams.push_back({.rank = rank, .name = "compute"});
  trace.streams.push_back({.rank = rank, .name = "communication"});
}

/// What imported traces hold.
void add_details(Trace& trace) {
  trace.collectives = {{.kind = CollectiveKind::kAllReduce,
                        .communicator = "default_pg",
                        .type = PrimitiveType::kBF16,
                        .group = {0, 1},
                        .group_size = 2,
                        .input_elements = 1024,
                        .output_elements = 1024},
                       {.kind = CollectiveKind::kSend,
                        .communicator = "",
                        .type = std::nullopt,
                        .group = {},
                        .peer = 1}};
  trace.synchronizations = {{.kind = SynchronizationKind::kStreamWait,
                             .stream = 7,
                             .waited_stream = 20,
                             .waited_correlation = 13}};
  trace.dependencies = {{.rank = 0, .before = 1, .after = 2},
                        {.rank = 0, .before = 1, .after = 3},
                        {.rank = 1, .before = -5, .after = 2}};
  trace.modules = {{"jit_step", "HloModule jit_step\n"}, {"", ""}};
  trace.import_text = "{\"schema\": \"reprise.import/1\"}";
  for (Event& event : trace.events) {
    if (event.kind == EventKind::kCollective) {
      event.detail = static_cast<int32_t>(event.rank);
      event.sequence = event.step;
    } else if (event.unit == 2) {
      event.kind = EventKind::kSynchronization;
      event.detail = 0;
      event.external_id = 40 + event.step;
      event.graph_node = 3;
      event.attributes = 2;
    }
  }
}

}  // namespace

Trace small_trace() {
  Trace trace;
  trace.program_text = "HloModule small\n";
  trace.manifest_text = "{}";
  trace.plan_text = "{\"schema\": \"reprise.plan/1\"}";
  trace.environment = {{"compiler", "g++ 12"}, {"cpu", "any"}};
  trace.strings = {"dot.1", "b0", "say \"hi\"\n"};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    add_rank(trace, rank);
    for (int32_t step = 0; step < 2; ++step) {
      // dot.1 0..300 us; the bucket enqueued at 300, runs 310..700; a third op
      // 300..650.
      const int64_t base =
          10'000'000 + int64_t{step} * 1'000'000 + int64_t{rank} * 500;
      const auto add = [&](uint32_t stream, EventKind kind, int32_t unit,
                           int64_t enqueue, int64_t start, int64_t end) {
        const bool collective = kind == EventKind::kCollective;
        trace.events.push_back({.rank = rank,
                                .stream = rank * 2 + stream,
                                .kind = kind,
                                .step = step,
                                .unit = unit,
                                .name = StringId{static_cast<uint32_t>(unit)},
                                .enqueue_ns = base + enqueue,
                                .start_ns = base + start,
                                .end_ns = base + end,
                                .bytes = collective ? 4096 : 0,
                                .correlation = collective ? step : -1});
      };
      add(0, EventKind::kCompute, 0, 0, 0, 300'000);
      add(1, EventKind::kCollective, 1, 300'000, 310'000, 700'000);
      add(0, EventKind::kCompute, 2, 300'000, 300'000, 650'000);
      trace.steps.push_back({.rank = rank,
                             .step = step,
                             .start_ns = base,
                             .end_ns = base + 700'000,
                             .warmup = step == 0});
    }
  }
  trace.measurements = {{.key = "abc",
                         .unit = "dot.1",
                         .context = "in-schedule",
                         .median_ns = 299'000,
                         .spread_ns = 1'000,
                         .samples = 20}};
  trace.warnings = {"rank 1: last segment lost"};
  sort_events(trace);
  return trace;
}

Trace detailed_trace() {
  Trace trace = small_trace();
  trace.ranks[1].clock_domain = "epoch";
  for (const size_t stream : {size_t{1}, size_t{3}}) {
    const uint32_t rank = trace.streams[stream].rank;
    trace.streams[stream] = {.rank = rank,
                             .name = "stream 7",
                             .kind = StreamKind::kDeviceStream,
                             .process = 100 + rank,
                             .device = 1,
                             .number = 7};
  }
  add_details(trace);
  return trace;
}

Trace random_trace(uint64_t seed, size_t events, uint32_t ranks) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  const auto below_signed = [&](uint64_t limit) {
    return static_cast<int64_t>(below(limit));
  };
  Trace trace;
  trace.program_text.assign(below(5000), 'p');
  for (size_t i = 0; i < 1 + below(50); ++i) {
    std::string text;
    for (size_t n = below(20); n > 0; --n)
      text.push_back(static_cast<char>(below(256)));
    trace.strings.push_back(text);
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) add_rank(trace, rank);
  for (int32_t i = 0; i < 5; ++i) {
    const bool foreign = i % 2 == 1;  // Of a later version, say.
    trace.collectives.push_back(
        {.kind = foreign ? CollectiveKind::kOther : CollectiveKind::kAllGather,
         .communicator = "",
         .type = foreign ? std::nullopt : std::optional(PrimitiveType::kS64),
         .group = {0, 4, ~uint32_t{0}},
         .group_size = below_signed(9),
         .peer = i,
         .other_kind = foreign ? "shuffle" : "",
         .other_type = foreign ? "f6" : ""});
    trace.synchronizations.push_back(
        {.kind = static_cast<SynchronizationKind>(i), .stream = -i});
    trace.dependencies.push_back({.before = i, .after = below_signed(100)});
  }
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < events; ++i) {
    const bool wild = below(50) == 0;
    const auto rank = static_cast<uint32_t>(below(ranks));
    const auto any = [&] {
      return below(3) == 0   ? kLow
             : below(2) == 0 ? kHigh
                             : static_cast<int64_t>(random());
    };
    Event event{
        .rank = rank,
        .stream = rank * 2 + static_cast<uint32_t>(below(2)),
        .kind = static_cast<EventKind>(below(12)),
        .step = wild ? std::numeric_limits<int32_t>::min()
                     : static_cast<int32_t>(below(9)),
        .unit = wild ? std::numeric_limits<int32_t>::max()
                     : static_cast<int32_t>(below(99)),
        .name = StringId{static_cast<uint32_t>(below(trace.strings.size()))},
        .start_ns =
            wild ? any()
                 : static_cast<int64_t>(1'000'000'000 + below(1'000'000)),
        .bytes = wild ? any() : static_cast<int64_t>(below(1 << 20)),
        .correlation = wild ? any() : -1};
    event.end_ns =
        wild ? kHigh : event.start_ns + static_cast<int64_t>(below(10'000));
    event.enqueue_ns =
        wild ? any() : event.start_ns - static_cast<int64_t>(below(10'000));
    if (below(2) == 0) event.external_id = wild ? any() : below_signed(1000);
    if (below(9) == 0) event.graph_node = wild ? any() : below_signed(1000);
    if (below(3) == 0) event.sequence = wild ? any() : below_signed(1000);
    if (below(2) == 0) {
      event.detail =
          static_cast<int32_t>(below(event.kind == EventKind::kSynchronization
                                         ? trace.synchronizations.size()
                                         : trace.collectives.size()));
    }
    if (below(4) == 0)
      event.attributes = static_cast<int32_t>(index_of(event.name));
    trace.events.push_back(event);
  }
  sort_events(trace);
  return trace;
}

}  // namespace reprise::testing
