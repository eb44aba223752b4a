// The step time alone, in the special form that search needs: two streams a
// rank as they stand in the prices, no nodes or edges, no record of what was.
// Rules, credit and the arithmetic of a task are those of `decide`. About a
// third of the instructions of `decide` on the schedule's graph, whose answer
// it gives to the nanosecond (replay_test holds them equal).
#include <algorithm>
#include <cmath>
#include <limits>

#include "replay/graph/schedule_graph.h"
#include "replay/graph/step_rules.h"
#include "replay/simulate/earliest_event.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/running_tasks.h"

namespace reprise {
namespace {

constexpr int64_t kNever = EarliestEvent::kNever;
constexpr int kShift = kTickBits + kAloneBits;

int64_t work_of(double duration_ns) { return ticks_of(duration_ns, kTickBits); }

// Whose end let a task begin.
struct Cause {
  enum : uint8_t { kStart, kCompute, kTransfer } what = kStart;
  uint32_t rank = 0;
};

struct RankStreams : RankState {
  RunningTask compute;
  bool computing = false;
  bool transferring = false;  // A collective is in flight, all ranks present.
  bool gathering = false;     // All ranks are in, but it has not begun.
  bool arrived = false;       // Waits in the collective at the head.
  uint32_t compute_done = 0, communication_done = 0;
  int64_t started_ns = 0;  // The compute unit that runs, behind its gap.
  // Of the collectives that this rank leads:
  RunningTask transfer;
  LinkCredit credit;
};

class TwoStreamStep {
 public:
  TwoStreamStep(const PricedSchedule& priced, const RankClasses& classes)
      : priced_(priced),
        classes_(classes),
        rules_(step_rules(priced)),
        ranks_(classes.factor.size()),
        events_(2 * classes.factor.size()) {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      everyone_.push_back(rank);
  }

  int64_t run() {
    const int64_t feed_end_ns = std::llround(std::max(0.0, priced_.feed_ns));
    for (RankStreams& rank : ranks_) rank.credit = LinkCredit(rules_);
    int64_t now_ns = feed_end_ns;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      begin_compute(rank, now_ns, false);
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
    for (const RankStreams& rank : ranks_) {
      REPRISE_CHECK(rank.compute_done == priced_.order.compute.size() &&
                    rank.communication_done ==
                        priced_.order.communication.size());
    }
    return step_end_ns(rules_, now_ns, ranks_);
  }

 private:
  const std::vector<uint32_t>& members(uint32_t rank, uint32_t place) const {
    if (classes_.groups.empty()) return everyone_;
    for (const auto& group : classes_.groups[place]) {
      if (std::binary_search(group.begin(), group.end(), rank)) return group;
    }
    return everyone_;
  }

  // Starts the next compute unit if what it needs is done.
  void begin_compute(uint32_t rank, int64_t now_ns, bool woken) {
    RankStreams& state = ranks_[rank];
    const uint32_t place = state.compute_done;
    if (state.computing || place == priced_.order.compute.size()) return;
    if (priced_.order.compute_needs[place] > state.communication_done) return;
    if (woken) state.apart_ns = 0;
    const uint32_t unit = priced_.order.compute[place];
    const int64_t before = rules_.gap + (woken ? rules_.wake : 0);
    const int64_t own =
        work_of(priced_.duration_ns[unit] * classes_.factor[rank]);
    const int64_t slowdown = state.transferring
                                 ? slowdown_of(priced_.slowdown[unit])
                                 : int64_t{kAlone};
    state.compute = {
        .remaining = before, .since_ns = now_ns, .slowdown = slowdown};
    state.started_ns = state.compute.end_ns(kShift);
    state.compute.remaining += own;
    state.computing = true;
    events_.set(size_t{2} * rank, state.compute.end_ns(kShift));
  }

  void end_compute(uint32_t rank, int64_t now_ns) {
    RankStreams& state = ranks_[rank];
    ++state.compute_done;
    const Cause cause{.what = Cause::kCompute, .rank = rank};
    state.computing = false;
    state.apart_ns += now_ns - std::min(now_ns, state.started_ns);
    state.compute_end_ns = now_ns;
    events_.set(size_t{2} * rank, kNever);
    begin_compute(rank, now_ns, false);
    arrive(rank, now_ns, cause);
    refresh_transfer(rank, now_ns);
  }

  // Puts the rank into the collective at the head of its stream, if that may
  // start, and starts the transfer when it is the last one in.
  void arrive(uint32_t rank, int64_t now_ns, Cause cause) {
    RankStreams& state = ranks_[rank];
    const uint32_t place = state.communication_done;
    if (state.arrived || state.gathering || state.transferring) return;
    if (place == priced_.order.communication.size()) return;
    if (priced_.order.communication_needs[place] > state.compute_done) return;
    state.arrived = true;
    const std::vector<uint32_t>& group = members(rank, place);
    for (const uint32_t member : group) {
      if (!ranks_[member].arrived || ranks_[member].communication_done != place)
        return;
    }
    gather(group, now_ns, cause);
  }

  // All ranks are in. What still delays the transfer keeps no core busy:
  // whoever comes from compute has to be woken, and comes with its noise.
  void gather(const std::vector<uint32_t>& group, int64_t now_ns, Cause cause) {
    double delay_ns = 0;
    if (cause.what == Cause::kCompute) {
      delay_ns = rules_.arrival_wake_ns +
                 lateness_ns(rules_, ranks_[cause.rank].apart_ns);
    } else if (cause.what == Cause::kTransfer) {
      delay_ns = rules_.arrival_gap_ns;
    }
    for (const uint32_t member : group) {
      ranks_[member].arrived = false;
      ranks_[member].gathering = true;
    }
    const int64_t start_ns = now_ns + std::llround(std::max(0.0, delay_ns));
    if (start_ns == now_ns) {
      begin_transfer(group.front(), now_ns);
    } else {
      events_.set(2 * group.front() + 1, start_ns);
    }
  }

  void begin_transfer(uint32_t leader_rank, int64_t now_ns) {
    RankStreams& leader = ranks_[leader_rank];
    const uint32_t place = leader.communication_done;
    const uint32_t unit = priced_.order.communication[place];
    const std::vector<uint32_t>& group = members(leader_rank, place);
    double duration_ns = priced_.duration_ns[unit];
    if (rules_.burst_ns > 0) {
      duration_ns =
          leader.credit.spend(rules_, rules_.transfers[place], now_ns);
    }
    for (const uint32_t member : group) {
      ranks_[member].gathering = false;
      ranks_[member].transferring = true;
    }
    leader.transfer = {.remaining = work_of(duration_ns),
                       .since_ns = now_ns,
                       .slowdown = transfer_rate(group, unit)};
    events_.set(2 * leader_rank + 1, leader.transfer.end_ns(kShift));
    for (const uint32_t member : group) refresh_compute(member, now_ns);
  }

  void end_transfer(uint32_t leader_rank, int64_t now_ns) {
    RankStreams& leader = ranks_[leader_rank];
    const uint32_t place = leader.communication_done;
    const std::vector<uint32_t>& group = members(leader_rank, place);
    if (rules_.burst_ns > 0) {
      leader.credit.settle(rules_, rules_.transfers[place], now_ns);
    }
    events_.set(2 * leader_rank + 1, kNever);
    for (const uint32_t member : group) {
      ranks_[member].transferring = false;
      ++ranks_[member].communication_done;
    }
    for (const uint32_t member : group) {
      begin_compute(member, now_ns, true);
      arrive(member, now_ns, Cause{Cause::kTransfer, member});
    }
    for (const uint32_t member : group) refresh_compute(member, now_ns);
  }

  int64_t transfer_rate(const std::vector<uint32_t>& group,
                        uint32_t unit) const {
    for (const uint32_t member : group) {
      if (ranks_[member].computing) return slowdown_of(priced_.slowdown[unit]);
    }
    return kAlone;
  }

  // Brings the rate of the rank's compute unit in line with its communication
  // stream, and the rate of its collective in line with that.
  void refresh_compute(uint32_t rank, int64_t now_ns) {
    RankStreams& state = ranks_[rank];
    if (state.computing) {
      const uint32_t unit = priced_.order.compute[state.compute_done];
      const int64_t slowdown = state.transferring
                                   ? slowdown_of(priced_.slowdown[unit])
                                   : int64_t{kAlone};
      if (slowdown != state.compute.slowdown) {
        state.compute.rebase(now_ns, slowdown, kShift);
        events_.set(size_t{2} * rank, state.compute.end_ns(kShift));
      }
    }
    refresh_transfer(rank, now_ns);
  }

  void refresh_transfer(uint32_t rank, int64_t now_ns) {
    if (!ranks_[rank].transferring) return;
    const uint32_t place = ranks_[rank].communication_done;
    const uint32_t unit = priced_.order.communication[place];
    const std::vector<uint32_t>& group = members(rank, place);
    RankStreams& leader = ranks_[group.front()];
    const int64_t slowdown = transfer_rate(group, unit);
    if (slowdown == leader.transfer.slowdown) return;
    leader.transfer.rebase(now_ns, slowdown, kShift);
    events_.set(2 * group.front() + 1, leader.transfer.end_ns(kShift));
  }

  const PricedSchedule& priced_;
  const RankClasses& classes_;
  const StepRules rules_;
  std::vector<RankStreams> ranks_;
  EarliestEvent events_;
  std::vector<uint32_t> everyone_;
};

}  // namespace

int64_t replay_step_time(const PricedSchedule& priced) {
  return TwoStreamStep(priced, fold_ranks(priced)).run();
}

}  // namespace reprise
