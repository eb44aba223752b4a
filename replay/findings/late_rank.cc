// One rank comes later than the others to the collectives that they all need.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/median.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

/// What a rank does itself, by where.
struct OwnWork {
  std::vector<double> host_ns, device_ns;  ///< [rank place]
};

OwnWork own_work(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  OwnWork work;
  work.host_ns.assign(graph.ranks.size(), 0);
  work.device_ns.assign(graph.ranks.size(), 0);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] >= 0) continue;
    const bool host = input.facts.on_host(graph.origin[node]);
    (host ? work.host_ns : work.device_ns)[graph.rank[node]] +=
        static_cast<double>(graph.duration[node] +
                            (host ? int64_t{graph.gap[node]} : 0));
  }
  return work;
}

/// How much more than the median rank, which is the lower of two.
double excess_ns(const std::vector<double>& own, size_t place) {
  return own[place] - lower_median(own);
}

std::string excess_clause(const char* what, const std::vector<double>& own,
                          size_t place) {
  return fmt::format("its {} work takes {}, the median rank's {}", what,
                     finding_time(static_cast<int64_t>(own[place])),
                     finding_time(static_cast<int64_t>(lower_median(own))));
}

/// Unequal work is moved, not taken away: its kinds say what that gains.
bool has_unequal_work(const Candidates& found) {
  return std::any_of(found.begin(), found.end(), [](const Candidate& one) {
    return one.finding.kind.starts_with("unequal");
  });
}

void explain(const OwnWork& work, size_t place, Finding& finding) {
  const double host_ns = excess_ns(work.host_ns, place);
  const double device_ns = excess_ns(work.device_ns, place);
  if (device_ns > host_ns && device_ns > 0) {
    finding.evidence.push_back(excess_clause("device", work.device_ns, place));
    finding.action =
        "compare its GPU's clocks and load with the others'; if it has more "
        "to do, give it less";
    finding.command = "nvidia-smi -q -d CLOCK,PERFORMANCE";
  } else if (host_ns > 0) {
    finding.evidence.push_back(excess_clause("host", work.host_ns, place));
    finding.action =
        "look at what its host does beside: its data, other processes, the "
        "cores that it may use";
    finding.command = "taskset -p PID; numactl --show";
  } else {
    finding.evidence.push_back("it enters the step later than the others");
    finding.action = "look at what it does between steps";
  }
}

}  // namespace

void find_late_rank(const FindingInput& input, Candidates& found) {
  const std::vector<Straggler>& stragglers = input.analysis.stragglers;
  if (stragglers.empty() || stragglers[0].last == 0) return;
  const Straggler& late = stragglers[0];
  const auto& ranks = input.graph.ranks;
  const auto span = std::find_if(
      ranks.begin(), ranks.end(), [&](const TimedGraph::Span& rank) {
        return input.facts.rank_number(rank.rank) == late.rank;
      });
  if (ranks.size() < 2 || span == ranks.end()) return;
  const OwnWork work = own_work(input);
  const auto place = static_cast<size_t>(span - ranks.begin());
  if (has_unequal_work(found) &&
      excess_ns(work.device_ns, place) > excess_ns(work.host_ns, place)) {
    return;
  }
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what = fmt::format("rank {} is late: last in {} of {} collectives",
                             late.rank, late.last, late.collectives);
  finding.where.ranks = {late.rank};
  finding.evidence.push_back(fmt::format(
      "it comes {} after the one before it, in all; others wait {} for it",
      finding_time(late.late_ns), finding_time(late.imposed_ns)));
  explain(work, place, finding);
  finding.what_if = "straggler=none";
  candidate.remove = [&input](TimedGraph& graph) {
    const Status levelled = level_ranks(input.facts, graph);
    static_cast<void>(levelled);  // Of one rank there is nothing to level.
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
