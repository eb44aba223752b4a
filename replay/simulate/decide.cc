// An end tells the nodes behind it; one that has heard from all of them begins,
// or waits for its time, its resource or its meeting.
#include "replay/simulate/decide.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "data/result.h"
#include "replay/graph/step_rules.h"
#include "replay/simulate/running_tasks.h"

namespace reprise {
namespace {

int64_t rounded_up(int64_t ticks, int tick_bits) {
  return (ticks + ((int64_t{1} << tick_bits) - 1)) >> tick_bits;
}

using ReadyNodes = std::priority_queue<uint32_t, std::vector<uint32_t>,
                                       std::greater<uint32_t>>;

// When the last member of a meeting comes.
int64_t arrival_ns(const TimedGraph& graph, uint32_t leader,
                   const std::vector<int64_t>& start_ns) {
  int64_t latest_ns = -kEndOfTime;
  for (uint32_t at = leader; at < leader + graph.meeting[leader]; ++at)
    latest_ns = std::max(latest_ns, start_ns[at]);
  return latest_ns;
}

// Who of a meeting has come.
class Arrivals {
 public:
  explicit Arrivals(const TimedGraph& graph)
      : graph_(graph), absent_(graph.meeting.values()) {
    for (const TimedGraph::Partner& one : graph.partners) {
      absent_[one.node] =
          static_cast<uint32_t>(1 + graph.partners_of(one.node).size());
    }
  }

  // One more has; whether all have now.
  bool are_all(uint32_t leader) { return --absent_[leader] == 0; }

  // Whether members wait for some of the others each.
  bool are_apart(uint32_t leader) const {
    if (graph_.partners.empty()) return false;
    const auto partner =
        std::lower_bound(graph_.partners.begin(), graph_.partners.end(),
                         TimedGraph::Partner{.node = leader});
    return partner != graph_.partners.end() &&
           partner->node < leader + graph_.meeting[leader];
  }

  // `node` has come: the members that waited for it last.
  std::vector<uint32_t> released_by(uint32_t node, uint32_t leader) {
    std::vector<uint32_t> released;
    for (uint32_t at = leader; at < leader + graph_.meeting[leader]; ++at) {
      const std::span partners = graph_.partners_of(at);
      const auto is_node = [&](const TimedGraph::Partner& partner) {
        return partner.awaited == node;
      };
      const bool awaits =
          at == node || std::any_of(partners.begin(), partners.end(), is_node);
      if (!partners.empty() && awaits && --absent_[at] == 0)
        released.push_back(at);
    }
    return released;
  }

 private:
  const TimedGraph& graph_;
  // [first of a meeting, or node that has partners] Not yet arrived.
  std::vector<uint32_t> absent_;
};

class Decision {
 public:
  explicit Decision(const TimedGraph& graph)
      : graph_(graph),
        rules_(graph.rules ? &*graph.rules : nullptr),
        ranks_(graph.ranks.size()),
        tasks_(graph),
        arrivals_(graph),
        running_(graph.capacity.size()),
        waiting_(graph.capacity.size()) {
    if (rules_ != nullptr) {
      credits_.assign(ranks_.size(), LinkCredit(*rules_));
    }
    const size_t count = graph.size();
    times_.start_ns.resize(count);
    times_.end_ns.resize(count);
    times_.begun_ns.resize(count);
    times_.cause.assign(count, GraphTimes::kNoEdge);
    find_successors();
  }

  GraphTimes run() {
    const uint32_t count = static_cast<uint32_t>(graph_.size());
    now_ns_ = -kEndOfTime;
    if (rules_ != nullptr) now_ns_ = graph_.ranks.front().start_ns;
    for (uint32_t node = 0; node < count; ++node) {
      if (graph_.first[node] == graph_.first[node + 1]) become_ready(node);
    }
    tasks_.refresh(now_ns_);
    while (tasks_.next_ns() != EarliestEvent::kNever) {
      now_ns_ = tasks_.next_ns();
      handle(tasks_.next_slot());
      tasks_.refresh(now_ns_);
    }
    REPRISE_CHECK(ended_ == count);
    if (rules_ != nullptr)
      times_.finish_ns = step_end_ns(*rules_, now_ns_, ranks_);
    return std::move(times_);
  }

 private:
  struct Successor {
    uint32_t node, edge;
  };

  // The edges by source, targets ascending.
  void find_successors() {
    const uint32_t count = static_cast<uint32_t>(graph_.size());
    successor_first_.assign(count + 2, 0);
    for (size_t at = 0; at < graph_.edges.size(); ++at) {
      const TimedGraph::Edge edge = graph_.edges[at];
      ++successor_first_[edge.from + 2];
      any_from_start_ |= edge.from_start;
    }
    for (uint32_t node = 0; node < count; ++node) {
      successor_first_[node + 2] += successor_first_[node + 1];
    }
    successors_.resize(graph_.edges.size());
    missing_.resize(count);
    for (uint32_t node = 0; node < count; ++node) {
      times_.start_ns[node] = graph_.ranks[graph_.rank[node]].start_ns;
      missing_[node] = graph_.first[node + 1] - graph_.first[node];
      for (uint32_t at = graph_.first[node]; at < graph_.first[node + 1];
           ++at) {
        successors_[successor_first_[graph_.edges[at].from + 1]++] = {node, at};
      }
    }
  }

  bool is_transfer(uint32_t node) const { return graph_.collective[node] >= 0; }
  bool is_limited(uint32_t node) const {
    return !graph_.capacity.empty() &&
           graph_.resource[node] < graph_.capacity.size() &&
           graph_.capacity[graph_.resource[node]] > 0;
  }
  uint32_t leader_of(uint32_t node) const {
    while (graph_.meeting[node] == 0) --node;
    return node;
  }

  void tell(uint32_t node, bool of_start, int64_t time_ns) {
    for (uint32_t at = successor_first_[node]; at < successor_first_[node + 1];
         ++at) {
      const Successor& successor = successors_[at];
      const TimedGraph::Edge& edge = graph_.edges[successor.edge];
      if (edge.from_start != of_start) continue;
      int64_t& ready_ns = times_.start_ns[successor.node];
      if (time_ns + edge.delay_ns >= ready_ns) {
        ready_ns = time_ns + edge.delay_ns;
        times_.cause[successor.node] = successor.edge;
      }
      if (--missing_[successor.node] == 0) become_ready(successor.node);
    }
  }

  // All edges into the node have been heard of; times_.start_ns is when it may
  // begin.
  void become_ready(uint32_t node) {
    if (!is_limited(node)) {
      begin(node);
    } else if (times_.start_ns[node] > now_ns_) {
      tasks_.wait(node, TaskPhase::kQueue, times_.start_ns[node]);
    } else {
      queue(node);
    }
  }

  void queue(uint32_t node) {
    const uint32_t resource = graph_.resource[node];
    waiting_[resource].push(node);
    serve(resource);
  }

  void serve(uint32_t resource) {
    while (running_[resource] < graph_.capacity[resource] &&
           !waiting_[resource].empty()) {
      const uint32_t node = waiting_[resource].top();
      waiting_[resource].pop();
      ++running_[resource];
      times_.start_ns[node] = std::max(times_.start_ns[node], now_ns_);
      begin(node);
    }
  }

  void begin(uint32_t node) {
    const int64_t ready_ns = std::min(times_.start_ns[node], kEndOfTime);
    if (rules_ != nullptr && !is_transfer(node)) {
      begin_compute(node, ready_ns);
      return;
    }
    const int64_t gap_ns = rounded_up(graph_.gap[node], graph_.tick_bits);
    if (gap_ns == 0) {
      start(node, ready_ns);
    } else {
      tasks_.wait(node, TaskPhase::kStart,
                  std::min(ready_ns + gap_ns, kEndOfTime));
    }
  }

  // A step's gap, dispatch, is work like the unit's own.
  void begin_compute(uint32_t node, int64_t at_ns) {
    const uint32_t cause = times_.cause[node];
    int64_t gap = graph_.gap[node];
    if (cause != GraphTimes::kNoEdge && is_transfer(graph_.edges[cause].from)) {
      gap += rules_->wake;
      ranks_[graph_.rank[node]].apart_ns = 0;
    }
    RunningTasks::Task dispatch = tasks_.run(
        node, 1, TaskPhase::kCompute, gap + graph_.duration[node], at_ns);
    dispatch.remaining = gap;
    times_.begun_ns[node] = at_ns;
    times_.start_ns[node] = tasks_.end_of(dispatch);
    if (any_from_start_) tell(node, true, at_ns);
  }

  // The node starts by itself or, as a member, has arrived.
  void start(uint32_t node, int64_t at_ns) {
    times_.start_ns[node] = at_ns;
    const bool meets = graph_.waits[node] != 0;
    if (!meets) run(node, 1, graph_.duration[node], at_ns);
    if (any_from_start_) tell(node, true, at_ns);
    const uint32_t leader = leader_of(node);
    if (arrivals_.are_apart(leader)) {
      for (const uint32_t at : arrivals_.released_by(node, leader)) {
        run(at, 1, graph_.duration[at],
            times_.start_ns[last_awaited(graph_, at, at, times_.start_ns)]);
      }
      return;
    }
    if (arrivals_.are_all(leader) && (meets || graph_.meeting[leader] > 1)) {
      gather(leader, node, at_ns);
    }
  }

  // All members are in, `last` the last of them. What still delays the transfer
  // keeps no core busy: whoever comes from compute has to be woken, and comes
  // with its noise.
  void gather(uint32_t leader, uint32_t last, int64_t at_ns) {
    if (rules_ == nullptr) {
      begin_transfers(leader, arrival_ns(graph_, leader, times_.start_ns));
      return;
    }
    const uint32_t cause = times_.cause[last];
    double delay_ns = 0;
    if (cause != GraphTimes::kNoEdge) {
      const uint32_t from = graph_.edges[cause].from;
      delay_ns =
          is_transfer(from)
              ? rules_->arrival_gap_ns
              : rules_->arrival_wake_ns +
                    lateness_ns(*rules_, ranks_[graph_.rank[from]].apart_ns);
    }
    for (uint32_t at = leader; at < leader + graph_.meeting[leader]; ++at) {
      times_.cause[at] = cause;
    }
    const int64_t start_ns = at_ns + std::llround(std::max(0.0, delay_ns));
    if (start_ns == at_ns) {
      begin_transfers(leader, at_ns);
      return;
    }
    tasks_.wait(leader, TaskPhase::kGather, start_ns);
  }

  // Members that take equally long run as one.
  void begin_transfers(uint32_t leader, int64_t at_ns) {
    const uint32_t end = leader + graph_.meeting[leader];
    for (uint32_t node = leader; node < end;) {
      uint32_t next = node + 1;
      if (graph_.waits[node] != 0) {
        while (next < end && graph_.waits[next] != 0 &&
               graph_.duration[next] == graph_.duration[node]) {
          ++next;
        }
        run(node, next - node, transfer_work(node, at_ns), at_ns);
      }
      node = next;
    }
  }

  int64_t transfer_work(uint32_t node, int64_t at_ns) {
    if (rules_ == nullptr || rules_->burst_ns <= 0) {
      return graph_.duration[node];
    }
    const size_t place = static_cast<size_t>(graph_.collective[node]);
    return ticks_of(credits_[graph_.rank[node]].spend(
                        *rules_, rules_->transfers[place], at_ns),
                    graph_.tick_bits);
  }

  void run(uint32_t node, uint32_t count, int64_t work, int64_t at_ns) {
    std::fill_n(times_.begun_ns.begin() + node, count, at_ns);
    tasks_.run(node, count,
               is_transfer(node) ? TaskPhase::kTransfer : TaskPhase::kCompute,
               work, at_ns);
  }

  void handle(uint32_t slot) {
    switch (tasks_.phase(slot)) {
      case TaskPhase::kQueue:
        queue(tasks_.finish(slot).node);
        break;
      case TaskPhase::kStart:
        start(tasks_.finish(slot).node, now_ns_);
        break;
      case TaskPhase::kGather:
        begin_transfers(tasks_.finish(slot).node, now_ns_);
        break;
      case TaskPhase::kLatency:
        tasks_.enter_link(slot, now_ns_);
        break;
      default:
        end(tasks_.finish(slot));
    }
  }

  void end(const RunningTasks::Slot& slot) {
    ended_ += slot.count;
    const uint32_t last = slot.node + slot.count;
    std::fill_n(times_.end_ns.begin() + slot.node, slot.count, now_ns_);
    if (rules_ != nullptr) settle(slot);
    for (uint32_t at = slot.node; at < last; ++at) tell(at, false, now_ns_);
    for (uint32_t at = slot.node; at < last; ++at) {
      if (!is_limited(at)) continue;
      --running_[graph_.resource[at]];
      serve(graph_.resource[at]);
    }
  }

  void settle(const RunningTasks::Slot& slot) {
    const uint32_t node = slot.node;
    if (slot.phase == TaskPhase::kCompute) {
      RankState& rank = ranks_[graph_.rank[node]];
      times_.start_ns[node] = std::min(times_.start_ns[node], now_ns_);
      rank.apart_ns += now_ns_ - times_.start_ns[node];
      rank.compute_end_ns = now_ns_;
    } else if (rules_->burst_ns > 0) {
      const size_t place = static_cast<size_t>(graph_.collective[node]);
      credits_[graph_.rank[node]].settle(*rules_, rules_->transfers[place],
                                         now_ns_);
    }
  }

  const TimedGraph& graph_;
  const StepRules* rules_;
  GraphTimes times_;
  int64_t now_ns_ = 0;
  std::vector<uint32_t> successor_first_;
  std::vector<Successor> successors_;
  bool any_from_start_ = false;
  std::vector<uint32_t> missing_;  // [node] edges not heard of.
  std::vector<RankState> ranks_;
  std::vector<LinkCredit> credits_;  // [rank]
  RunningTasks tasks_;
  Arrivals arrivals_;
  std::vector<uint32_t> running_;    // [resource]
  std::vector<ReadyNodes> waiting_;  // [resource]
  uint32_t ended_ = 0;
};

}  // namespace

GraphTimes decide(const TimedGraph& graph) { return Decision(graph).run(); }

}  // namespace reprise
