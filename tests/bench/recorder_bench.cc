// Cost of one recorded event: two timestamps and a slot of the ring.
//
//   recorder_bench            Google Benchmark
//   recorder_bench --events N records N events and nothing else, for callgrind
//   recorder_bench --fastest  prints the nanoseconds an event of the fastest of
//   many batches
//   recorder_bench --clock    the same of its two timestamps alone
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "profiler/recorder.h"

namespace reprise {
namespace {

std::unique_ptr<Recorder> make_recorder() {
  Recorder::Options options;
  options.shard_path = "/dev/null";
  return std::move(Recorder::create(options).value());
}

void record_one(Recorder& recorder, int32_t unit) {
  const int64_t start_ns = Recorder::now_ns();
  const int64_t end_ns = Recorder::now_ns();
  recorder.record(0, EventKind::kCompute, unit, 3, start_ns, start_ns, end_ns,
                  -1);
}

/// What a thunk pays when nothing is recorded: one branch.
void record_if_on(Recorder* recorder, int32_t unit) {
  if (recorder != nullptr) record_one(*recorder, unit);
}

constexpr int32_t kBatch =
    1 << 14;  // A quarter of the ring: never full between flushes.

void record_batch(Recorder& recorder, int32_t events) {
  for (int32_t i = 0; i < events; ++i) record_one(recorder, i);
}

void BM_RecordEvent(benchmark::State& state) {
  const std::unique_ptr<Recorder> recorder = make_recorder();
  while (state.KeepRunningBatch(kBatch)) {
    record_batch(*recorder, kBatch);
    state.PauseTiming();
    benchmark::DoNotOptimize(recorder->flush().has_value());
    state.ResumeTiming();
  }
}
BENCHMARK(BM_RecordEvent);

void BM_RecordNothing(benchmark::State& state) {
  Recorder* volatile off = nullptr;
  for (auto _ : state) {
    record_if_on(off, 1);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_RecordNothing);

void BM_FlushEvent(benchmark::State& state) {
  const std::unique_ptr<Recorder> recorder = make_recorder();
  while (state.KeepRunningBatch(kBatch)) {
    state.PauseTiming();
    record_batch(*recorder, kBatch);
    state.ResumeTiming();
    benchmark::DoNotOptimize(recorder->flush().has_value());
  }
}
BENCHMARK(BM_FlushEvent);

int count_events(int64_t events) {
  const std::unique_ptr<Recorder> recorder = make_recorder();
  for (int64_t left = events; left > 0; left -= kBatch) {
    record_batch(*recorder,
                 static_cast<int32_t>(std::min<int64_t>(left, kBatch)));
    if (!recorder->flush()) return 1;
  }
  return recorder->lost_events() == 0 ? 0 : 1;
}

void read_clock_batch() {
  for (int32_t i = 0; i < kBatch; ++i) {
    benchmark::DoNotOptimize(Recorder::now_ns());
    benchmark::DoNotOptimize(Recorder::now_ns());
  }
}

int print_fastest(bool clock_alone) {
  const std::unique_ptr<Recorder> recorder = make_recorder();
  int64_t fastest_ns = std::numeric_limits<int64_t>::max();
  for (int batch = 0; batch < 200; ++batch) {
    const int64_t start_ns = Recorder::now_ns();
    if (clock_alone) {
      read_clock_batch();
    } else {
      record_batch(*recorder, kBatch);
    }
    fastest_ns = std::min(fastest_ns, Recorder::now_ns() - start_ns);
    if (!recorder->flush()) return 1;
  }
  std::printf("%.1f\n", static_cast<double>(fastest_ns) / kBatch);
  return 0;
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--events") == 0) {
    return reprise::count_events(std::atoll(argv[2]));
  }
  if (argc == 2 && std::strcmp(argv[1], "--fastest") == 0)
    return reprise::print_fastest(/*clock_alone=*/false);
  if (argc == 2 && std::strcmp(argv[1], "--clock") == 0)
    return reprise::print_fastest(/*clock_alone=*/true);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
