// Reads what lies between units. A unit that began when its stream was free
// follows by a dispatch; one that had to wait for the other stream follows by a
// wake-up. What dispatches exceed their median by is unexplained. Ranks that
// compute apart drift like a random walk, so the wait at their next meeting
// grows with the root of the time apart: jitter is that factor. What a rank
// waits because it kept a lead through their last meeting is the link's time,
// no jitter. Where many meetings show that ranks wait however short they were
// apart, their wake-ups vary, and what the last of them wakes later than their
// mean belongs to the wake-up. Cost: O(units + dependencies) a rank and step.
#include "costmodel/fit_gaps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "data/median.h"

namespace reprise {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
/// Steps below which the typical wait of a collective is not known.
constexpr size_t kLeastMeetings = 4;
/// Distinct collectives from which waits may have a constant part, and by what
/// it must lower the squared error to be one.
constexpr size_t kLeastPoints = 6;
constexpr double kConstantWorthIt = 0.85;

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

/// Waits of ranks: what they are however short the ranks were apart, and by how
/// much they grow with the root of that time. Their sum is the recorded one.
struct Waits {
  double least_ns = 0, sqrt_ns = 0;

  /// `points`: root of the time apart, wait, how often.
  static Waits fit(const std::vector<std::array<double, 3>>& points) {
    double count = 0, sum_x = 0, sum_y = 0;
    for (const auto& [x, y, often] : points) {
      count += often;
      sum_x += often * x;
      sum_y += often * y;
    }
    const Waits simple{.sqrt_ns = sum_x > 0 ? std::max(0.0, sum_y / sum_x) : 0};
    if (points.size() < kLeastPoints) return simple;
    const double mean_x = sum_x / count, mean_y = sum_y / count;
    double square = 0, product = 0;
    for (const auto& [x, y, often] : points) {
      square += often * (x - mean_x) * (x - mean_x);
      product += often * (x - mean_x) * (y - mean_y);
    }
    const double slope = square > 0 ? std::max(0.0, product / square) : 0;
    const Waits line{mean_y - slope * mean_x, slope};
    return line.least_ns > 0 &&
                   line.error(points) < kConstantWorthIt * simple.error(points)
               ? line
               : simple;
  }

 private:
  double error(const std::vector<std::array<double, 3>>& points) const {
    double sum = 0;
    for (const auto& [x, y, often] : points) {
      const double off_ns = y - least_ns - sqrt_ns * x;
      sum += often * off_ns * off_ns;
    }
    return sum;
  }
};

double sum_above(const std::vector<double>& values, double level) {
  double total = 0;
  for (const double value : values) total += value - level;
  return total;
}

class GapReader {
 public:
  explicit GapReader(const Schedule& recorded)
      : recorded_(recorded), other_stream_(recorded.units.size()) {
    for (const Dependency& edge : recorded.dependencies) {
      const uint32_t before = index_of(edge.before);
      const uint32_t after = index_of(edge.after);
      if (edge.steps == 0 &&
          recorded.units[before].stream != recorded.units[after].stream) {
        other_stream_[after].push_back(before);
      }
    }
  }

  void read(const RecordedStep& step) {
    from_compute_.assign(step.transfers.size(), {});
    for (size_t number = 0; number < step.ranks.size(); ++number) {
      read_rank(step, number);
    }
    read_jitter(step);
  }

  void fill(CostModel& costs) const {
    if (rank_steps_ == 0) return;
    const double count = static_cast<double>(rank_steps_);
    costs.dispatch_ns = median(dispatches_);
    // Means: now and then the woken thread finds its core taken, and a plan
    // with fewer hand-overs is spared their share of that.
    costs.compute_wake_ns =
        std::max(0.0, mean(compute_wakes_) - costs.dispatch_ns);
    const Waits waits = fit_waits();
    costs.jitter_sqrt_ns = waits.sqrt_ns;
    costs.communication_wake_ns = mean(communication_wakes_) + waits.least_ns;
    // Unless seen otherwise, ranks wait as long where they did not compute.
    costs.communication_gap_ns = communication_gaps_.empty()
                                     ? waits.least_ns
                                     : mean(communication_gaps_);
    costs.feed_ns = feed_total_ns_ / count;
    costs.step_overhead_ns = median(overheads_);
    const double excess = sum_above(dispatches_, costs.dispatch_ns);
    costs.unexplained_ns = std::max(0.0, excess / count);
    fill_meeting(costs);
  }

 private:
  // Of mean times apart, as replay has them: the mean of roots is less than the
  // root of the mean, and replay would add more waits than there were.
  Waits fit_waits() const {
    std::vector<std::array<double, 3>> points;
    for (const auto& [unit, apart] : apart_) {
      points.push_back({std::sqrt(apart.computed_ns / apart.count),
                        apart.waits_ns / apart.count, apart.count});
    }
    return Waits::fit(points);
  }

  // The median distance of a collective's wait from that collective's typical
  // one (a rank that is always late is no noise, nor is a stall now and then),
  // mean over collectives: those that queue behind others hardly wait.
  void fill_meeting(CostModel& costs) const {
    double sum_ns = 0;
    int64_t count = 0;
    for (const auto& [unit, waits_ns] : meetings_ns_) {
      if (waits_ns.size() < kLeastMeetings) continue;
      const double typical_ns = median(waits_ns);
      std::vector<double> off_ns;
      for (const double wait_ns : waits_ns)
        off_ns.push_back(std::abs(wait_ns - typical_ns));
      sum_ns += median(off_ns);
      ++count;
    }
    if (count == 0) return;
    costs.meeting_ns = sum_ns / static_cast<double>(count);
    costs.meeting_is_measured = true;
  }

  /// When a rank is free to go on, and the lead that it kept through the
  /// meeting that let it go.
  struct Free {
    int64_t ns = kNone;
    int64_t lead_ns = 0;
  };

  // The latest end, on this rank, of what `unit` needs from the other stream.
  Free needed(uint32_t unit) const {
    Free latest;
    for (const uint32_t before : other_stream_[unit]) {
      if (end_ns_[before] > latest.ns)
        latest = {end_ns_[before], lead_ns_[before]};
    }
    return latest;
  }

  void read_rank(const RecordedStep& step, size_t number) {
    const RecordedRank& rank = step.ranks[number];
    end_ns_.assign(recorded_.units.size(), kNone);
    apart_ns_.assign(recorded_.units.size(), 0);
    lead_ns_.assign(recorded_.units.size(), 0);
    int64_t last_ns = rank.feed_end_ns;
    for (const RecordedUnit& run : rank.compute) {
      end_ns_[run.unit] = run.end_ns;
      last_ns = std::max(last_ns, run.end_ns);
    }
    for (const RecordedTransfer& transfer : step.transfers) {
      const auto own = transfer.place_of(number);
      if (!own) continue;
      end_ns_[transfer.unit] = transfer.left_ns[*own];
      lead_ns_[transfer.unit] = transfer.kept_lead_ns[*own];
      last_ns = std::max(last_ns, transfer.left_ns[*own]);
    }
    read_compute(rank);
    read_communication(step, number);
    feed_total_ns_ += static_cast<double>(rank.feed_ns);
    overheads_.push_back(
        static_cast<double>(std::max<int64_t>(0, rank.end_ns - last_ns)));
    ++rank_steps_;
  }

  void read_compute(const RecordedRank& rank) {
    Free free{.ns = rank.feed_end_ns};
    int64_t apart_ns = 0;  // Computed since it last waited for others.
    for (const RecordedUnit& run : rank.compute) {
      const Free needs = needed(run.unit);
      const bool waited = needs.ns > free.ns;
      if (waited) free = needs;
      const double gap =
          static_cast<double>(std::max<int64_t>(0, run.start_ns - free.ns));
      (waited ? compute_wakes_ : dispatches_).push_back(gap);
      free.ns = std::max(free.ns, run.end_ns);
      apart_ns = (waited ? 0 : apart_ns) + run.end_ns - run.start_ns;
      apart_ns_[run.unit] = apart_ns;
      lead_ns_[run.unit] = free.lead_ns;
    }
  }

  void read_communication(const RecordedStep& step, size_t number) {
    Free free{.ns = step.ranks[number].start_ns};
    for (size_t place = 0; place < step.transfers.size(); ++place) {
      const RecordedTransfer& transfer = step.transfers[place];
      const auto own = transfer.place_of(number);
      if (!own) continue;
      Free needs = needed(transfer.unit);
      // Alone, a rank has no thread for collectives: each comes in its turn.
      if (step.ranks.size() == 1) {
        needs.ns = std::max(
            needs.ns,
            computed_until(step.ranks[number], transfer.arrival_ns[*own]));
      }
      if (needs.ns > free.ns) {
        communication_wakes_.push_back(static_cast<double>(
            std::max<int64_t>(0, transfer.arrival_ns[*own] - needs.ns)));
        from_compute_[place].ranks += 1;
        from_compute_[place].apart_ns += needed_apart_ns(transfer.unit);
        free = needs;
      }
      from_compute_[place].lead_ns += static_cast<double>(free.lead_ns);
      free = {std::max(free.ns, transfer.left_ns[*own]),
              transfer.kept_lead_ns[*own]};
    }
  }

  /// End of the last unit that had ended by a time.
  static int64_t computed_until(const RecordedRank& rank, int64_t time_ns) {
    const auto later = std::ranges::partition_point(
        rank.compute,
        [&](const RecordedUnit& run) { return run.end_ns <= time_ns; });
    return later == rank.compute.begin() ? kNone : std::prev(later)->end_ns;
  }

  // What this rank had computed, since it last waited, when it let `unit`
  // begin.
  double needed_apart_ns(uint32_t unit) const {
    int64_t most = 0;
    for (const uint32_t before : other_stream_[unit]) {
      most = std::max(most, apart_ns_[before]);
    }
    return static_cast<double>(most);
  }

  // Waits inside collectives that compute let begin on some member, and gaps,
  // after another of the same members, before those that none had to wait for.
  void read_jitter(const RecordedStep& step) {
    for (size_t place = 0; place < step.transfers.size(); ++place) {
      const RecordedTransfer& transfer = step.transfers[place];
      const auto ranks = static_cast<double>(transfer.members.size());
      if (ranks > 1) {
        double wait_ns = 0;
        for (const int64_t arrival_ns : transfer.arrival_ns)
          wait_ns +=
              static_cast<double>(transfer.start_ns - arrival_ns) / ranks;
        meetings_ns_[{transfer.unit, transfer.members.front()}].push_back(
            wait_ns);
      }
      if (from_compute_[place].ranks == 0 && place > 0 &&
          transfer.members == step.transfers[place - 1].members) {
        communication_gaps_.push_back(static_cast<double>(std::max<int64_t>(
            0, transfer.start_ns - step.transfers[place - 1].end_ns)));
      }
      // Whoever came last, replay lets it come from compute.
      const auto came = static_cast<double>(from_compute_[place].ranks);
      if (came == 0) continue;
      Apart& apart = apart_[{transfer.unit, transfer.members.front()}];
      apart.waits_ns -= from_compute_[place].lead_ns / ranks;
      for (const int64_t arrival_ns : transfer.arrival_ns) {
        apart.waits_ns +=
            static_cast<double>(transfer.start_ns - arrival_ns) / ranks;
      }
      apart.computed_ns += from_compute_[place].apart_ns / came;
      apart.count += 1;
    }
  }

  const Schedule& recorded_;
  std::vector<std::vector<uint32_t>> other_stream_;  // [unit], what it needs.
  std::vector<int64_t> end_ns_;    // [unit], of the rank being read.
  std::vector<int64_t> apart_ns_;  // [unit], of the rank being read.
  std::vector<int64_t> lead_ns_;   // [unit], of the rank being read.
  struct FromCompute {
    size_t ranks = 0;
    double apart_ns = 0;  // Sum over those ranks.
    double lead_ns = 0;   // Sum over all members.
  };
  std::vector<FromCompute> from_compute_;  // [transfer], of the step.
  // What all ranks computed before a collective, and waited in it, in all
  // steps.
  struct Apart {
    double computed_ns = 0, waits_ns = 0, count = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, Apart>
      apart_;  // [unit, first member]
  // [unit, first member][step], mean.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<double>> meetings_ns_;
  std::vector<double> dispatches_, compute_wakes_, communication_wakes_;
  std::vector<double> communication_gaps_, overheads_;
  double feed_total_ns_ = 0;
  size_t rank_steps_ = 0;
};

}  // namespace

void fit_gaps(const std::vector<RecordedStep>& steps, const Schedule& recorded,
              CostModel& costs) {
  GapReader reader(recorded);
  for (const RecordedStep& step : steps) reader.read(step);
  reader.fill(costs);
}

}  // namespace reprise
