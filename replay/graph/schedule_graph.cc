// Nodes are numbered as far as possible stream by stream: compute runs ahead
// until it needs a collective that is not there yet. So every edge comes from a
// lower number, and of what one end lets begin, compute comes first.
#include "replay/graph/schedule_graph.h"

#include <algorithm>
#include <cmath>

#include "replay/graph/step_rules.h"

namespace reprise {
namespace {

int64_t ticks_of(double duration_ns) {
  return reprise::ticks_of(duration_ns, kTickBits);
}

class Builder {
 public:
  Builder(const PricedSchedule& priced, const RankClasses& classes)
      : priced_(priced),
        classes_(classes),
        ranks_(static_cast<uint32_t>(classes.factor.size())) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) everyone_.push_back(rank);
    last_compute_.assign(ranks_, kNone);
    last_transfer_.assign(ranks_, kNone);
  }

  TimedGraph run() {
    const size_t units =
        priced_.order.compute.size() + priced_.order.communication.size();
    resize(units * ranks_);
    set_rules();
    while (true) {
      if (compute_ < priced_.order.compute.size() &&
          priced_.order.compute_needs[compute_] <= communication_) {
        add_compute();
      } else if (communication_ < priced_.order.communication.size() &&
                 priced_.order.communication_needs[communication_] <=
                     compute_) {
        add_transfer();
      } else {
        break;
      }
    }
    REPRISE_CHECK(compute_ == priced_.order.compute.size() &&
                  communication_ == priced_.order.communication.size());
    graph_.first.push_back(static_cast<uint32_t>(graph_.edges.size()));
    return std::move(graph_);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void resize(size_t nodes) {
    graph_.tick_bits = kTickBits;
    graph_.origin.resize(nodes);
    graph_.rank.resize(nodes);
    graph_.duration.resize(nodes);
    graph_.gap.resize(nodes);
    graph_.collective.assign(nodes, -1);
    graph_.meeting.assign(nodes, 1);
    graph_.waits.resize(nodes);
    graph_.resource.resize(nodes);
    graph_.slowdown.resize(nodes);
    graph_.first.reserve(nodes + 1);
    graph_.edges.reserve(2 * nodes);
    node_of_compute_.resize(priced_.order.compute.size());
    node_of_transfer_.resize(priced_.order.communication.size() *
                             (classes_.groups.empty() ? 1 : ranks_));
  }

  void set_rules() {
    const int64_t feed_end_ns = std::llround(std::max(0.0, priced_.feed_ns));
    graph_.ranks.assign(ranks_, {0, 0, feed_end_ns, feed_end_ns});
    for (size_t rank = classes_.class_of.size(); rank-- > 0;) {
      graph_.ranks[classes_.class_of[rank]].rank = static_cast<uint32_t>(rank);
    }
    graph_.rules = step_rules(priced_);
  }

  void open_node(uint32_t unit, uint32_t rank, uint32_t resource,
                 int64_t duration, uint32_t slowdown) {
    graph_.first.push_back(static_cast<uint32_t>(graph_.edges.size()));
    graph_.origin[node_] = unit;
    graph_.rank[node_] = rank;
    graph_.resource[node_] = resource;
    graph_.duration[node_] = duration;
    graph_.slowdown[node_] = slowdown;
  }

  void add_edge(uint32_t from, EdgeKind kind) {
    if (from != kNone) graph_.edges.push_back({0, from, kind, false});
  }

  void add_compute() {
    const uint32_t unit = priced_.order.compute[compute_];
    const uint32_t needs = priced_.order.compute_needs[compute_];
    const uint32_t slowdown = slowdown_of(priced_.slowdown[unit]);
    const bool waits = needs > compute_waited_;  // Else an earlier one did.
    compute_waited_ = std::max(compute_waited_, needs);
    node_of_compute_[compute_++] = node_;
    for (uint32_t rank = 0; rank < ranks_; ++rank, ++node_) {
      open_node(unit, rank, 2 * rank,
                ticks_of(priced_.duration_ns[unit] * classes_.factor[rank]),
                slowdown);
      graph_.gap[node_] = graph_.rules->gap;
      add_edge(last_compute_[rank], EdgeKind::kStream);
      if (waits)
        add_edge(transfer_node(needs - 1, rank), EdgeKind::kDependency);
      last_compute_[rank] = node_;
    }
  }

  uint32_t transfer_node(uint32_t place, uint32_t rank) const {
    return classes_.groups.empty()
               ? node_of_transfer_[place] + rank
               : node_of_transfer_[place * size_t{ranks_} + rank];
  }

  void add_transfer() {
    const uint32_t unit = priced_.order.communication[communication_];
    const uint32_t needs = priced_.order.communication_needs[communication_];
    const int64_t duration = ticks_of(priced_.duration_ns[unit]);
    const uint32_t slowdown = slowdown_of(priced_.slowdown[unit]);
    const bool waits = needs > transfer_waited_;
    transfer_waited_ = std::max(transfer_waited_, needs);
    const auto add_group = [&](const std::vector<uint32_t>& group) {
      const uint32_t leader = group.front();
      graph_.meeting[node_] = static_cast<uint32_t>(group.size());
      for (size_t member = 1; member < group.size(); ++member) {
        graph_.meeting[node_ + member] = 0;
      }
      for (const uint32_t rank : group) {
        open_node(unit, rank, 2 * leader + 1, duration, slowdown);
        graph_.waits[node_] = 1;
        graph_.collective[node_] = static_cast<int32_t>(communication_);
        add_edge(last_transfer_[rank], EdgeKind::kStream);
        if (waits) {
          add_edge(node_of_compute_[needs - 1] + rank, EdgeKind::kDependency);
        }
        last_transfer_[rank] = node_;
        if (!classes_.groups.empty()) {
          node_of_transfer_[communication_ * size_t{ranks_} + rank] = node_;
        }
        ++node_;
      }
    };
    if (classes_.groups.empty()) {
      node_of_transfer_[communication_] = node_;
      add_group(everyone_);
    } else {
      for (const auto& group : classes_.groups[communication_]) {
        add_group(group);
      }
    }
    ++communication_;
  }

  const PricedSchedule& priced_;
  const RankClasses& classes_;
  const uint32_t ranks_;
  TimedGraph graph_;
  std::vector<uint32_t> everyone_;
  std::vector<uint32_t> last_compute_, last_transfer_;  // [rank] node
  std::vector<uint32_t> node_of_compute_;   // [place] node of rank 0
  std::vector<uint32_t> node_of_transfer_;  // [place], or [place][rank]
  uint32_t node_ = 0, compute_ = 0, communication_ = 0;
  uint32_t compute_waited_ = 0, transfer_waited_ = 0;
};

bool groups_cover_all(const PricedSchedule& priced, size_t ranks) {
  for (const uint32_t unit : priced.order.communication) {
    const auto& groups = priced.schedule->units[unit].collective.groups;
    if (groups.size() > 1 ||
        (groups.size() == 1 && groups.front().size() != ranks))
      return false;
  }
  return true;
}

// Groups by place in the communication order, as sorted rank numbers within
// range.
std::vector<std::vector<std::vector<uint32_t>>> explicit_groups(
    const PricedSchedule& priced, size_t ranks) {
  std::vector<std::vector<std::vector<uint32_t>>> by_place;
  for (const uint32_t unit : priced.order.communication) {
    std::vector<bool> seen(ranks, false);
    auto& groups = by_place.emplace_back();
    for (const auto& listed : priced.schedule->units[unit].collective.groups) {
      std::vector<uint32_t> group;
      for (const int64_t member : listed) {
        const size_t rank = static_cast<size_t>(member);
        if (member < 0 || rank >= ranks || seen[rank]) continue;
        seen[rank] = true;
        group.push_back(static_cast<uint32_t>(rank));
      }
      std::sort(group.begin(), group.end());
      if (!group.empty()) groups.push_back(std::move(group));
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (!seen[rank]) groups.push_back({rank});
    }
  }
  return by_place;
}

}  // namespace

RankClasses fold_ranks(const PricedSchedule& priced) {
  std::vector<double> factors = priced.rank_factor;
  if (factors.empty()) factors.push_back(1);
  std::vector<double> distinct = factors;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  // Equal ranks do equal things whatever the groups; unequal ones fold only
  // when every collective joins all of them.
  if (distinct.size() > 1 && !groups_cover_all(priced, factors.size())) {
    return single_ranks(priced);
  }
  RankClasses classes{.class_of = {}, .factor = distinct, .groups = {}};
  for (const double factor : factors) {
    const auto place =
        std::lower_bound(distinct.begin(), distinct.end(), factor);
    classes.class_of.push_back(static_cast<uint32_t>(place - distinct.begin()));
  }
  return classes;
}

RankClasses single_ranks(const PricedSchedule& priced) {
  RankClasses classes{
      .class_of = {}, .factor = priced.rank_factor, .groups = {}};
  if (classes.factor.empty()) classes.factor.push_back(1);
  for (uint32_t rank = 0; rank < classes.factor.size(); ++rank) {
    classes.class_of.push_back(rank);
  }
  if (!groups_cover_all(priced, classes.factor.size())) {
    classes.groups = explicit_groups(priced, classes.factor.size());
  }
  return classes;
}

MeetingGroup group_of(const PricedSchedule& priced, uint32_t unit) {
  const CollectiveSpec& spec = priced.schedule->units[unit].collective;
  MeetingGroup group{.kind = spec.kind};
  if (spec.groups.empty()) {
    group.ranks =
        static_cast<uint32_t>(std::max<size_t>(priced.rank_factor.size(), 1));
  }
  for (const std::vector<int64_t>& ranks : spec.groups)
    group.ranks = std::max(group.ranks, static_cast<uint32_t>(ranks.size()));
  return group;
}

StepRules step_rules(const PricedSchedule& priced) {
  StepRules rules;
  if (!priced.order.compute.empty()) {
    rules.unexplained_ns = priced.unexplained_ns /
                           static_cast<double>(priced.order.compute.size());
  }
  rules.compute_wake_ns = priced.compute_wake_ns;
  set_dispatch(rules, priced.dispatch_ns);
  rules.arrival_wake_ns = priced.communication_wake_ns;
  rules.arrival_gap_ns = priced.communication_gap_ns;
  if (priced.rank_factor.size() > 1) {
    rules.jitter_sqrt_ns = priced.jitter_sqrt_ns;
  }
  rules.overhead_ns = priced.step_overhead_ns;
  rules.burst_ns = std::llround(priced.burst_ns);
  for (const uint32_t unit : priced.order.communication) {
    rules.transfers.push_back({priced.duration_ns[unit], priced.wire_ns[unit],
                               priced.floor_ns[unit], priced.latency_ns[unit],
                               group_of(priced, unit)});
  }
  return rules;
}

TimedGraph schedule_graph(const PricedSchedule& priced,
                          const RankClasses& classes) {
  return Builder(priced, classes).run();
}

}  // namespace reprise
