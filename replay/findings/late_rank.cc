// One rank comes later than the others to the collectives that they all need.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "data/median.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

/// What a rank does itself, by where.
struct OwnWork {
  std::vector<double> host_ns, device_ns;  ///< [rank place]
  std::vector<double> entered_ns;  ///< [rank place] When its step begins.
  /// A host was recorded; else its time is that of the device's gaps, and of
  /// collectives alone that between them.
  bool has_host = false, has_device = false;
};

OwnWork own_work(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  const NodeSet own = own_gaps(input.facts, graph);
  OwnWork work;
  work.host_ns.assign(graph.ranks.size(), 0);
  work.device_ns.assign(graph.ranks.size(), 0);
  for (const TimedGraph::Span& rank : graph.ranks)
    work.entered_ns.push_back(static_cast<double>(rank.begin_ns()));
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.under_way(node)) continue;
    const uint32_t rank = graph.rank[node];
    if (own[node]) work.host_ns[rank] += static_cast<double>(graph.gap[node]);
    if (graph.collective[node] >= 0) continue;
    const bool host = input.facts.on_host(graph.origin[node]);
    (host ? work.host_ns : work.device_ns)[rank] +=
        static_cast<double>(graph.duration[node]);
    (host ? work.has_host : work.has_device) = true;
  }
  return work;
}

/// How much more than the median rank, which is the lower of two.
double excess_ns(const std::vector<double>& own, size_t place) {
  return own[place] - lower_median(own);
}

/// A second rank that is late by this share of the first one's time is no
/// noise: what makes a rank late moves.
constexpr double kByTurns = 0.5;

/// What of its lateness was passed on by another rank is none of its own.
bool is_late_too(const Straggler& other, const Straggler& late) {
  return static_cast<double>(other.late_ns - other.passed_on_ns) >
         kByTurns * static_cast<double>(late.late_ns);
}

/// `what`: "device work takes".
std::string excess_clause(const std::string& whose, const char* what,
                          const std::vector<double>& own, size_t place) {
  return fmt::format("{} {} {}, the median rank's {}", whose, what,
                     finding_time(static_cast<int64_t>(own[place])),
                     finding_time(static_cast<int64_t>(lower_median(own))));
}

/// Unequal work is moved, not taken away: its kinds say what that gains.
bool has_unequal_work(const Candidates& found) {
  return std::any_of(found.begin(), found.end(), [](const Candidate& one) {
    return one.finding.kind.starts_with("unequal");
  });
}

double most_excess_ns(const OwnWork& work, size_t place) {
  return std::max(excess_ns(work.host_ns, place),
                  excess_ns(work.device_ns, place));
}

std::optional<size_t> rank_place(const FindingInput& input, uint32_t rank) {
  const auto& ranks = input.graph.ranks;
  for (size_t place = 0; place < ranks.size(); ++place) {
    if (input.facts.rank_number(ranks[place].rank) == rank) return place;
  }
  return std::nullopt;
}

/// By what the rank at `place` does, which is the finding's or the worst of
/// several.
void explain(const FindingInput& input, const OwnWork& work, size_t place,
             Finding& finding) {
  const double host_ns = excess_ns(work.host_ns, place);
  const double device_ns = excess_ns(work.device_ns, place);
  const bool several = finding.where.ranks.size() > 1;
  const std::string rank = fmt::format(
      "rank {}", input.facts.rank_number(input.graph.ranks[place].rank));
  const std::string whose = several ? rank + "'s" : "its";
  if (device_ns > host_ns && device_ns > 0) {
    finding.evidence.push_back(
        excess_clause(whose, "device work takes", work.device_ns, place));
    finding.action = several
                         ? "compare their GPUs' clocks and load with the "
                           "others'; if they have more to do, give them less"
                         : "compare its GPU's clocks and load with the "
                           "others'; if it has more to do, give it less";
    finding.command = "nvidia-smi -q -d CLOCK,PERFORMANCE";
  } else if (host_ns > std::max(0.0, excess_ns(work.entered_ns, place))) {
    finding.evidence.push_back(
        excess_clause(whose,
                      work.has_host     ? "host work takes"
                      : work.has_device ? "device waits for its host"
                                        : "time between collectives is",
                      work.host_ns, place));
    finding.action = several
                         ? "look at what their hosts do beside: their data, "
                           "other processes, the cores that they may use"
                         : "look at what its host does beside: its data, "
                           "other processes, the cores that it may use";
    finding.command = "taskset -p PID; numactl --show";
  } else {
    finding.evidence.push_back(
        fmt::format("{} enters the step later than the others",
                    several ? rank : std::string("it")));
    finding.action = several ? "look at what they do between steps"
                             : "look at what it does between steps";
  }
}

std::function<void(TimedGraph&)> levelling(const FindingInput& input) {
  return [&input](TimedGraph& graph) {
    const Status levelled = level_ranks(input.facts, graph);
    static_cast<void>(levelled);  // Of one rank there is nothing to level.
  };
}

// Ranks that are late together, as those of a slow node: none of them comes
// last by itself, but they have more to do than the others.
void find_late_group(const FindingInput& input, const OwnWork& work,
                     Candidates& found) {
  const size_t ranks = work.host_ns.size();
  double most_ns = 0;
  size_t latest = 0;
  for (size_t place = 0; place < ranks; ++place) {
    if (most_excess_ns(work, place) <= most_ns) continue;
    most_ns = most_excess_ns(work, place);
    latest = place;
  }
  if (most_ns <= 0 || input.analysis.collectives.empty()) return;
  Candidate candidate;
  Finding& finding = candidate.finding;
  for (size_t place = 0; place < ranks; ++place) {
    if (most_excess_ns(work, place) >= kByTurns * most_ns) {
      finding.where.ranks.push_back(
          input.facts.rank_number(input.graph.ranks[place].rank));
    }
  }
  std::sort(finding.where.ranks.begin(), finding.where.ranks.end());
  const bool one = finding.where.ranks.size() == 1;
  finding.what = fmt::format(
      "rank{} {} {} more to do than the others, which wait", one ? "" : "s",
      fmt::join(finding.where.ranks, ", "), one ? "has" : "have");
  explain(input, work, latest, finding);
  finding.what_if = "straggler=none";
  candidate.remove = levelling(input);
  found.push_back(std::move(candidate));
}

}  // namespace

void find_late_rank(const FindingInput& input, Candidates& found) {
  if (input.graph.ranks.size() < 2 || input.analysis.lacks_ranks) return;
  const std::vector<Straggler>& stragglers = input.analysis.stragglers;
  const OwnWork work = own_work(input);
  if (stragglers.empty() || stragglers[0].last == 0) {
    if (!has_unequal_work(found)) find_late_group(input, work, found);
    return;
  }
  const Straggler& late = stragglers[0];
  std::optional<size_t> place = rank_place(input, late.rank);
  if (!place) return;
  if (has_unequal_work(found) &&
      excess_ns(work.device_ns, *place) > excess_ns(work.host_ns, *place)) {
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
  if (stragglers.size() > 1 && is_late_too(stragglers[1], late)) {
    const Straggler& other = stragglers[1];
    finding.what = fmt::format(
        "ranks {} and {} are late by turns: last in {} and {} of {} "
        "collectives",
        late.rank, other.rank, late.last, other.last, late.collectives);
    finding.where.ranks.push_back(other.rank);
    finding.evidence = {
        fmt::format("they come {} and {} after the one before, in all",
                    finding_time(late.late_ns), finding_time(other.late_ns))};
    // Who is late in the step that is replayed.
    const std::optional<size_t> own = rank_place(input, other.rank);
    if (own && most_excess_ns(work, *own) > most_excess_ns(work, *place))
      place = own;
  }
  explain(input, work, *place, finding);
  finding.what_if = "straggler=none";
  candidate.remove = levelling(input);
  found.push_back(std::move(candidate));
}

}  // namespace reprise
