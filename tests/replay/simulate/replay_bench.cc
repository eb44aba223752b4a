// Time of one scored replay: the optimizer makes thousands.
#include <benchmark/benchmark.h>

#include "replay/simulate/replay.h"
#include "tests/replay/simulate/schedule_text.h"

namespace reprise {
namespace {

// `units` units, every tenth a transfer that depends on the unit before it and
// feeds an update.
void ReplayStepTime(benchmark::State& state) {
  std::string text;
  for (int64_t unit = 0; unit < state.range(0); ++unit) {
    const bool transfer = unit % 10 == 9;
    text += fmt::format("{} u{} {} slow 1.3", transfer ? "transfer" : "compute",
                        unit, transfer ? 500000 : 40000);
    if (transfer) text += fmt::format(" after u{}", unit - 1);
    if (unit % 10 == 4 && unit > 500)
      text += fmt::format(" after u{}", unit - 405);
    text += "\n";
  }
  TextSchedule schedule;
  parse_schedule(text, 2, schedule);
  if (state.range(1) > 1) schedule.priced.rank_factor = {1, 1.1};
  for (auto _ : state)
    benchmark::DoNotOptimize(replay_step_time(schedule.priced));
}
BENCHMARK(ReplayStepTime)
    ->Args({1500, 1})
    ->Args({1500, 2})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace reprise
