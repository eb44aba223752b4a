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
      const int64_t base = 10'000'000 + step * 1'000'000 + rank * 500;
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

Trace random_trace(uint64_t seed, size_t events, uint32_t ranks) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  Trace trace;
  trace.program_text.assign(below(5000), 'p');
  for (size_t i = 0; i < 1 + below(50); ++i) {
    std::string text;
    for (size_t n = below(20); n > 0; --n)
      text.push_back(static_cast<char>(below(256)));
    trace.strings.push_back(text);
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) add_rank(trace, rank);
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
        .kind = static_cast<EventKind>(below(5)),
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
    trace.events.push_back(event);
  }
  sort_events(trace);
  return trace;
}

}  // namespace reprise::testing
