#include "replay/simulate/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kOne = 1024;  // Rate 1, and one nanosecond of work.
constexpr double kLongest_ns =
    4.4e12;  // 73 minutes; keeps every product in range.
constexpr double kSteepestSlowdown = 1024;

// Nanoseconds as work; garbage in (negative, NaN) counts as zero.
int64_t work_of(double duration_ns) {
  if (!(duration_ns > 0)) return 0;
  return std::llround(std::min(duration_ns, kLongest_ns) *
                      static_cast<double>(kOne));
}

int64_t rate_of(double slowdown) {
  if (!(slowdown > 1)) return kOne;
  return std::llround(std::min(slowdown, kSteepestSlowdown) *
                      static_cast<double>(kOne));
}

// A running task: `remaining` work at time `since`, running 1024/slowdown as
// fast as alone.
struct Task {
  int64_t remaining = 0;
  int64_t since_ns = 0;
  int64_t slowdown = kOne;

  int64_t end_ns() const {
    __extension__ typedef __int128 Wide;
    const Wide scaled = static_cast<Wide>(remaining) * slowdown;
    const Wide unit = static_cast<Wide>(kOne) * kOne;
    return since_ns + static_cast<int64_t>((scaled + unit - 1) / unit);
  }
  void rebase(int64_t now_ns, int64_t new_slowdown) {
    const int64_t done = (now_ns - since_ns) * (kOne * kOne) / slowdown;
    remaining = std::max<int64_t>(0, remaining - done);
    since_ns = now_ns;
    slowdown = new_slowdown;
  }
};

// The earliest of a fixed number of event times: a tournament tree.
class EarliestEvent {
 public:
  explicit EarliestEvent(size_t slots) {
    while (leaves_ < slots) leaves_ *= 2;
    times_.assign(2 * leaves_, kNever);
  }
  void set(size_t slot, int64_t time_ns) {
    size_t node = leaves_ + slot;
    times_[node] = time_ns;
    for (node /= 2; node > 0; node /= 2) {
      times_[node] = std::min(times_[2 * node], times_[2 * node + 1]);
    }
  }
  int64_t time_ns() const { return times_[1]; }
  // The lowest slot with the earliest time.
  size_t slot() const {
    size_t node = 1;
    while (node < leaves_)
      node = times_[2 * node] == times_[node] ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

 private:
  size_t leaves_ = 1;
  std::vector<int64_t> times_;
};

struct RankState {
  Task compute;
  bool computing = false;
  bool transferring = false;  // A collective is in flight, all ranks present.
  bool gathering = false;     // All ranks are in, but it has not begun.
  bool arrived = false;       // Waits in the collective at the head.
  uint32_t compute_done = 0, communication_done = 0;
  int64_t begun_ns = 0;        // The compute unit that runs.
  int64_t compute_end_ns = 0;  // The last one that ended.
  int64_t apart_ns = 0;        // Computed since it last waited for others.
  Cause communication_cause;   // Of the arrival.
  // Of the collectives that this rank leads:
  Task transfer;
  int64_t credit_ns = 0, credit_since_ns = 0;
};

class Engine {
 public:
  Engine(const PricedSchedule& priced, const RankClasses& classes,
         std::vector<std::vector<TaskRecord>>* records)
      : priced_(priced),
        classes_(classes),
        records_(records),
        ranks_(classes.factor.size()),
        events_(2 * classes.factor.size()) {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      everyone_.push_back(rank);
    gap_ns_ = priced.dispatch_ns;
    if (!priced.order.compute.empty()) {
      gap_ns_ += priced.unexplained_ns /
                 static_cast<double>(priced.order.compute.size());
    }
  }

  int64_t run() {
    const int64_t feed_end_ns = std::llround(std::max(0.0, priced_.feed_ns));
    for (RankState& rank : ranks_)
      rank.credit_ns = std::llround(priced_.burst_ns);
    int64_t now_ns = feed_end_ns;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      begin_compute(rank, now_ns, Cause{}, false);
      arrive(rank, now_ns, Cause{});
      refresh_compute(rank, now_ns);
    }
    while (events_.time_ns() != kNever) {
      now_ns = events_.time_ns();
      const size_t slot = events_.slot();
      const uint32_t rank = static_cast<uint32_t>(slot / 2);
      if (slot % 2 == 0) {
        end_compute(rank, now_ns);
      } else if (ranks_[rank].gathering) {
        begin_transfer(rank, now_ns);
      } else {
        end_transfer(rank, now_ns);
      }
    }
    for (const RankState& rank : ranks_) {
      REPRISE_CHECK(rank.compute_done == priced_.order.compute.size() &&
                    rank.communication_done ==
                        priced_.order.communication.size());
    }
    return now_ns + ending_ns(now_ns);
  }

 private:
  bool is_compute(Cause cause) const {
    return cause.unit >= 0 &&
           priced_.schedule->units[static_cast<size_t>(cause.unit)].stream ==
               Stream::kCompute;
  }

  // How much later than their mean the last rank is expected.
  double lateness_ns(uint32_t rank) const {
    if (priced_.jitter_sqrt_ns <= 0 || priced_.rank_factor.size() < 2) return 0;
    return priced_.jitter_sqrt_ns *
           std::sqrt(static_cast<double>(ranks_[rank].apart_ns));
  }

  // The step's own end, and waiting for the last rank if it ends in compute.
  int64_t ending_ns(int64_t last_ns) const {
    double time_ns = std::max(0.0, priced_.step_overhead_ns);
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].compute_end_ns != last_ns) continue;
      time_ns += lateness_ns(rank);
      break;
    }
    return std::llround(time_ns);
  }

  const std::vector<uint32_t>& members(uint32_t rank, uint32_t place) const {
    if (classes_.groups.empty()) return everyone_;
    for (const auto& group : classes_.groups[place]) {
      if (std::binary_search(group.begin(), group.end(), rank)) return group;
    }
    return everyone_;
  }

  // Starts the next compute unit if what it needs is done.
  void begin_compute(uint32_t rank, int64_t now_ns, Cause cause, bool woken) {
    RankState& state = ranks_[rank];
    const uint32_t place = state.compute_done;
    if (state.computing || place == priced_.order.compute.size()) return;
    if (priced_.order.compute_needs[place] > state.communication_done) return;
    if (woken) state.apart_ns = 0;
    state.begun_ns = now_ns;
    const uint32_t unit = priced_.order.compute[place];
    const int64_t before =
        work_of(gap_ns_ + (woken ? priced_.compute_wake_ns : 0));
    const int64_t own =
        work_of(priced_.duration_ns[unit] * classes_.factor[rank]);
    const int64_t slowdown =
        state.transferring ? rate_of(priced_.slowdown[unit]) : kOne;
    state.compute = {
        .remaining = before + own, .since_ns = now_ns, .slowdown = slowdown};
    state.computing = true;
    events_.set(2 * rank, state.compute.end_ns());
    if (records_ != nullptr) {
      const Task dispatch{
          .remaining = before, .since_ns = now_ns, .slowdown = slowdown};
      (*records_)[rank][unit] = {.begin_ns = now_ns,
                                 .start_ns = dispatch.end_ns(),
                                 .end_ns = now_ns,
                                 .cause = cause};
    }
  }

  void end_compute(uint32_t rank, int64_t now_ns) {
    RankState& state = ranks_[rank];
    const uint32_t unit = priced_.order.compute[state.compute_done++];
    const Cause cause{.unit = static_cast<int32_t>(unit), .rank = rank};
    state.computing = false;
    state.apart_ns += now_ns - state.begun_ns;
    state.compute_end_ns = now_ns;
    events_.set(2 * rank, kNever);
    if (records_ != nullptr) {
      TaskRecord& record = (*records_)[rank][unit];
      record.end_ns = now_ns;
      record.start_ns = std::min(record.start_ns, now_ns);
    }
    begin_compute(rank, now_ns, cause, false);
    arrive(rank, now_ns, cause);
    refresh_transfer(rank, now_ns);
  }

  // Puts the rank into the collective at the head of its stream, if that may
  // start, and starts the transfer when it is the last one in.
  void arrive(uint32_t rank, int64_t now_ns, Cause cause) {
    RankState& state = ranks_[rank];
    const uint32_t place = state.communication_done;
    if (state.arrived || state.gathering || state.transferring) return;
    if (place == priced_.order.communication.size()) return;
    if (priced_.order.communication_needs[place] > state.compute_done) return;
    state.arrived = true;
    state.communication_cause = cause;
    const uint32_t unit = priced_.order.communication[place];
    if (records_ != nullptr) (*records_)[rank][unit].begin_ns = now_ns;
    const std::vector<uint32_t>& group = members(rank, place);
    for (const uint32_t member : group) {
      if (!ranks_[member].arrived || ranks_[member].communication_done != place)
        return;
    }
    gather(group, unit, now_ns, cause);
  }

  // All ranks are in. What still delays the transfer keeps no core busy:
  // whoever comes from compute has to be woken, and comes with its noise.
  void gather(const std::vector<uint32_t>& group, uint32_t unit, int64_t now_ns,
              Cause cause) {
    double delay_ns = 0;
    if (is_compute(cause)) {
      delay_ns = priced_.communication_wake_ns + lateness_ns(cause.rank);
    } else if (cause.unit >= 0) {
      delay_ns = priced_.communication_gap_ns;
    }
    for (const uint32_t member : group) {
      ranks_[member].arrived = false;
      ranks_[member].gathering = true;
      if (records_ != nullptr) (*records_)[member][unit].cause = cause;
    }
    const int64_t start_ns = now_ns + std::llround(std::max(0.0, delay_ns));
    if (start_ns == now_ns) {
      begin_transfer(group.front(), now_ns);
    } else {
      events_.set(2 * group.front() + 1, start_ns);
    }
  }

  void begin_transfer(uint32_t leader_rank, int64_t now_ns) {
    RankState& leader = ranks_[leader_rank];
    const uint32_t place = leader.communication_done;
    const uint32_t unit = priced_.order.communication[place];
    const std::vector<uint32_t>& group = members(leader_rank, place);
    const int64_t burst_ns = std::llround(priced_.burst_ns);
    leader.credit_ns = std::min(
        burst_ns, leader.credit_ns + (now_ns - leader.credit_since_ns));
    leader.credit_since_ns = now_ns;
    double duration_ns = priced_.duration_ns[unit];
    if (burst_ns > 0) {
      const double saved = std::min(static_cast<double>(leader.credit_ns),
                                    priced_.wire_ns[unit]);
      duration_ns = std::max(std::min(priced_.floor_ns[unit], duration_ns),
                             duration_ns - saved);
    }
    for (const uint32_t member : group) {
      ranks_[member].gathering = false;
      ranks_[member].transferring = true;
      if (records_ != nullptr) (*records_)[member][unit].start_ns = now_ns;
    }
    leader.transfer = {.remaining = work_of(duration_ns),
                       .since_ns = now_ns,
                       .slowdown = transfer_rate(group, unit)};
    events_.set(2 * leader_rank + 1, leader.transfer.end_ns());
    for (const uint32_t member : group) refresh_compute(member, now_ns);
  }

  void end_transfer(uint32_t leader_rank, int64_t now_ns) {
    RankState& leader = ranks_[leader_rank];
    const uint32_t place = leader.communication_done;
    const uint32_t unit = priced_.order.communication[place];
    const std::vector<uint32_t>& group = members(leader_rank, place);
    settle_credit(leader, unit, now_ns);
    events_.set(2 * leader_rank + 1, kNever);
    const auto cause_on = [unit](uint32_t member) {
      return Cause{.unit = static_cast<int32_t>(unit), .rank = member};
    };
    for (const uint32_t member : group) {
      ranks_[member].transferring = false;
      ++ranks_[member].communication_done;
      if (records_ != nullptr) (*records_)[member][unit].end_ns = now_ns;
    }
    for (const uint32_t member : group) {
      begin_compute(member, now_ns, cause_on(member), true);
      arrive(member, now_ns, cause_on(member));
    }
    for (const uint32_t member : group) refresh_compute(member, now_ns);
  }

  void settle_credit(RankState& leader, uint32_t unit, int64_t now_ns) {
    if (priced_.burst_ns <= 0) return;
    const int64_t gained =
        now_ns - leader.credit_since_ns - std::llround(priced_.wire_ns[unit]);
    leader.credit_ns = std::clamp<int64_t>(leader.credit_ns + gained, 0,
                                           std::llround(priced_.burst_ns));
    leader.credit_since_ns = now_ns;
  }

  int64_t transfer_rate(const std::vector<uint32_t>& group,
                        uint32_t unit) const {
    for (const uint32_t member : group) {
      if (ranks_[member].computing) return rate_of(priced_.slowdown[unit]);
    }
    return kOne;
  }

  // Brings the rate of the rank's compute unit in line with its communication
  // stream, and the rate of its collective in line with that.
  void refresh_compute(uint32_t rank, int64_t now_ns) {
    RankState& state = ranks_[rank];
    if (state.computing) {
      const uint32_t unit = priced_.order.compute[state.compute_done];
      const int64_t slowdown =
          state.transferring ? rate_of(priced_.slowdown[unit]) : kOne;
      if (slowdown != state.compute.slowdown) {
        state.compute.rebase(now_ns, slowdown);
        events_.set(2 * rank, state.compute.end_ns());
      }
    }
    refresh_transfer(rank, now_ns);
  }

  void refresh_transfer(uint32_t rank, int64_t now_ns) {
    if (!ranks_[rank].transferring) return;
    const uint32_t place = ranks_[rank].communication_done;
    const uint32_t unit = priced_.order.communication[place];
    const std::vector<uint32_t>& group = members(rank, place);
    RankState& leader = ranks_[group.front()];
    const int64_t slowdown = transfer_rate(group, unit);
    if (slowdown == leader.transfer.slowdown) return;
    leader.transfer.rebase(now_ns, slowdown);
    events_.set(2 * group.front() + 1, leader.transfer.end_ns());
  }

  const PricedSchedule& priced_;
  const RankClasses& classes_;
  std::vector<std::vector<TaskRecord>>* records_;
  std::vector<RankState> ranks_;
  EarliestEvent events_;
  std::vector<uint32_t> everyone_;
  double gap_ns_ = 0;
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
  RankClasses classes;
  const std::vector<double>& factors = priced.rank_factor;
  const size_t ranks = std::max<size_t>(1, factors.size());
  std::vector<double> distinct = factors;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.empty()) distinct.push_back(1);
  // Equal ranks do equal things whatever the groups; unequal ones fold only
  // when every collective joins all of them.
  if (distinct.size() == 1 || groups_cover_all(priced, ranks)) {
    classes.factor = distinct;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const double factor = factors.empty() ? 1 : factors[rank];
      const auto place =
          std::lower_bound(distinct.begin(), distinct.end(), factor);
      classes.class_of.push_back(
          static_cast<uint32_t>(place - distinct.begin()));
    }
    return classes;
  }
  classes.factor = factors;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    classes.class_of.push_back(rank);
  classes.groups = explicit_groups(priced, ranks);
  return classes;
}

int64_t simulate(const PricedSchedule& priced, const RankClasses& classes,
                 std::vector<std::vector<TaskRecord>>* records) {
  if (records != nullptr) {
    records->assign(classes.factor.size(),
                    std::vector<TaskRecord>(priced.schedule->units.size()));
  }
  return Engine(priced, classes, records).run();
}

}  // namespace reprise
