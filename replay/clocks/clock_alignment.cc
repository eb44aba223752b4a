#include "replay/clocks/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "replay/clocks/clock_bounds.h"
#include "replay/clocks/clock_causality.h"
#include "replay/clocks/clock_meetings.h"

namespace reprise {
namespace {

constexpr size_t kNobody = std::numeric_limits<size_t>::max();
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
/// With room for rounding.
constexpr double kMostDriftPpm = kMostDrift * 1e6 * (1 + 1e-6);

int64_t sum(int64_t base, double rest) {
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max();
  const double bounded = std::clamp(rest, -9e18, 9e18);
  return static_cast<int64_t>(std::clamp(
      static_cast<__int128>(base) + std::llround(bounded), -kMost, kMost));
}

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
    repair();
    find_residuals(order);
    return results(order);
  }

 private:
  struct Rank {
    bool placed = false, kept = false;
    bool tied = false;        // To the lowest rank, however indirectly.
    size_t shares = kNobody;  // Whose clock it has, by host.
    int64_t unsure_ns = kUnknown;
    int64_t collectives = 0;
  };

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
    meetings_.know(infos_[place], place, 0);
  }

  // Nothing bounds this one: it keeps its clock, or has that of its host.
  void start_from(size_t place, bool lowest) {
    Rank& rank = ranks_[place];
    rank.kept = true;
    rank.tied = lowest;
    if (lowest) {
      rank.unsure_ns = 0;
      return;
    }
    if (is_measured(place)) {
      rank.tied = true;
      rank.unsure_ns = infos_[place].clock_residual_ns;
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

  // The clock's line since the place's reference, minus `offset_ns`.
  ClockLine line_of(const RankInfo& info, size_t place,
                    int64_t offset_ns) const {
    const double drift = info.clock_drift_ppm * 1e-6;
    const double since =
        difference(meetings_.reference_ns(place), info.clock_reference_ns);
    return {difference(info.clock_offset_ns, offset_ns) + drift * since, drift};
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
    Rank& rank = ranks_[place];
    const RankInfo& info = infos_[place];
    const int64_t rough_ns = meetings_.rough_offset_ns(place);
    const auto bounds = meetings_.bounds_of(place, rough_ns, 0);
    const ClockRegion region(bounds.low, bounds.high);
    rank.collectives = bounds.meetings;
    rank.tied = true;
    const bool measured = is_measured(place);
    const ClockLine own = line_of(info, place, rough_ns);
    if (measured && region.contains(own)) {
      rank.kept = true;
      rank.unsure_ns = info.clock_residual_ns;
      return;
    }
    const size_t peer = measured ? kNobody : peer_on_host(place);
    if (peer != kNobody &&
        region.contains(line_of(infos_[peer], place, rough_ns))) {
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
      rank.unsure_ns = sum(info.clock_residual_ns, region.violation(own));
      return;
    }
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

  // A rank that was placed early may contradict one that came later. Where no
  // clocks could meet all bounds, collectives were taken for each other's that
  // were not, and each clock stays as it was.
  void repair() {
    const std::vector<RankInfo> before = infos_;
    std::vector<size_t> clock_of;
    std::vector<bool> movable;
    for (size_t place = 0; place < ranks_.size(); ++place) {
      const size_t shares = ranks_[place].shares;
      clock_of.push_back(shares == kNobody ? place : shares);
      movable.push_back(!ranks_[place].kept);
    }
    make_causal(meetings_, clock_of, movable, infos_);
    for (size_t place = 0; place < ranks_.size(); ++place) {
      const bool moved = movable[clock_of[place]];
      if (moved && std::abs(infos_[place].clock_drift_ppm) > kMostDriftPpm) {
        infos_ = before;
        return;
      }
    }
  }

  // What bounds leave open, given what the peers' bounds leave open: starts
  // with nobody's but the lowest rank's and the measured ones, and only
  // shrinks.
  void find_residuals(const std::vector<size_t>& order) {
    for (size_t sweep = 0; sweep < order.size() + 3; ++sweep) {
      bool shrunk = false;
      meetings_.clear();
      for (const size_t place : order) {
        if (ranks_[place].unsure_ns == kUnknown) continue;
        meetings_.know(infos_[place], place, ranks_[place].unsure_ns);
      }
      for (const size_t place : order) {
        Rank& rank = ranks_[place];
        if (!rank.tied) continue;
        const int64_t residual_ns = open_ns(place);
        if (residual_ns >= rank.unsure_ns) continue;
        // A thousandth less is not worth another sweep.
        shrunk |= rank.unsure_ns == kUnknown ||
                  residual_ns < rank.unsure_ns - rank.unsure_ns / 1000;
        rank.unsure_ns = residual_ns;
      }
      if (!shrunk) return;
    }
  }

  int64_t open_ns(size_t place) const {
    const Rank& rank = ranks_[place];
    if (rank.shares != kNobody) return ranks_[rank.shares].unsure_ns;
    if (rank.kept) return rank.unsure_ns;
    const RankInfo& info = infos_[place];
    auto bounds = meetings_.bounds_of(place, info.clock_offset_ns, 0);
    const ClockRegion causal(bounds.low, bounds.high);
    const auto ends = meetings_.end_bounds_of(place, info.clock_offset_ns);
    bounds.low.insert(bounds.low.end(), ends.low.begin(), ends.low.end());
    bounds.high.insert(bounds.high.end(), ends.high.begin(), ends.high.end());
    const ClockRegion narrow(std::move(bounds.low), std::move(bounds.high));
    const bool use = narrow.is_bounded() && narrow.is_feasible();
    const ClockRegion& region = use ? narrow : causal;
    if (!region.is_bounded()) return kUnknown;
    const ClockLine line = line_of(info, place, info.clock_offset_ns);
    const auto [first, last] = meetings_.span_of(place);
    double open = region.violation(line);
    if (region.is_feasible()) {
      open = std::max(
          {open, region.furthest(line, first), region.furthest(line, last)});
    } else {
      // The clocks are no lines, but within `open` of some.
      const ClockRegion relaxed = region.relaxed(open);
      open +=
          std::max(relaxed.furthest(line, first), relaxed.furthest(line, last));
    }
    constexpr int64_t kRounding = 4;  // Of the four times in a bound.
    return sum(kRounding, std::ceil(open));
  }

  std::vector<ClockAlignment> results(const std::vector<size_t>& order) {
    std::vector<ClockAlignment> all;
    for (const size_t place : order) {
      RankInfo& info = infos_[place];
      const Rank& rank = ranks_[place];
      const bool first = all.empty();
      const bool known = rank.tied && rank.unsure_ns != kUnknown;
      if (known && !first) info.clock_residual_ns = rank.unsure_ns;
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
  std::vector<Rank> ranks_;  // [place]
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
