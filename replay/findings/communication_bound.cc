// Communication lasts longer than all that could run beside it: no order of the
// same work hides it.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "data/trace/intervals.h"
#include "replay/findings/finding_kinds.h"
#include "replay/simulate/what_if.h"

namespace reprise {
namespace {

/// [rank place] Instants of transfers, waits taken out, and of computing.
struct Busy {
  std::vector<IntervalSet> transfers, computing;
};

Busy busy_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  std::vector<std::vector<Interval>> transfers(graph.ranks.size());
  std::vector<std::vector<Interval>> computing(graph.ranks.size());
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const uint32_t rank = graph.rank[node];
    const int64_t end_ns = input.times.end_ns[node];
    if (graph.collective[node] >= 0) {
      const MatchedCollective& one =
          input.analysis.matching
              .collectives[static_cast<size_t>(graph.collective[node])];
      // Of those that lack ranks, waiting for these counts as transfer;
      // messages are what stages exchange, and no sums of gradients.
      const bool sums =
          !is_message(one.kind) || FindingInput::meets_server(one);
      if (one.members.size() < 2 || one.lacks_ranks() || !sums) continue;
      transfers[rank].push_back({end_ns - graph.duration[node], end_ns});
    } else if (input.computes[node]) {
      computing[rank].push_back({input.times.start_ns[node], end_ns});
    }
  }
  Busy busy;
  for (auto& of_rank : transfers) {
    busy.transfers.emplace_back(std::move(of_rank));
  }
  for (auto& of_rank : computing) {
    busy.computing.emplace_back(std::move(of_rank));
  }
  return busy;
}

constexpr FindingInput::Words kSendLess = {
    "send less: reduce in 16 bits (FSDP2: MixedPrecisionPolicy(reduce_dtype="
    "torch.bfloat16); DDP: bf16_compress_hook), reduce once for several "
    "micro-batches (no_sync(), set_requires_gradient_sync(False)), or put the "
    "ranks that share most on faster links",
    "send less: reduce in bfloat16, reduce once for several micro-batches, or "
    "put the axis that shares most on faster links",
    "send less: reduce in 16 bits, reduce once for several micro-batches, or "
    "put the ranks that share most on faster links"};

}  // namespace

void find_communication_bound(const FindingInput& input, Candidates& found) {
  if (input.analysis.lacks_ranks) return;
  const Busy busy = busy_of(input);
  int64_t most_ns = 0;  // By which transfers outlast what they could hide in.
  size_t worst = 0;
  for (size_t place = 0; place < busy.transfers.size(); ++place) {
    const int64_t computing_ns = busy.computing[place].length_ns();
    const int64_t over_ns = busy.transfers[place].length_ns() - computing_ns;
    if (computing_ns == 0 || over_ns <= most_ns) continue;
    most_ns = over_ns;
    worst = place;
  }
  if (most_ns < input.least_ns || most_ns == 0) return;
  const uint32_t rank = input.facts.rank_number(input.graph.ranks[worst].rank);
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what = fmt::format(
      "communication takes longer than all that could run beside it: {} of "
      "transfers, {} of compute on rank {}",
      finding_time(busy.transfers[worst].length_ns()),
      finding_time(busy.computing[worst].length_ns()), rank);
  finding.where.ranks = {rank};
  finding.evidence.push_back(
      "no order or overlap hides more; the gain is that of half the bytes, or "
      "of twice the bandwidth");
  finding.action = input.words(kSendLess);
  finding.what_if = "bandwidth=2x";
  candidate.remove = [&input](TimedGraph& edited) {
    const WhatIf twice = {
        .kind = WhatIfKind::kBandwidth, .factor = 2, .pattern = {}};
    const Status changed = apply_what_if(twice, input.facts, edited);
    static_cast<void>(changed);  // There are collectives.
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
