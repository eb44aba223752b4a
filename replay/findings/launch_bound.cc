// The device waits for the host, which takes longer to launch a step's work
// than the device takes to do it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

struct HostBound {
  uint32_t rank = 0;
  double share = -1;  ///< Of the rank's window, idle for the host.
  int64_t idle_ns = 0;
};

/// Below this, the device hardly waits at all.
constexpr double kLeastIdle = 0.01;

HostBound most_bound(const Analysis& analysis) {
  HostBound most;
  const auto add = [&](uint32_t rank, int64_t idle_ns, int64_t window_ns) {
    if (window_ns <= 0) return;
    const double share =
        static_cast<double>(idle_ns) / static_cast<double>(window_ns);
    if (share > most.share) most = {rank, share, idle_ns};
  };
  for (const RankAnalysis& rank : analysis.ranks) {
    if (rank.host_only) continue;
    if (!analysis.critical_path.step) {
      add(rank.rank, rank.idle.host_bound_ns(), rank.window.window_ns);
    }
    for (const StepAnalysis& step : rank.steps) {
      if (step.mark.step != analysis.critical_path.step) continue;
      add(rank.rank, step.idle.host_bound_ns(), step.window.window_ns);
    }
  }
  return most;
}

/// Of a rank, from its device's first start to its last end.
int64_t set_up_within(const FindingInput& input, uint32_t rank) {
  const TimedGraph& graph = input.graph;
  const NodeSet calls = set_up_calls(input);
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (input.rank_number(node) != rank ||
        input.facts.on_host(graph.origin[node]))
      continue;
    first_ns = std::min(first_ns, input.times.start_ns[node]);
    last_ns = std::max(last_ns, input.times.end_ns[node]);
  }
  std::vector<std::pair<int64_t, int64_t>> inside;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!calls[node] || input.rank_number(node) != rank) continue;
    inside.emplace_back(std::max(input.times.start_ns[node], first_ns),
                        std::min(input.times.end_ns[node], last_ns));
  }
  // Threads may wait for one set-up at once.
  std::sort(inside.begin(), inside.end());
  int64_t sum_ns = 0, counted_ns = first_ns;
  for (const auto& [start_ns, end_ns] : inside) {
    const int64_t from_ns = std::max(start_ns, counted_ns);
    if (end_ns <= from_ns) continue;
    sum_ns = saturating_add(sum_ns, end_ns - from_ns);
    counted_ns = end_ns;
  }
  return sum_ns;
}

}  // namespace

void find_launch_bound(const FindingInput& input, Candidates& found) {
  const TimedGraph& graph = input.graph;
  int64_t works = 0, tiny = 0;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (input.launch[node] == node) continue;
    ++works;
    tiny += graph.duration[node] < kTinyKernelNs ? 1 : 0;
  }
  if (works == 0) return;
  const HostBound bound = most_bound(input.analysis);
  if (bound.share < kLeastIdle) return;
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what = fmt::format(
      "the device waits for the host to launch: idle so {} of rank {}'s time",
      finding_share(bound.share), bound.rank);
  finding.where.ranks = {bound.rank};
  finding.evidence.push_back(fmt::format(
      "{} kernels and copies, {} of them shorter than {}", works,
      finding_share(static_cast<double>(tiny) / static_cast<double>(works)),
      finding_time(kTinyKernelNs)));
  finding.action =
      "launch graphs instead of kernels, or give each kernel more to do "
      "(larger batch, fused optimizer)";
  finding.command =
      input.words({"torch.compile(mode='reduce-overhead') or "
                   "torch.cuda.make_graphed_callables",
                   "jax.jit of the whole step; jax.lax.scan over several"});
  finding.what_if = "launch=graph";
  // Without steps, the window has host work before and after the device's. Nor
  // is the device set up by launches.
  const int64_t idle_ns = bound.idle_ns - set_up_within(input, bound.rank);
  if (!input.analysis.critical_path.step) candidate.most_ns = idle_ns;
  // Calls that set the device up stay, as no graph holds them; nor does a
  // what-if know them.
  NodeSet set_up = set_up_calls(input);
  if (std::find(set_up.begin(), set_up.end(), true) != set_up.end()) {
    finding.what_if.clear();
  }
  candidate.remove = [&input, set_up = std::move(set_up)](TimedGraph& edited) {
    DataLoading kept = data_loading(input.facts, edited);
    for (size_t node = 0; node < set_up.size(); ++node) {
      if (set_up[node]) kept.nodes[node] = true;
    }
    capture_launches(kept, input.facts, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
