// How fast the graph of an imported trace is built, evaluated and replayed:
// nodes a second, of CPU time. The traces are made here: a Kineto-like one
// (host ops, launches, kernels on two streams, collectives over eight ranks)
// and a dPRO-like one (three hundred thousand operations ordered by
// dependencies alone).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "replay/collectives/collectives.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

constexpr uint32_t kRanks = 8;

uint32_t intern(Trace& trace, const std::string& text) {
  trace.strings.push_back(text);
  return static_cast<uint32_t>(trace.strings.size() - 1);
}

void add_rank(Trace& trace, uint32_t rank) {
  RankInfo info;
  info.rank = rank;
  info.clock_domain = "epoch";
  trace.ranks.push_back(info);
}

uint32_t add_stream(Trace& trace, uint32_t rank, StreamKind kind,
                    int64_t number) {
  StreamInfo info;
  info.rank = rank;
  info.kind = kind;
  info.number = number;
  info.device = kind == StreamKind::kDeviceStream ? 0 : -1;
  trace.streams.push_back(info);
  return static_cast<uint32_t>(trace.streams.size() - 1);
}

void add_event(Trace& trace, uint32_t stream, EventKind kind, uint32_t name,
               int64_t start_ns, int64_t duration_ns, int64_t correlation) {
  Event event;
  event.rank = trace.streams[stream].rank;
  event.stream = stream;
  event.kind = kind;
  event.name = StringId{name};
  event.start_ns = event.enqueue_ns = start_ns;
  event.end_ns = start_ns + duration_ns;
  event.correlation = correlation;
  if (kind == EventKind::kCollective) event.detail = 0;
  trace.events.push_back(event);
}

void sort(Trace& trace) {
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const Event& a, const Event& b) {
                     return std::tie(a.rank, a.start_ns, a.stream) <
                            std::tie(b.rank, b.start_ns, b.stream);
                   });
}

// Three events a kernel; every 32nd kernel is a collective on its own stream.
Trace kineto_like(uint32_t kernels) {
  Trace trace;
  const uint32_t op = intern(trace, "aten::op"),
                 call = intern(trace, "cudaLaunchKernel"),
                 kernel = intern(trace, "gemm"),
                 reduce = intern(trace, "ncclDevKernel_AllReduce");
  CollectiveInfo info;
  info.kind = CollectiveKind::kAllReduce;
  for (uint32_t rank = 0; rank < kRanks; ++rank) info.group.push_back(rank);
  trace.collectives.push_back(info);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    add_rank(trace, rank);
    const uint32_t host = add_stream(trace, rank, StreamKind::kHostThread, 1);
    const uint32_t compute =
        add_stream(trace, rank, StreamKind::kDeviceStream, 7);
    const uint32_t wire =
        add_stream(trace, rank, StreamKind::kDeviceStream, 20);
    for (uint32_t i = 0; i < kernels; ++i) {
      const int64_t at_ns = int64_t{20'000} * i;
      const bool collective = i % 32 == 31;
      add_event(trace, host, EventKind::kHostOp, op, at_ns, 15'000, -1);
      add_event(trace, host, EventKind::kRuntime, call, at_ns + 5'000, 4'000,
                i);
      add_event(trace, collective ? wire : compute,
                collective ? EventKind::kCollective : EventKind::kCompute,
                collective ? reduce : kernel, at_ns + 12'000, 18'000, i);
    }
  }
  sort(trace);
  return trace;
}

// Each operation needs the one before it on its stream, and every third one an
// operation of the other stream.
Trace dpro_like(uint32_t operations) {
  Trace trace;
  const uint32_t name = intern(trace, "FW.layer");
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    add_rank(trace, rank);
    const uint32_t first = add_stream(trace, rank, StreamKind::kTensor, 0);
    add_stream(trace, rank, StreamKind::kTensor, 1);
    for (uint32_t i = 0; i < operations / kRanks; ++i) {
      add_event(trace, first + i % 2, EventKind::kCompute, name,
                int64_t{10'000} * i, 9'000, -1);
      trace.events.back().external_id = i;
      if (i >= 2) trace.dependencies.push_back({rank, i - 2, i});
      if (i >= 3 && i % 3 == 0) trace.dependencies.push_back({rank, i - 3, i});
    }
  }
  sort(trace);
  return trace;
}

TimedGraph graph_of(const Trace& trace) {
  return *build_trace_graph(AlignedTrace::as_recorded(trace));
}

void count_nodes(benchmark::State& state, const TimedGraph& graph) {
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(graph.size()));
  state.counters["nodes"] = static_cast<double>(graph.size());
}

// State's argument: kernels of one rank.
void evaluate_graph(benchmark::State& state) {
  const Trace trace = kineto_like(static_cast<uint32_t>(state.range(0)));
  const TimedGraph graph = graph_of(trace);
  for (auto _ : state) {
    GraphTimes times = evaluate(graph);
    benchmark::DoNotOptimize(times.end_ns.data());
  }
  count_nodes(state, graph);
}
BENCHMARK(evaluate_graph)->Arg(1'000)->Arg(40'000);

void build_graph(benchmark::State& state) {
  const AlignedTrace trace = AlignedTrace::as_recorded(
      kineto_like(static_cast<uint32_t>(state.range(0))));
  TimedGraph graph;
  for (auto _ : state) {
    graph = *build_trace_graph(trace);
    benchmark::DoNotOptimize(graph.origin.data());
  }
  count_nodes(state, graph);
}
BENCHMARK(build_graph)->Arg(40'000)->Unit(benchmark::kMillisecond);

// From a trace in memory to its replayed timeline.
void replay_dpro_like(benchmark::State& state) {
  const Trace trace = dpro_like(static_cast<uint32_t>(state.range(0)));
  TimedGraph graph;
  for (auto _ : state) {
    graph = graph_of(trace);
    const Result<TraceReplay> replay = replay_trace(trace, graph);
    benchmark::DoNotOptimize(replay->predicted_ns);
  }
  count_nodes(state, graph);
}
BENCHMARK(replay_dpro_like)->Arg(300'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace reprise

BENCHMARK_MAIN();
