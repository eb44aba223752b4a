// Experts have unequal work: between the all-to-all that hands tokens out and
// the one that collects them, all ranks wait for the busiest.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr double kNotableExpert = 1.1;  ///< Busiest rank over the mean.

/// Work between two all-to-alls, as the first one's place.
struct Parts {
  std::vector<int32_t> of_node;  ///< [node] or -1.
  int32_t count = 0;
};

Parts find_parts(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  const auto& collectives = input.analysis.matching.collectives;
  using End = std::pair<int64_t, int32_t>;  // Of an all-to-all; its part.
  std::vector<std::vector<End>> ends(graph.ranks.size());
  std::map<int32_t, int32_t> part_of;  // Place in the matching.
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const int32_t place = graph.collective[node];
    if (place < 0) continue;
    const MatchedCollective& one = collectives[static_cast<size_t>(place)];
    if (one.kind != CollectiveKind::kAllToAll || one.members.size() < 2) {
      continue;
    }
    const auto [part, added] =
        part_of.try_emplace(place, static_cast<int32_t>(part_of.size()));
    ends[graph.rank[node]].emplace_back(input.times.end_ns[node], part->second);
  }
  Parts parts;
  parts.count = static_cast<int32_t>(part_of.size());
  parts.of_node.assign(graph.size(), -1);
  for (auto& of_rank : ends) std::sort(of_rank.begin(), of_rank.end());
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!input.computes[node]) continue;
    const auto& of_rank = ends[graph.rank[node]];
    const auto after =
        std::upper_bound(of_rank.begin(), of_rank.end(),
                         End{input.times.start_ns[node], parts.count});
    // What follows the last one is nobody's turn.
    if (after == of_rank.begin() || after == of_rank.end()) continue;
    parts.of_node[node] = std::prev(after)->second;
  }
  return parts;
}

struct Busiest {
  double excess_ns = 0;
  size_t rank = 0;  ///< Place.
  double own_ns = 0, mean_ns = 0;
  int64_t unequal = 0;
};

/// Ranks without work in a part are not in its group.
Busiest level(std::span<const double> own_ns, size_t ranks,
              std::vector<double>& factor) {
  Busiest busiest;
  for (size_t first = 0; first < own_ns.size(); first += ranks) {
    double sum_ns = 0;
    size_t count = 0, most = first;
    for (size_t at = first; at < first + ranks; ++at) {
      sum_ns += own_ns[at];
      count += own_ns[at] > 0 ? 1 : 0;
      if (own_ns[at] > own_ns[most]) most = at;
    }
    const double mean_ns = count > 0 ? sum_ns / static_cast<double>(count) : 0;
    if (count < 2 || own_ns[most] < kNotableExpert * mean_ns) continue;
    ++busiest.unequal;
    for (size_t at = first; at < first + ranks; ++at) {
      if (own_ns[at] > 0) factor[at] = mean_ns / own_ns[at];
    }
    if (own_ns[most] - mean_ns <= busiest.excess_ns) continue;
    busiest.excess_ns = own_ns[most] - mean_ns;
    busiest.rank = most - first;
    busiest.own_ns = own_ns[most];
    busiest.mean_ns = mean_ns;
  }
  return busiest;
}

}  // namespace

void find_experts(const FindingInput& input, Candidates& found) {
  const TimedGraph& graph = input.graph;
  const size_t ranks = graph.ranks.size();
  if (ranks < 2) return;
  Parts parts = find_parts(input);
  if (parts.count < 2) return;
  std::vector<double> own_ns(static_cast<size_t>(parts.count) * ranks, 0);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (parts.of_node[node] < 0) continue;
    own_ns[static_cast<size_t>(parts.of_node[node]) * ranks +
           uint32_t{graph.rank[node]}] +=
        static_cast<double>(graph.duration[node]);
  }
  std::vector<double> factor(own_ns.size(), 1);
  const Busiest busiest = level(own_ns, ranks, factor);
  if (busiest.unequal == 0) return;
  const uint32_t rank = input.facts.rank_number(graph.ranks[busiest.rank].rank);
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what = fmt::format(
      "work between all-to-alls is unequal: rank {} computes {}, the mean is "
      "{}",
      rank, finding_time(static_cast<int64_t>(busiest.own_ns)),
      finding_time(static_cast<int64_t>(busiest.mean_ns)));
  finding.where.ranks = {rank};
  finding.evidence.push_back(fmt::format(
      "in {} of {} stretches one rank has over {:.0f} % more than the mean",
      busiest.unequal, parts.count - 1, (kNotableExpert - 1) * 100));
  finding.action =
      "level the tokens of experts: auxiliary loss, a capacity factor, or "
      "experts placed by load";
  finding.command = "Megatron-LM: --moe-router-load-balancing-type aux_loss";
  candidate.remove = [part = std::move(parts.of_node),
                      factor = std::move(factor)](TimedGraph& edited) {
    scale_parts(part, factor, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
