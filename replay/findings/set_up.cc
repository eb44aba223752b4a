// Calls that set the device up (its context, modules that are loaded at their
// first kernel, first allocations), recorded as if they were work: far longer
// than any launch takes, while the device does nothing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

/// No launch or allocation of a warm process takes so long on an idle device: a
/// thousand times what the slowest launches of the public traces do.
constexpr int64_t kLeastSetUpNs = 100'000'000;
/// Of a call's time, in which the device may do something.
constexpr double kMostBusy = 0.1;

/// What each rank's device does, as intervals that neither touch nor overlap.
class BusyTimes {
 public:
  explicit BusyTimes(const FindingInput& input)
      : busy_(input.graph.ranks.size()) {
    const TimedGraph& graph = input.graph;
    for (uint32_t node = 0; node < graph.size(); ++node) {
      if (input.facts.on_host(graph.origin[node])) continue;
      busy_[graph.rank[node]].emplace_back(input.times.start_ns[node],
                                           input.times.end_ns[node]);
    }
    for (auto& intervals : busy_) merge(intervals);
  }

  int64_t within(uint32_t rank, int64_t start_ns, int64_t end_ns) const {
    int64_t sum_ns = 0;
    const auto& intervals = busy_[rank];
    auto at = std::partition_point(
        intervals.begin(), intervals.end(),
        [&](const Interval& one) { return one.second <= start_ns; });
    for (; at != intervals.end() && at->first < end_ns; ++at)
      sum_ns = saturating_add(
          sum_ns, std::min(at->second, end_ns) - std::max(at->first, start_ns));
    return sum_ns;
  }

 private:
  using Interval = std::pair<int64_t, int64_t>;

  static void merge(std::vector<Interval>& intervals) {
    std::sort(intervals.begin(), intervals.end());
    std::vector<Interval> merged;
    for (const Interval& one : intervals) {
      if (merged.empty() || one.first > merged.back().second) {
        merged.push_back(one);
      } else {
        merged.back().second = std::max(merged.back().second, one.second);
      }
    }
    intervals = std::move(merged);
  }

  std::vector<std::vector<Interval>> busy_;  ///< [rank]
};

}  // namespace

NodeSet set_up_calls(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  NodeSet found(graph.size(), false);
  const auto is_long = [&](uint32_t node) {
    return graph.duration[node] >= kLeastSetUpNs &&
           input.facts.is_call(graph.origin[node]);
  };
  uint32_t first = 0;
  while (first < graph.size() && !is_long(first)) ++first;
  if (first == graph.size()) return found;
  const BusyTimes busy(input);
  for (uint32_t node = first; node < graph.size(); ++node) {
    if (!is_long(node)) continue;
    const int64_t start_ns = input.times.start_ns[node];
    const int64_t end_ns = input.times.end_ns[node];
    found[node] =
        static_cast<double>(busy.within(graph.rank[node], start_ns, end_ns)) <=
        kMostBusy * static_cast<double>(end_ns - start_ns);
  }
  return found;
}

void find_set_up(const FindingInput& input, Candidates& found) {
  const TimedGraph& graph = input.graph;
  NodeSet nodes = set_up_calls(input);
  std::vector<int64_t> sum_ns(graph.ranks.size(), 0);
  std::map<std::string_view, int64_t> by_name;
  size_t calls = 0;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!nodes[node]) continue;
    ++calls;
    sum_ns[graph.rank[node]] =
        saturating_add(sum_ns[graph.rank[node]], graph.duration[node]);
    by_name[input.name(node)] =
        saturating_add(by_name[input.name(node)], graph.duration[node]);
  }
  if (calls == 0) return;
  const auto longest = std::max_element(sum_ns.begin(), sum_ns.end());
  const auto most = std::max_element(by_name.begin(), by_name.end(),
                                     [](const auto& one, const auto& other) {
                                       return one.second < other.second;
                                     });
  Candidate candidate;
  Finding& finding = candidate.finding;
  const auto place = static_cast<size_t>(longest - sum_ns.begin());
  finding.where.ranks = {input.facts.rank_number(graph.ranks[place].rank)};
  finding.where.kernel = most->first;
  finding.what =
      fmt::format("the device is set up while it is recorded: {} on rank {}",
                  finding_time(*longest), finding.where.ranks[0]);
  finding.evidence.push_back(
      fmt::format("{} calls of {} or more on an idle device, most of it in {}",
                  calls, finding_time(kLeastSetUpNs), most->first));
  finding.action =
      "record after the first steps; where every run is so short, keep the "
      "process";
  finding.command =
      input.words({"torch.profiler.schedule(wait=1, warmup=3, active=3)",
                   "jax.profiler.start_trace after three steps"});
  candidate.remove = [nodes = std::move(nodes)](TimedGraph& edited) {
    for (size_t node = 0; node < nodes.size(); ++node) {
      if (nodes[node]) edited.duration[node] = 0;
    }
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
