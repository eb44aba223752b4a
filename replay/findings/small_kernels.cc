// Runs of small kernels that one kernel could do. What a kernel lasts at least
// (its fixed part) is paid once a run, and so is its launch.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "replay/analysis/kernel_name.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr uint32_t kMostBetween = 64;  ///< Host nodes of one operator.

/// Libraries' kernels do not fuse with what is around them.
bool stands_alone(std::string_view name) {
  constexpr std::array<std::string_view, 12> kParts = {
      "gemm",  "conv", "flash", "attention",    "cutlass", "cudnn",
      "nvjet", "nccl", "sort",  "multi_tensor", "fft",     "memcpy"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

struct Runs {
  std::vector<std::vector<uint32_t>> lists;
  std::map<std::string_view, int64_t> count;  ///< By kernel.
  int64_t kernels = 0;
};

Runs find_runs(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  std::vector<int8_t> alone(input.facts.name_count(), -1);
  std::vector<uint32_t> run_of(graph.size(), 0);  // Number + 1.
  Runs runs;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (input.kinds[node] != PathKind::kKernel) continue;
    if (graph.duration[node] >= kTinyKernelNs) continue;
    int8_t& known = alone[input.facts.name_number(graph.origin[node])];
    if (known < 0) known = stands_alone(input.name(node)) ? 1 : 0;
    if (known == 1) continue;
    const uint32_t before = input.stream_before[node];
    uint32_t run = before == node ? 0 : run_of[before];
    if (run == 0) {
      runs.lists.emplace_back();
      run = static_cast<uint32_t>(runs.lists.size());
    }
    run_of[node] = run;
    runs.lists[run - 1].push_back(node);
  }
  std::erase_if(runs.lists, [](const auto& run) { return run.size() < 2; });
  for (const auto& run : runs.lists) {
    runs.kernels += static_cast<int64_t>(run.size());
    for (const uint32_t node : run) ++runs.count[input.name(node)];
  }
  return runs;
}

/// The fixed part of a kernel: of those recorded, a twentieth lasts less.
int64_t floor_ns(const FindingInput& input) {
  std::vector<int64_t> durations;
  for (uint32_t node = 0; node < input.graph.size(); ++node) {
    if (input.kinds[node] != PathKind::kKernel) continue;
    durations.push_back(input.graph.duration[node]);
  }
  if (durations.empty()) return 0;
  const size_t place = durations.size() / 20;
  std::nth_element(durations.begin(),
                   durations.begin() + static_cast<std::ptrdiff_t>(place),
                   durations.end());
  return durations[place];
}

/// What the host does between the launches of a run: nothing where it waits,
/// loads data or sets up the device there, which no fused kernel saves.
NodeSet launches_within(const FindingInput& input, const Runs& runs) {
  const TimedGraph& graph = input.graph;
  std::vector<uint32_t> before(graph.size());
  NodeSet waits = set_up_calls(input);
  const DataLoading data = data_loading(input.facts, graph);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    waits[node] = waits[node] || data.nodes[node] || data.gaps[node];
    before[node] = node;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      if (edge.kind == EdgeKind::kThread) before[node] = edge.from;
      waits[node] = waits[node] || edge.kind == EdgeKind::kSynchronization;
    }
  }
  NodeSet within(graph.size(), false);
  std::vector<uint32_t> passed;
  for (const auto& run : runs.lists) {
    for (size_t place = 1; place < run.size(); ++place) {
      const uint32_t from = input.launch[run[place - 1]];
      uint32_t at = input.launch[run[place]];
      if (at == run[place] || input.thread[at] != input.thread[from]) continue;
      passed.clear();
      while (at != from && before[at] != at && !waits[at] &&
             passed.size() < kMostBetween) {
        passed.push_back(at);
        at = before[at];
      }
      if (at != from) continue;
      for (const uint32_t node : passed) within[node] = true;
    }
  }
  return within;
}

}  // namespace

void find_small_kernels(const FindingInput& input, Candidates& found) {
  Runs runs = find_runs(input);
  if (runs.lists.empty()) return;
  const int64_t fixed_ns = floor_ns(input);
  const auto most = std::max_element(
      runs.count.begin(), runs.count.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  const uint32_t first = runs.lists[0][0];
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what =
      fmt::format("{} kernels shorter than {} follow each other: {} could do",
                  runs.kernels, finding_time(kTinyKernelNs), runs.lists.size());
  finding.where.ranks = {input.rank_number(first)};
  finding.where.kernel = short_kernel_name(most->first);
  finding.evidence.push_back(fmt::format(
      "most are {} ({}); {}", finding.where.kernel, most->second,
      fixed_ns > 0
          ? fmt::format("a kernel lasts {} at least", finding_time(fixed_ns))
          : "some last less than the recording's clock "
            "tells, so what each lasts at least is left "
            "out"));
  finding.action = "fuse them";
  finding.command =
      input.words({"torch.compile(model); torch.optim.AdamW(..., fused=True)",
                   "jax.jit of the whole step"});
  candidate.origin = input.graph.origin[first];
  candidate.remove = [freed = launches_within(input, runs), fixed_ns,
                      lists = std::move(runs.lists)](TimedGraph& edited) {
    fuse_kernels(lists, fixed_ns, freed, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
