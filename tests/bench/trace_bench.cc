// Cost of the trace store an event: into a spool, from spools to a file, from a
// file to memory. The events are those of a training step on one GPU: host ops
// with their shapes, launches, and the kernels behind them, as a profiler
// prints them (each thread in order, threads one after the other).
//
//   trace_bench [--benchmark_filter=...]
//   trace_bench --events N       spools and writes N events; prints peak memory
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "data/trace/trace.h"
#include "data/trace/trace_spool.h"

namespace reprise {
namespace {

constexpr size_t kLaunches = 20'000;  // Of one step; three events each.
constexpr int64_t kStepNs = 250'000'000;

/// Ranks, streams and names of the events below.
void add_surroundings(TraceSpool& spool) {
  RankInfo rank;
  rank.rank = 0;
  spool.add_rank(rank);
  for (const auto kind : {StreamKind::kHostThread, StreamKind::kDeviceStream}) {
    StreamInfo stream{.rank = 0, .name = "stream", .kind = kind};
    spool.add_stream(stream);
  }
  for (int i = 0; i < 1000; ++i) {
    spool.intern(fmt::format("void at::native::kernel<{}>(float const*)", i));
    spool.intern(fmt::format("{{\"input_dims\":[[32,{}],[]]}}", i));
  }
}

StringId pick(uint32_t random, bool is_attribute) {
  return StringId{random % 500 * 2 + (is_attribute ? 1 : 0)};
}

/// One step's events; numbers from a small generator, the same in every run.
std::vector<Event> make_step() {
  std::vector<Event> host, launches, kernels;
  uint32_t random = 1;
  const auto below = [&](uint32_t limit) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % limit;
  };
  int64_t now = 0, device = 0;
  for (size_t i = 0; i < kLaunches; ++i) {
    Event op{.stream = 0,
             .kind = EventKind::kHostOp,
             .name = pick(below(500), false)};
    now += 2000 + below(4000);
    op.enqueue_ns = op.start_ns = now;
    op.end_ns = now + 8000 + below(9000);
    op.external_id = static_cast<int64_t>(i);
    op.attributes = static_cast<int32_t>(index_of(pick(below(500), true)));
    host.push_back(op);
    Event launch{
        .stream = 0, .kind = EventKind::kRuntime, .name = pick(0, false)};
    launch.enqueue_ns = launch.start_ns = now + 3000;
    launch.end_ns = launch.start_ns + 1500 + below(1000);
    launch.correlation = static_cast<int64_t>(i) + 100'000;
    launches.push_back(launch);
    Event kernel{.stream = 1, .name = pick(below(300), false)};
    kernel.enqueue_ns = launch.end_ns;
    kernel.start_ns = std::max(device, launch.end_ns + 2000);
    kernel.end_ns = device = kernel.start_ns + 1000 + below(15'000);
    kernel.correlation = launch.correlation;
    kernel.external_id = op.external_id;
    kernels.push_back(kernel);
  }
  std::vector<Event> step = std::move(host);
  step.insert(step.end(), launches.begin(), launches.end());
  step.insert(step.end(), kernels.begin(), kernels.end());
  return step;
}

void add_events(TraceSpool& spool, const std::vector<Event>& step,
                size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Event event = step[i % step.size()];
    const auto number = static_cast<int64_t>(i / step.size());
    event.step = static_cast<int32_t>(number);
    event.start_ns += number * kStepNs;
    event.end_ns += number * kStepNs;
    event.enqueue_ns += number * kStepNs;
    spool.add(event);
  }
}

std::string file_of(const char* name) {
  return (std::filesystem::temp_directory_path() /
          fmt::format("reprise_{}_{}.trace", name, ::getpid()))
      .string();
}

void report(benchmark::State& state, size_t events) {
  state.counters["ns_per_event"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(events) /
          1e9,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

constexpr size_t kEvents = 600'000;

void BM_SpoolAdd(benchmark::State& state) {
  const std::vector<Event> step = make_step();
  for (auto _ : state) {
    TraceSpool spool;
    add_surroundings(spool);
    add_events(spool, step, kEvents);
    benchmark::DoNotOptimize(spool.event_count());
  }
  report(state, kEvents);
}
BENCHMARK(BM_SpoolAdd)->Unit(benchmark::kMillisecond);

void BM_Intern(benchmark::State& state) {
  TraceSpool spool;
  add_surroundings(spool);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < 1000; ++i)
    names.push_back(spool.text(StringId{i * 7 % 2000}));
  for (auto _ : state) {
    for (const std::string& name : names)
      benchmark::DoNotOptimize(spool.intern(name));
  }
  report(state, names.size());
}
BENCHMARK(BM_Intern);

/// Range 0: spools. One goes through as it is, several are mapped.
void BM_WriteSpools(benchmark::State& state) {
  const std::vector<Event> step = make_step();
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<TraceSpool> spools(count);
  for (TraceSpool& spool : spools) {
    spool.intern(fmt::format("{}", &spool - spools.data()));
    add_surroundings(spool);
    add_events(spool, step, kEvents / count);
  }
  const std::string path = file_of("write_bench");
  for (auto _ : state) {
    if (!write_spools(spools, "", path)) state.SkipWithError("cannot write");
  }
  std::filesystem::remove(path);
  report(state, kEvents);
}
BENCHMARK(BM_WriteSpools)->Arg(1)->Arg(4)->Unit(benchmark::kMillisecond);

void BM_ReadTrace(benchmark::State& state) {
  const std::vector<Event> step = make_step();
  TraceSpool spool;
  add_surroundings(spool);
  add_events(spool, step, kEvents);
  const std::string path = file_of("read_bench");
  if (!write_spools({&spool, 1}, "", path)) state.SkipWithError("cannot write");
  for (auto _ : state) {
    if (!read_trace(path)) state.SkipWithError("cannot read");
  }
  state.counters["bytes_per_event"] =
      static_cast<double>(std::filesystem::file_size(path)) / kEvents;
  std::filesystem::remove(path);
  report(state, kEvents);
}
BENCHMARK(BM_ReadTrace)->Unit(benchmark::kMillisecond);

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int measure_memory(size_t events) {
  const std::string path = file_of("memory_bench");
  {
    TraceSpool spool;
    add_surroundings(spool);
    add_events(spool, make_step(), events);
    if (!write_spools({&spool, 1}, "", path)) return 1;
  }
  std::printf("%zu events: %.1f MB peak to write", events, peak_megabytes());
  const bool read = read_trace(path).has_value();
  std::printf(", %.1f MB to read (%.1f MB of events)\n", peak_megabytes(),
              static_cast<double>(events * sizeof(Event)) / 1e6);
  std::filesystem::remove(path);
  return read ? 0 : 1;
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--events") == 0)
    return reprise::measure_memory(std::strtoull(argv[2], nullptr, 10));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
