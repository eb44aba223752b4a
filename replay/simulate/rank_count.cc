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
double hops(const MeetingGroup& group, double ranks) {
  const double tree = std::ceil(std::log2(ranks));
  switch (facts_of(group.kind).wire) {
    case WireShare::kTwice:
      return 2 * (group.on_device && !group.by_ring ? std::min(ranks - 1, tree)
                                                    : ranks - 1);
    case WireShare::kOnce:
      return ranks - 1;
    case WireShare::kWhole:
      return tree;
    case WireShare::kNone:
      break;
  }
  return 0;
}

/// Which groups grow as the job does, and to how many ranks.
class Regrouping {
 public:
  template <typename Transfers>
  Regrouping(const Transfers& transfers, size_t job_ranks, uint32_t ranks)
      : ranks_(ranks) {
    bool known = true;
    for (const auto& transfer : transfers) {
      const MeetingGroup& group = transfer.group;
      // A pipeline's stages are farther apart than replicas are.
      known = known &&
              (group.ranks < 2 || (group.apart > 0 && !is_message(group.kind)));
      messages_ = messages_ || (group.ranks > 1 && is_message(group.kind));
      if (!is_message(group.kind)) farthest_ = std::max(farthest_, group.apart);
    }
    if (!known) farthest_ = 0;
    for (const auto& transfer : transfers) {
      const MeetingGroup& group = transfer.group;
      if (is_message(group.kind)) continue;
      everybody_ = std::max(everybody_, group.ranks);
      if (reaches_farthest(group)) largest_ = std::max(largest_, group.ranks);
    }
    job_ = std::max<uint64_t>(job_ranks, everybody_);
  }

  uint32_t largest() const { return largest_; }
  uint64_t job() const { return job_; }
  bool holds_messages() const { return messages_; }
  bool is_whole() const { return uint64_t{ranks_} * largest_ % job_ == 0; }
  bool holds(const MeetingGroup& group) const {
    return group.ranks == job_ ||
           (reaches_farthest(group) && group.ranks == largest_);
  }
  double size(const MeetingGroup& group) const {
    const uint64_t grown = uint64_t{ranks_} * group.ranks / job_;
    return static_cast<double>(grown);
  }

 private:
  bool reaches_farthest(const MeetingGroup& group) const {
    return farthest_ == 0 || group.apart == farthest_;
  }

  uint32_t ranks_, farthest_ = 0, largest_ = 0, everybody_ = 0;
  uint64_t job_ = 0;
  bool messages_ = false;
};

double grown(double whole_ns, double latency_ns, double absent_ns,
             const TransferGrowth& growth) {
  absent_ns = std::min(absent_ns, whole_ns);
  latency_ns = std::min(latency_ns, whole_ns - absent_ns);
  return std::min(absent_ns + latency_ns * growth.latency +
                      (whole_ns - absent_ns - latency_ns) * growth.wire,
                  kLongestEdit_ns);
}

void change_priced(const Regrouping& groups, TimedGraph& graph) {
  for (StepRules::Transfer& transfer : graph.rules->transfers) {
    if (!groups.holds(transfer.group)) continue;
    const TransferGrowth growth = transfer_growth(
        transfer.group, transfer.latency_ns, groups.size(transfer.group));
    transfer.duration_ns =
        grown(transfer.duration_ns, transfer.latency_ns, 0, growth);
    transfer.floor_ns =
        grown(transfer.floor_ns, transfer.latency_ns, 0, growth);
    transfer.wire_ns *= growth.wire;
    transfer.latency_ns *= growth.latency;
  }
  renew_transfers(graph);
}

void change_recorded(const Regrouping& groups, TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const TimedGraph::Transfer& transfer =
        std::as_const(graph)
            .transfers[static_cast<size_t>(graph.collective[node])];
    if (!groups.holds(transfer.group)) continue;
    const auto latency_ns = static_cast<double>(transfer.latency_ns);
    graph.duration[node] =
        std::llround(grown(static_cast<double>(graph.duration[node]),
                           latency_ns, static_cast<double>(transfer.absent_ns),
                           transfer_growth(transfer.group, latency_ns,
                                           groups.size(transfer.group))));
  }
  // For what-ifs that follow.
  for (TimedGraph::Transfer& transfer : graph.transfers) {
    if (!groups.holds(transfer.group)) continue;
    const auto latency_ns = static_cast<double>(transfer.latency_ns);
    transfer.latency_ns =
        std::llround(latency_ns * transfer_growth(transfer.group, latency_ns,
                                                  groups.size(transfer.group))
                                      .latency);
  }
}

}  // namespace

TransferGrowth transfer_growth(const MeetingGroup& group, double latency_ns,
                               double to) {
  const double from = group.ranks;
  if (facts_of(group.kind).wire == WireShare::kNone) return {};
  if (to < 2) return {.wire = 0, .latency = 0};
  const double call =
      group.on_device ? static_cast<double>(kCallLatency_ns) : 0;
  const double hop = std::max(static_cast<double>(kHopLatency_ns),
                              (latency_ns - call) / hops(group, from));
  return {.wire = bus_factor(group.kind, to) / bus_factor(group.kind, from),
          .latency = (call + hop * hops(group, to)) /
                     (call + hop * hops(group, from))};
}

Status change_rank_count(uint32_t ranks, TimedGraph& graph) {
  const Regrouping groups =
      graph.rules ? Regrouping(graph.rules->transfers, graph.job_ranks, ranks)
                  : Regrouping(graph.transfers, graph.job_ranks, ranks);
  const uint64_t largest = groups.largest();
  if (largest < 2 && groups.holds_messages()) {
    return fail(ErrorKind::kInvalid,
                "--what-if ranks={}: ranks send each other messages alone, as "
                "stages of a pipeline or servers do, and what more of them "
                "would exchange was not recorded: record two copies of the "
                "pipeline (data parallelism), or that many workers, and ask of "
                "that trace",
                ranks);
  }
  if (largest < 2) {
    return fail(ErrorKind::kInvalid,
                "--what-if ranks={}: the trace has no collective of several "
                "ranks",
                ranks);
  }
  if (!groups.is_whole()) {
    return fail(ErrorKind::kInvalid,
                "--what-if ranks={}: the job has {} ranks in groups of {}; "
                "give a multiple of {}",
                ranks, groups.job(), largest,
                groups.job() / std::gcd(groups.job(), largest));
  }
  if (graph.rules)
    change_priced(groups, graph);
  else
    change_recorded(groups, graph);
  return {};
}

}  // namespace reprise
