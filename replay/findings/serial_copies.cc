// Copies between host and device that others wait for: the host, because their
// memory is not pinned, or kernels, because they share a stream.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "data/integers.h"
#include "replay/findings/finding_kinds.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

/// From this share of a rank's time on, copying less is what helps.
constexpr double kMostOfTheTime = 0.5;

struct CopySum {
  std::map<std::string_view, int64_t> by_name;
  std::vector<int64_t> own_ns;  ///< [rank place]
  int64_t sum_ns = 0, count = 0, waited_ns = 0, waits = 0;
  uint32_t longest = 0;  ///< Node.
};

CopySum sum_copies(const FindingInput& input, const NodeSet& copies) {
  const TimedGraph& graph = input.graph;
  CopySum sum;
  sum.own_ns.assign(graph.ranks.size(), 0);
  int64_t longest_ns = -1;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    int64_t ready_ns = 0, copied_ns = 0;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      const int64_t end_ns = input.times.end_ns[edge.from];
      if (edge.kind == EdgeKind::kThread) ready_ns = end_ns;
      if (edge.kind != EdgeKind::kSynchronization) continue;
      if (copies[edge.from]) copied_ns = std::max(copied_ns, end_ns);
    }
    if (ready_ns != 0 && copied_ns > ready_ns) {
      sum.waited_ns = saturating_add(sum.waited_ns,
                                     saturating_subtract(copied_ns, ready_ns));
      ++sum.waits;
    }
    if (!copies[node]) continue;
    ++sum.count;
    sum.sum_ns = saturating_add(sum.sum_ns, graph.duration[node]);
    sum.own_ns[graph.rank[node]] =
        saturating_add(sum.own_ns[graph.rank[node]], graph.duration[node]);
    sum.by_name[input.name(node)] =
        saturating_add(sum.by_name[input.name(node)], graph.duration[node]);
    if (graph.duration[node] <= longest_ns) continue;
    longest_ns = graph.duration[node];
    sum.longest = node;
  }
  return sum;
}

Candidate candidate_of(const FindingInput& input, const CopySum& sum) {
  const auto most = std::max_element(
      sum.by_name.begin(), sum.by_name.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  Candidate candidate;
  candidate.origin = input.graph.origin[sum.longest];
  Finding& finding = candidate.finding;
  finding.where.ranks = {input.rank_number(sum.longest)};
  finding.where.kernel = most->first;
  finding.evidence.push_back(fmt::format(
      "{} takes {}, the longest {}", most->first, finding_time(most->second),
      finding_time(input.graph.duration[sum.longest])));
  if (sum.waits > 0) {
    finding.evidence.push_back(
        fmt::format("the host waits {} for {} of them, and for what is queued "
                    "before them",
                    finding_time(sum.waited_ns), sum.waits));
  }
  return candidate;
}

void add_less(const FindingInput& input, const CopySum& sum, NodeSet copies,
              Candidates& found) {
  Candidate candidate = candidate_of(input, sum);
  Finding& finding = candidate.finding;
  finding.what = fmt::format("copies take most of the time: {} copies, {}",
                             sum.count, finding_time(sum.sum_ns));
  finding.action =
      "copy less: keep on the device what does not change (weights, caches), "
      "copy in a smaller type";
  finding.command = "reprise replay TRACE --what-if 'op:HtoD|DtoH=0.5x'";
  candidate.remove = [copies = std::move(copies)](TimedGraph& edited) {
    remove_time(copies, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace

void find_serial_copies(const FindingInput& input, Candidates& found) {
  NodeSet copies = host_copies(input.facts, input.graph);
  const CopySum sum = sum_copies(input, copies);
  if (sum.count == 0 || sum.sum_ns + sum.waited_ns < input.least_ns) return;
  Candidate candidate = candidate_of(input, sum);
  Finding& finding = candidate.finding;
  finding.what =
      sum.waited_ns > sum.sum_ns
          ? fmt::format("the host waits for copies: {} for {}, which take {}",
                        finding_time(sum.waited_ns), sum.waits,
                        finding_time(sum.sum_ns))
          : fmt::format("other work waits for copies, which take {}",
                        finding_time(sum.sum_ns));
  finding.action =
      "copy the next batch from pinned memory on a stream of its own, while "
      "this one computes";
  finding.command = input.words(
      {"DataLoader(pin_memory=True); tensor.to(device, non_blocking=True)",
       "jax.device_put(next batch) before this one's results are read"});
  finding.what_if = "copies=overlapped";
  candidate.remove = [&input](TimedGraph& edited) {
    overlap_copies(input.facts, edited);
  };
  found.push_back(std::move(candidate));
  const int64_t most_ns =
      *std::max_element(sum.own_ns.begin(), sum.own_ns.end());
  const int64_t window_ns = replayed_span_ns(input.graph, input.times);
  if (static_cast<double>(most_ns) >
      kMostOfTheTime * static_cast<double>(window_ns)) {
    add_less(input, sum, std::move(copies), found);
  }
}

}  // namespace reprise
