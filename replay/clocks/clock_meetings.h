// Collectives and messages as what they say about clocks: who must have come
// before whom left.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "data/trace/trace_by_rank.h"
#include "replay/clocks/clock_bounds.h"
#include "replay/collectives/collectives.h"

namespace reprise {

/// The two greatest of some values, so that the greatest of the others is known
/// for each.
struct Greatest {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  int64_t first = kNone, second = kNone;
  size_t whose = std::numeric_limits<size_t>::max();

  void add(int64_t value, size_t owner);
  int64_t without(size_t owner) const {
    return owner == whose ? second : first;
  }
};

class ClockMeetings {
 public:
  ClockMeetings(const TraceByRank& trace, const CollectiveMatching& matching);

  /// Places of ranks are those in Trace::ranks, everywhere here.
  struct Bounds {
    std::vector<ClockPoint> low, high;
    std::vector<ClockPoint> ends;  ///< Peers' mean end minus own end.
    int64_t meetings = 0;
  };

  /// Forgets all known clocks.
  void clear();
  /// By how much the true time may be below and above the known one.
  struct Unsure {
    static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
    int64_t below_ns = 0, above_ns = 0;
  };
  /// From now on the rank's clock is known, to within `unsure`.
  void know(const RankInfo& clock, size_t place, const Unsure& unsure);

  /// One rank leaves before another has come, by those clocks.
  struct Breach {
    size_t leaves = 0, comes = 0;      ///< Places.
    int64_t left_ns = 0, came_ns = 0;  ///< Each on its rank's own clock.
    int64_t early_ns = 0;              ///< By so much.
  };
  /// The worst `most` breaches under the clocks in `ranks` (Trace::ranks), the
  /// worst first; of each part the one with the last to come. Of messages also
  /// where it leaves less than `least_share` of their least duration later.
  std::vector<Breach> breaches(const std::vector<RankInfo>& ranks, size_t most,
                               double least_share = 0) const;

  bool meets_known(size_t place) const;
  /// Start of the rank's first collective; its first event's without one.
  int64_t reference_ns(size_t place) const;
  /// The line of the clock's correction minus `offset_ns`, since reference_ns.
  ClockLine line_of(const RankInfo& clock, size_t place,
                    int64_t offset_ns) const;
  /// The rank's first event's start and last event's end, since reference_ns.
  std::pair<double, double> span_of(size_t place) const;
  /// Its first meeting's start and its last one's end, on its own clock.
  std::pair<int64_t, int64_t> met_between(size_t place) const;
  /// Correction, about: what brings the rank's first meeting with known ranks
  /// to their time. Keeps the numbers of the bounds small.
  int64_t rough_offset_ns(size_t place) const;
  /// Bounds of the correction minus `offset_ns`, over time since `reference`.
  /// Bounds are drawn in by `least_share` of each least duration.
  Bounds bounds_of(size_t place, int64_t offset_ns, double least_share) const;
  /// Bounds, likewise, by ends alone: members of a collective that joins all
  /// its ranks leave within its transfer of each other, and no transfer takes
  /// longer than the shortest stay in it. On hosts a thread that could leave
  /// may first have to wait for a core.
  Bounds end_bounds_of(size_t place, int64_t offset_ns) const;

 private:
  struct Part {
    size_t meeting = 0, place = 0;
    int64_t start_ns = 0, end_ns = 0;
    bool gives = true;  ///< Nobody else leaves before it has come.
    bool takes = true;  ///< It leaves after all others have come.
  };
  struct Meeting {
    size_t first_part = 0, part_count = 0;
    int64_t least_ns = 0;  ///< Least duration of any like it on any rank.
    int64_t stay_ns = 0;   ///< Least duration on any rank.
    bool on_device = false;
    bool joins = false;  ///< All members.
    // Of known ranks, on the lowest rank's clock:
    Greatest start, end, negative_end;
    int64_t first_end_ns = 0;
    double ends_sum_ns = 0;  ///< Of ends minus first_end_ns.
    int64_t ends = 0;
  };

  void add_meetings(const Trace& trace, const MatchedCollective& collective,
                    const std::vector<RankGroup>* senders);
  void add_meeting(std::vector<Part> parts, bool joins, bool on_device);
  void add_breaches(const Meeting& meeting, const std::vector<RankInfo>& ranks,
                    double least_share, std::vector<Breach>& found) const;

  std::vector<Meeting> meetings_;
  std::vector<Part> parts_;
  std::vector<std::vector<size_t>> parts_of_;            // [place]
  std::vector<int64_t> first_event_ns_, last_event_ns_;  // [place]
};

}  // namespace reprise
