// The step waits for its data.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/integers.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {

void find_data_loading(const FindingInput& input, Candidates& found) {
  const TimedGraph& graph = input.graph;
  DataLoading data = data_loading(input.facts, graph);
  std::vector<int64_t> own_ns(graph.ranks.size(), 0);
  Candidate candidate;
  std::string_view range;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    int64_t& own = own_ns[graph.rank[node]];
    if (data.nodes[node]) {
      own = saturating_add(
          own, saturating_add(graph.duration[node], graph.gap[node]));
    } else if (data.gaps[node]) {
      own = saturating_add(own, graph.named[node]);
    } else {
      continue;
    }
    if (!range.empty()) continue;
    candidate.origin = data.gaps[node] ? graph.range[node] : graph.origin[node];
    range = input.facts.name(candidate.origin);
  }
  if (range.empty()) return;
  const auto longest = std::max_element(own_ns.begin(), own_ns.end());
  Finding& finding = candidate.finding;
  finding.where.ranks = {input.facts.rank_number(
      graph.ranks[static_cast<size_t>(longest - own_ns.begin())].rank)};
  finding.what = fmt::format("the step waits for its data: {} on rank {}",
                             finding_time(*longest), finding.where.ranks[0]);
  finding.where.kernel = range;
  finding.evidence.push_back(fmt::format("in {}", range));
  const bool single = range.find("SingleProcess") != std::string_view::npos;
  finding.action = single ? "load batches in other processes, ahead of the step"
                          : "more workers or batches ahead; cheaper decoding";
  finding.command =
      input.words({single ? "DataLoader(num_workers=4, pin_memory=True, "
                            "persistent_workers=True)"
                          : "DataLoader(num_workers=MORE, prefetch_factor=4, "
                            "persistent_workers=True)",
                   ""});
  finding.what_if = "data=none";
  candidate.remove = [data = std::move(data)](TimedGraph& edited) {
    remove_data_loading(data, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
