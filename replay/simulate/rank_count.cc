#include "replay/simulate/rank_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "replay/graph/step_rules.h"
#include "replay/simulate/graph_edits.h"

namespace reprise {
namespace {

// Messages one after the other.
double hops(WireShare share, double ranks, bool on_device) {
  const double tree = std::ceil(std::log2(ranks));
  switch (share) {
    case WireShare::kTwice:
      return 2 * (on_device ? std::min(ranks - 1, tree) : ranks - 1);
    case WireShare::kOnce:
      return ranks - 1;
    case WireShare::kWhole:
      return tree;
    case WireShare::kNone:
      break;
  }
  return 0;
}

bool is_regrouped(const MeetingGroup& group, uint32_t largest) {
  return group.ranks == largest;
}

double grown(double whole_ns, double latency_ns, double absent_ns,
             const TransferGrowth& growth) {
  absent_ns = std::min(absent_ns, whole_ns);
  latency_ns = std::min(latency_ns, whole_ns - absent_ns);
  return std::min(absent_ns + latency_ns * growth.latency +
                      (whole_ns - absent_ns - latency_ns) * growth.wire,
                  kLongestEdit_ns);
}

void change_priced(double ranks, uint32_t largest, TimedGraph& graph) {
  for (StepRules::Transfer& transfer : graph.rules->transfers) {
    if (!is_regrouped(transfer.group, largest)) continue;
    const TransferGrowth growth = transfer_growth(transfer.group, ranks);
    transfer.duration_ns =
        grown(transfer.duration_ns, transfer.latency_ns, 0, growth);
    transfer.floor_ns =
        grown(transfer.floor_ns, transfer.latency_ns, 0, growth);
    transfer.wire_ns *= growth.wire;
    transfer.latency_ns *= growth.latency;
  }
  renew_transfers(graph);
}

void change_recorded(double ranks, uint32_t largest, TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const TimedGraph::Transfer& transfer =
        std::as_const(graph)
            .transfers[static_cast<size_t>(graph.collective[node])];
    if (!is_regrouped(transfer.group, largest)) continue;
    graph.duration[node] =
        std::llround(grown(static_cast<double>(graph.duration[node]),
                           static_cast<double>(transfer.latency_ns),
                           static_cast<double>(transfer.absent_ns),
                           transfer_growth(transfer.group, ranks)));
  }
  // For what-ifs that follow.
  for (TimedGraph::Transfer& transfer : graph.transfers) {
    if (!is_regrouped(transfer.group, largest)) continue;
    transfer.latency_ns =
        std::llround(static_cast<double>(transfer.latency_ns) *
                     transfer_growth(transfer.group, ranks).latency);
  }
}

template <typename Transfers>
uint32_t largest_group(const Transfers& transfers) {
  uint32_t largest = 0;
  for (const auto& transfer : transfers) {
    const MeetingGroup& group = transfer.group;
    if (!is_message(group.kind)) largest = std::max(largest, group.ranks);
  }
  return largest;
}

}  // namespace

TransferGrowth transfer_growth(const MeetingGroup& group, double to) {
  const double from = group.ranks;
  const WireShare share = facts_of(group.kind).wire;
  if (share == WireShare::kNone) return {};
  if (to < 2) return {.wire = 0, .latency = 0};
  const double call =
      group.on_device ? static_cast<double>(kCallLatency_ns) : 0;
  const auto latency = [&](double ranks) {
    return call + static_cast<double>(kHopLatency_ns) *
                      hops(share, ranks, group.on_device);
  };
  return {.wire = bus_factor(group.kind, to) / bus_factor(group.kind, from),
          .latency = latency(to) / latency(from)};
}

Status change_rank_count(uint32_t ranks, TimedGraph& graph) {
  const uint32_t largest = graph.rules ? largest_group(graph.rules->transfers)
                                       : largest_group(graph.transfers);
  if (largest < 2) {
    return fail(ErrorKind::kInvalid,
                "--what-if ranks={}: the trace has no collective of several "
                "ranks",
                ranks);
  }
  const uint64_t job = std::max<uint64_t>(graph.job_ranks, largest);
  const uint64_t members = uint64_t{ranks} * largest;
  if (members % job != 0) {
    return fail(ErrorKind::kInvalid,
                "--what-if ranks={}: the job has {} ranks in groups of {}; "
                "give a multiple of {}",
                ranks, job, largest, job / std::gcd(job, largest));
  }
  const uint64_t grown_to = members / job;
  const auto to = static_cast<double>(grown_to);
  if (graph.rules)
    change_priced(to, largest, graph);
  else
    change_recorded(to, largest, graph);
  return {};
}

}  // namespace reprise
