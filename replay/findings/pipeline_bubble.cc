// A pipeline fills and drains: every stage waits for messages of its
// neighbours, even the one that computes most.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "data/trace/intervals.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

/// [rank place] How long it computes nothing while it waits for others, to the
/// end of the last one; 0 of a rank without messages.
std::vector<int64_t> waits_for_others(const FindingInput& input,
                                      const NodeSet& messages) {
  const TimedGraph& graph = input.graph;
  const auto& collectives = input.analysis.matching.collectives;
  constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  std::vector<std::vector<Interval>> waits(graph.ranks.size());
  std::vector<std::vector<Interval>> busy(graph.ranks.size());
  std::vector<int64_t> last_ns(graph.ranks.size(), kNever);
  std::vector<bool> sends(graph.ranks.size(), false);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const uint32_t rank = graph.rank[node];
    const int64_t start_ns = input.times.start_ns[node];
    const int64_t end_ns = input.times.end_ns[node];
    if (input.computes[node]) busy[rank].push_back({start_ns, end_ns});
    last_ns[rank] = std::max(last_ns[rank], end_ns);
    if (graph.collective[node] < 0) continue;
    const auto place = static_cast<size_t>(graph.collective[node]);
    if (collectives[place].members.size() < 2) continue;
    waits[rank].push_back({start_ns, end_ns - graph.duration[node]});
    sends[rank] = sends[rank] || messages[node];
  }
  const int64_t end_ns = *std::max_element(last_ns.begin(), last_ns.end());
  std::vector<int64_t> waited_ns(graph.ranks.size());
  for (size_t rank = 0; rank < waits.size(); ++rank) {
    if (!sends[rank]) continue;
    waits[rank].push_back({last_ns[rank], end_ns});
    waited_ns[rank] = subtracted(IntervalSet(std::move(waits[rank])),
                                 IntervalSet(std::move(busy[rank])))
                          .length_ns();
  }
  return waited_ns;
}

}  // namespace

void find_pipeline_bubble(const FindingInput& input, Candidates& found) {
  if (input.graph.ranks.size() < 2 || is_exchange(input)) return;
  NodeSet messages = message_nodes(input.graph);
  const std::vector<int64_t> waited_ns = waits_for_others(input, messages);
  const auto least = std::min_element(waited_ns.begin(), waited_ns.end());
  // A rank that the others wait for waits for nobody: it is late, or has more
  // to do.
  if (*least < input.least_ns || *least <= 0) return;
  const auto place = static_cast<size_t>(least - waited_ns.begin());
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what = fmt::format(
      "the pipeline fills and drains: every rank waits {} or more for others",
      finding_time(*least));
  finding.evidence.push_back(
      fmt::format("rank {} waits least, {}, and computes nothing meanwhile",
                  input.facts.rank_number(input.graph.ranks[place].rank),
                  finding_time(*least)));
  finding.action = input.words(
      {"more micro-batches a step, or an interleaved or zero-bubble schedule "
       "(torch.distributed.pipelining: ScheduleInterleaved1F1B, "
       "ScheduleInterleavedZeroBubble; Megatron-LM: "
       "--num-layers-per-virtual-pipeline-stage)",
       "more micro-batches a step, or several stages a device in turn",
       "more micro-batches a step, or an interleaved schedule"});
  candidate.most_ns = *least;
  candidate.remove = [messages = std::move(messages)](TimedGraph& edited) {
    free_ends(messages, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
