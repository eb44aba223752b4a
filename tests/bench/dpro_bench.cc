// CPU time from a dPRO trace directory to a replayed timeline:
//   dpro_bench [TENSORS]      a case of its own: 8 ranks, 3 steps, by default
//                             360 tensors, which makes 302,376 events
//   dpro_bench DIRECTORY      any trace directory
// Of dPRO itself the same case takes 26 to 34 s (its CLI, option replay).
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/import/import.h"
#include "data/io/gzip.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/collectives/collectives.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

constexpr int kRanks = 8, kSteps = 3, kRounds = 5;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Writes one rank: every tensor of 4 MiB in a ring of one channel.
class RankWriter {
 public:
  RankWriter(std::string folder, int tensors)
      : folder_(std::move(folder)), tensors_(tensors) {}

  void write() {
    std::filesystem::create_directories(folder_);
    for (int step = 0; step < kSteps; ++step) write_step(step);
    put("trace.json.gz", gzip(events(operators_)));
    put("comm.json", events(names() + rows_));
    put("comm_detail.json", events(chunks_));
    put("dag.gml", graph());
    std::string list, sizes;
    for (int i = 0; i < tensors_; ++i) {
      list += fmt::format("{}\"w{}\"", i > 0 ? ", " : "", i);
      sizes += fmt::format(
          R"({}"gradients/l{}": {{"op": "Fake", "input": [], "output": [{{"name": "w{}", "shape": [1048576], "dtype": "float32"}}]}})",
          i > 0 ? ", " : "", i, i);
    }
    put("gradient_name_list.json",
        fmt::format(R"({{"gradient_name_list": [{}]}})", list));
    put("metadata.json", "{" + sizes + "}");
  }

 private:
  static std::string events(const std::string& list) {
    return "{\"traceEvents\": [" + list.substr(0, list.rfind(',')) + "]}";
  }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }

  std::string names() const {
    std::string text =
        R"({"ph": "M", "name": "process_name", "pid": 9999, "args": {"name": "Sync"}}, )";
    for (int i = 0; i < tensors_; ++i) {
      text += fmt::format(
          R"({{"ph": "M", "name": "process_name", "pid": {}, "args": {{"name": "horovod_allreduce.{}"}}}}, )",
          i, i);
    }
    return text;
  }

  std::string graph() const {
    std::string text = "graph [\n  directed 1\n";
    for (int i = 0; i < tensors_; ++i) {
      const char* const labels[] = {"FW.l", "BW.gradients/l", "Comm.",
                                    "UPDATE_.u"};
      for (int kind = 0; kind < 4; ++kind) {
        text += fmt::format("  node [\n    id {}\n    label \"{}{}\"\n  ]\n",
                            4 * i + kind, labels[kind], i);
      }
    }
    const auto edge = [&](int from, int to) {
      text += fmt::format("  edge [\n    source {}\n    target {}\n  ]\n", from,
                          to);
    };
    for (int i = 0; i < tensors_; ++i) {
      if (i > 0) edge(4 * (i - 1), 4 * i);
      if (i > 0) edge(4 * i + 1, 4 * (i - 1) + 1);
      edge(4 * i + 1, 4 * i + 2);
      edge(4 * i + 2, 4 * i + 3);
    }
    edge(4 * (tensors_ - 1), 4 * (tensors_ - 1) + 1);
    return text + "]\n";
  }

  void add_operator(const std::string& name, int step, double duration_us) {
    operators_ += fmt::format(
        R"({{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": {:.9f}, "dur": {:.9f}, "args": {{"long_name": "{}:Fake", "group_id": "{}"}}}}, )",
        now_us_, duration_us, name, step);
    now_us_ += duration_us + 3;
  }
  void add_row(const std::string& name, int process, double& at_us) {
    rows_ += fmt::format(
        R"({{"ph": "B", "name": "{}", "pid": {}, "ts": {:.9f}}}, {{"ph": "E", "pid": {}, "ts": {:.9f}}}, )",
        name, process, at_us, process, at_us + 10);
    at_us += 10;
  }
  void add_chunk(int tensor, const char* side, int chunk, double start_us,
                 double duration_us) {
    chunks_ += fmt::format(
        R"({{"name": "Comm.{}.{}", "ph": "X", "ts": {:.9f}, "dur": {:.9f}, "pid": "nccl", "tid": "x", "cat": "Comm", "args": {{"loopId": 0, "channelId": 0, "chunkId": {}, "sliceId": 0}}}}, )",
        tensor, side, start_us, duration_us, chunk);
  }

  // 300 us forward, 600 us backward and 67 us a hop of the ring.
  void write_step(int step) {
    constexpr double kHopUs = 67.4288, kUpdateUs = 20;
    constexpr int kHops = 2 * (kRanks - 1);
    for (int i = 0; i < tensors_; ++i) {
      add_operator(fmt::format("FW.l{}", i), step, 300.125);
    }
    double free_us = 0;
    for (int i = tensors_; i-- > 0;) {
      add_operator(fmt::format("BW.gradients/l{}", i), step, 600.25);
      double at_us = std::max(free_us, now_us_) + 5;
      add_row(std::to_string(i), 9999, at_us);
      add_row("QUEUE", i, at_us);
      add_row("MEMCPY_IN_FUSION_BUFFER", i, at_us);
      for (int hop = 0; hop < kHops; ++hop) {
        add_chunk(i, "SEND", hop, at_us, kHopUs);
        add_chunk(i, "RECV", hop, at_us + 1, kHopUs);
        at_us += kHopUs + 2;
      }
      add_row("MEMCPY_OUT_FUSION_BUFFER", i, at_us);
      free_us = at_us;
    }
    now_us_ = std::max(now_us_, free_us);
    for (int i = tensors_; i-- > 0;) {
      add_operator(fmt::format("UPDATE_.u{}", i), step, kUpdateUs);
    }
  }

  std::string folder_;
  int tensors_;
  double now_us_ = 1e6;
  std::string operators_ =
      R"({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "TensorFlow Ops"}}, )";
  std::string rows_, chunks_;
};

struct Round {
  double read_s = 0, gather_s = 0, replay_s = 0;
  size_t events = 0, nodes = 0;
  int64_t predicted_ns = 0, measured_ns = 0;
  double unexplained_share = 0;
  double total_s() const { return read_s + gather_s + replay_s; }
};

Result<Round> run(const std::string& directory) {
  Round round;
  const std::vector<std::string> paths = {directory};
  const double begin_s = cpu_seconds();
  Result<ImportResult> import = import_files(paths, {});
  if (!import) return pass(import.error());
  const double read_s = cpu_seconds();
  Result<Trace> trace = gather_spools(import->spools);
  if (!trace) return pass(trace.error());
  const double gathered_s = cpu_seconds();
  const AlignedTrace aligned = AlignedTrace::align(*std::move(trace));
  const Result<TimedGraph> graph = build_trace_graph(aligned);
  if (!graph) return pass(graph.error());
  const Result<TraceReplay> replay = replay_trace(aligned.trace(), *graph);
  if (!replay) return pass(replay.error());
  round.read_s = read_s - begin_s;
  round.gather_s = gathered_s - read_s;
  round.replay_s = cpu_seconds() - gathered_s;
  round.events = aligned.trace().events.size();
  round.nodes = graph->size();
  round.predicted_ns = replay->predicted_ns;
  round.measured_ns = replay->measured_ns;
  round.unexplained_share = replay->sources.unexplained;
  return round;
}

int report(const std::string& directory) {
  Round best;
  for (int i = 0; i < kRounds; ++i) {
    const Result<Round> round = run(directory);
    if (!round) {
      fmt::print(stderr, "dpro_bench: {}\n", round.error().message);
      return 1;
    }
    if (i == 0 || round->total_s() < best.total_s()) best = *round;
  }
  fmt::print(
      "{} events, {} nodes: {:.3f} s of CPU = import {:.3f} + gather {:.3f} + "
      "replay {:.3f} (least of {} rounds); predicted {:.3f} ms, recorded "
      "{:.3f} ms, {:.1f} % of it unexplained\n",
      best.events, best.nodes, best.total_s(), best.read_s, best.gather_s,
      best.replay_s, kRounds, static_cast<double>(best.predicted_ns) * 1e-6,
      static_cast<double>(best.measured_ns) * 1e-6,
      best.unexplained_share * 100);
  return best.predicted_ns > 0 ? 0 : 1;
}

}  // namespace
}  // namespace reprise

int main(int count, char** arguments) {
  int tensors = 360;
  if (count > 1) {
    const char* const text = arguments[1];
    const auto [rest, error] =
        std::from_chars(text, text + std::strlen(text), tensors);
    const bool number = error == std::errc() && *rest == '\0';
    if (!number) return reprise::report(text);
    tensors = std::clamp(tensors, 1, 10'000);
  }
  std::string folder = "/tmp/dpro_bench_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  for (int rank = 0; rank < reprise::kRanks; ++rank) {
    reprise::RankWriter(fmt::format("{}/host{}/0", folder, rank), tensors)
        .write();
  }
  const int status = reprise::report(folder);
  std::filesystem::remove_all(folder);
  return status;
}
