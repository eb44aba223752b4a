// The stages of a pipeline have unequal work: the slowest sets the pace.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr double kNotableStage = 1.05;  ///< Longest stage over the mean.

bool sends_between_ranks(const FindingInput& input) {
  const auto& collectives = input.analysis.matching.collectives;
  return std::any_of(collectives.begin(), collectives.end(),
                     [](const MatchedCollective& collective) {
                       return collective.kind == CollectiveKind::kSend &&
                              collective.members.size() > 1;
                     });
}

}  // namespace

void find_pipeline_stages(const FindingInput& input, Candidates& found) {
  if (input.graph.ranks.size() < 2 || !sends_between_ranks(input) ||
      is_exchange(input))
    return;
  const TimedGraph& graph = input.graph;
  std::vector<double> own_ns(graph.ranks.size(), 0);
  std::vector<int32_t> part(graph.size(), -1);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!input.computes[node]) continue;
    part[node] = 0;
    own_ns[graph.rank[node]] += static_cast<double>(graph.duration[node]);
  }
  const double mean_ns = std::accumulate(own_ns.begin(), own_ns.end(), 0.0) /
                         static_cast<double>(own_ns.size());
  const auto longest = std::max_element(own_ns.begin(), own_ns.end());
  const auto shortest = std::min_element(own_ns.begin(), own_ns.end());
  if (*shortest <= 0 || *longest < kNotableStage * mean_ns) return;
  std::vector<double> factor;
  factor.reserve(own_ns.size());
  for (const double own : own_ns) factor.push_back(mean_ns / own);
  const auto number = [&](const auto at) {
    return input.facts.rank_number(
        graph.ranks[static_cast<size_t>(at - own_ns.begin())].rank);
  };
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what = fmt::format(
      "pipeline stages are unequal: rank {} computes {}, the mean is {}",
      number(longest), finding_time(static_cast<int64_t>(*longest)),
      finding_time(static_cast<int64_t>(mean_ns)));
  finding.where.ranks = {number(longest)};
  finding.evidence.push_back(
      fmt::format("the least has rank {}, {}", number(shortest),
                  finding_time(static_cast<int64_t>(*shortest))));
  finding.action = "move layers from the long stage to short ones";
  finding.command =
      "Megatron-LM: --decoder-first-pipeline-num-layers, "
      "--decoder-last-pipeline-num-layers";
  candidate.remove = [part = std::move(part),
                      factor = std::move(factor)](TimedGraph& edited) {
    scale_parts(part, factor, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
