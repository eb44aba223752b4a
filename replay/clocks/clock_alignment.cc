#include "replay/clocks/clock_alignment.h"

#include <algorithm>
#include <cmath>

#include "replay/clocks/clock_bounds.h"
#include "replay/clocks/clock_causality.h"
#include "replay/clocks/clock_meetings.h"
#include "replay/clocks/clock_residuals.h"

namespace reprise {
namespace {

constexpr size_t kNobody = PlacedClock::kNobody;
/// With room for rounding.
constexpr double kMostDriftPpm = kMostDrift * 1e6 * (1 + 1e-6);

class Aligner {
 public:
  Aligner(const TraceByRank& trace, std::vector<RankInfo>& infos,
          const CollectiveMatching& matching)
      : infos_(infos),
        meetings_(trace, matching),
        ranks_(infos.size()),
        imported_(!trace.frame().import_text.empty()) {}

  std::vector<ClockAlignment> align() {
    std::vector<size_t> order(ranks_.size());
    for (size_t place = 0; place < order.size(); ++place) order[place] = place;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return infos_[a].rank < infos_[b].rank;
    });
    place_all(order);
    draw_in();
    repair();
    find_residuals(infos_, order, meetings_, ranks_);
    return results(order);
  }

 private:
  // Rank by rank, each against all that are placed; a rank without a shared
  // collective waits until nothing else can be placed.
  void place_all(const std::vector<size_t>& order) {
    std::vector<size_t> waiting = order;
    while (!waiting.empty()) {
      const size_t before = waiting.size();
      std::erase_if(waiting, [&](size_t place) {
        if (!meetings_.meets_known(place)) return false;
        fit(place);
        settle(place);
        return true;
      });
      if (waiting.size() < before) continue;
      start_from(waiting.front(), waiting.size() == order.size());
      settle(waiting.front());
      waiting.erase(waiting.begin());
    }
  }

  void settle(size_t place) {
    ranks_[place].placed = true;
    meetings_.know(infos_[place], place, {});
  }

  // Nothing bounds this one: it keeps its clock, or has that of its host.
  void start_from(size_t place, bool lowest) {
    PlacedClock& rank = ranks_[place];
    rank.kept = true;
    rank.tied = lowest;
    if (lowest) {
      rank.know_within(0);
      return;
    }
    if (is_measured(place)) {
      rank.tied = true;
      rank.know_within(infos_[place].clock_residual_ns);
      return;
    }
    const size_t peer = peer_on_host(place);
    if (peer != kNobody) share_clock(place, peer);
  }

  // Our trainer measures its clocks; so did whoever states an offset.
  bool is_measured(size_t place) const {
    const RankInfo& info = infos_[place];
    return (info.clock_domain == "monotonic" && !imported_) ||
           info.clock_residual_ns > 0 || info.clock_offset_ns != 0 ||
           info.clock_drift_ppm != 0;
  }

  size_t peer_on_host(size_t place) const {
    const RankInfo& info = infos_[place];
    if (info.host.empty() ||
        (info.clock_domain != "epoch" && info.clock_domain != "monotonic")) {
      return kNobody;
    }
    for (size_t peer = 0; peer < ranks_.size(); ++peer) {
      if (peer != place && ranks_[peer].placed &&
          ranks_[peer].shares == kNobody && infos_[peer].host == info.host &&
          infos_[peer].clock_domain == info.clock_domain) {
        return peer;
      }
    }
    return kNobody;
  }

  void share_clock(size_t place, size_t peer) {
    RankInfo& info = infos_[place];
    const RankInfo& shared = infos_[peer];
    info.clock_offset_ns = shared.clock_offset_ns;
    info.clock_drift_ppm = shared.clock_drift_ppm;
    info.clock_reference_ns = shared.clock_reference_ns;
    ranks_[place].shares = peer;
    ranks_[place].tied = ranks_[peer].tied;
    ranks_[place].kept = ranks_[peer].kept;
  }

  void set_line(size_t place, int64_t offset_ns, const ClockLine& line) {
    RankInfo& info = infos_[place];
    info.clock_offset_ns = sum(offset_ns, line.offset);
    info.clock_drift_ppm = line.drift * 1e6;
    info.clock_reference_ns = meetings_.reference_ns(place);
    info.clock_residual_ns = 0;
    ranks_[place].kept = false;
  }

  void fit(size_t place) {
    PlacedClock& rank = ranks_[place];
    const RankInfo& info = infos_[place];
    const int64_t rough_ns = meetings_.rough_offset_ns(place);
    const auto bounds = meetings_.bounds_of(place, rough_ns, 0);
    const ClockRegion region(bounds.low, bounds.high);
    rank.collectives = bounds.meetings;
    rank.tied = true;
    const bool measured = is_measured(place);
    const ClockLine own = meetings_.line_of(info, place, rough_ns);
    if (measured && region.contains(own)) {
      rank.kept = true;
      rank.know_within(info.clock_residual_ns);
      return;
    }
    const size_t peer = measured ? kNobody : peer_on_host(place);
    if (peer != kNobody &&
        region.contains(meetings_.line_of(infos_[peer], place, rough_ns))) {
      share_clock(place, peer);
      return;
    }
    if (measured) {
      // A measurement that says how good it is may be nudged.
      const auto range = region.offsets_under(own.drift);
      const double allowed = 2 * static_cast<double>(info.clock_residual_ns);
      if (range.room() >= 0 && region.violation(own) <= allowed) {
        set_line(place, rough_ns,
                 {std::clamp(own.offset, range.low, range.high), own.drift});
        return;
      }
    }
    if (measured && !region.is_feasible()) {  // They were no meetings.
      rank.kept = true;
      rank.know_within(sum(info.clock_residual_ns, region.violation(own)));
      return;
    }
    rank.one_sided = !region.is_bounded();
    set_line(place, rough_ns,
             estimate(place, rough_ns, bounds, region, own.drift));
  }

  ClockLine estimate(size_t place, int64_t rough_ns,
                     const ClockMeetings::Bounds& bounds,
                     const ClockRegion& region, double usual_drift) const {
    if (!region.is_bounded()) return region.nearest({0, usual_drift});
    if (!bounds.ends.empty()) {
      const ClockLine line = middle_line(thinned(bounds.ends), usual_drift);
      return region.is_feasible() ? region.nearest(line) : line;
    }
    for (const double share : {1.0, 0.8, 0.6, 0.4, 0.2}) {
      const auto drawn_in = meetings_.bounds_of(place, rough_ns, share);
      const ClockRegion inner(drawn_in.low, drawn_in.high);
      if (inner.is_feasible()) return inner.widest(usual_drift);
    }
    return region.widest(usual_drift);
  }

  static std::vector<ClockPoint> thinned(std::vector<ClockPoint> points) {
    constexpr size_t kEnough = 4096;
    if (points.size() <= kEnough) return points;
    for (size_t i = 0; i < kEnough; ++i) {
      points[i] = points[i * points.size() / kEnough];
    }
    points.resize(kEnough);
    return points;
  }

  // Around a ring each rank bounds the next one from one side, and only all
  // together bound each from both: all are moved to where no message takes less
  // than most of the least recorded duration of its kind, as far as such clocks
  // can be.
  void draw_in() {
    if (std::none_of(ranks_.begin(), ranks_.end(),
                     [](const PlacedClock& rank) { return rank.one_sided; }))
      return;
    const std::vector<RankInfo> before = infos_;
    for (const double share : {1.0, 0.8, 0.6, 0.4, 0.2}) {
      constexpr int64_t kRounding = 4;
      if (move_together(share)) {
        const auto worst = meetings_.breaches(infos_, 1, share);
        if (worst.empty() || worst.front().early_ns <= kRounding) return;
      }
      infos_ = before;
    }
  }

  // A rank that was placed early may contradict one that came later. Where no
  // clocks could meet all bounds, collectives were taken for each other's that
  // were not, and each clock stays as it was.
  void repair() {
    const std::vector<RankInfo> before = infos_;
    if (!move_together(0)) infos_ = before;
  }

  // Whether clocks that moved are still an oscillator's.
  bool move_together(double least_share) {
    std::vector<size_t> clock_of;
    std::vector<bool> movable;
    for (size_t place = 0; place < ranks_.size(); ++place) {
      const size_t shares = ranks_[place].shares;
      clock_of.push_back(shares == kNobody ? place : shares);
      movable.push_back(!ranks_[place].kept);
    }
    make_causal(meetings_, clock_of, movable, infos_, least_share);
    for (size_t place = 0; place < ranks_.size(); ++place) {
      const bool moved = movable[clock_of[place]];
      if (moved && std::abs(infos_[place].clock_drift_ppm) > kMostDriftPpm)
        return false;
    }
    return true;
  }

  std::vector<ClockAlignment> results(const std::vector<size_t>& order) {
    std::vector<ClockAlignment> all;
    for (const size_t place : order) {
      RankInfo& info = infos_[place];
      const PlacedClock& rank = ranks_[place];
      const bool first = all.empty();
      const bool known = rank.tied && !rank.is_unknown();
      if (known && !first)
        info.clock_residual_ns =
            std::max(rank.unsure.below_ns, rank.unsure.above_ns);
      all.push_back({.rank = info.rank,
                     .offset_ns = info.clock_offset_ns,
                     .drift_ppm = info.clock_drift_ppm,
                     .residual_ns = known ? info.clock_residual_ns : -1,
                     .measured_kept = rank.kept,
                     .collectives = rank.collectives});
    }
    return all;
  }

  std::vector<RankInfo>& infos_;  // Trace::ranks.
  ClockMeetings meetings_;
  std::vector<PlacedClock> ranks_;  // [place]
  bool imported_ = false;
};

}  // namespace

std::vector<ClockAlignment> align_clocks(Trace& trace,
                                         const CollectiveMatching& matching) {
  return Aligner(TraceByRank::borrow(trace), trace.ranks, matching).align();
}

std::vector<ClockAlignment> align_clocks(TraceByRank& trace,
                                         const CollectiveMatching& matching) {
  return Aligner(trace, trace.ranks(), matching).align();
}

std::vector<ClockAlignment> align_clocks(Trace& trace) {
  return align_clocks(trace, match_collectives(trace));
}

}  // namespace reprise
