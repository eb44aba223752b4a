// A schedule as a clock sees it: where ranks meet inside a loop, its unit falls
// into parts, so that traces, prices and replay know of those collectives what
// they know of all others. Nothing runs by it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// Key of Trace::environment: the run's events number the parts, not the units.
inline constexpr const char* kTimedParts = "timed_parts";

class TimedSchedule {
 public:
  /// `whole` must outlive it. A unit falls into parts if it is a loop whose
  /// number of passes is known, of programs in which the same holds, and ranks
  /// meet at most 1,024 times in it: what it computes before, between and after
  /// its collectives, and those, each where it stands, one after the other.
  /// Parts carry no locations. What branches choose stays whole, as does
  /// everything where not `in_parts`. Cost: O(units + parts).
  TimedSchedule(const Schedule& whole, bool in_parts);
  /// Of what a run's events number, by its Trace::environment.
  TimedSchedule(const Schedule& whole,
                const std::map<std::string, std::string>& environment)
      : TimedSchedule(whole, environment.contains(kTimedParts)) {}
  TimedSchedule(Schedule&&, bool) = delete;

  /// The whole, where nothing falls into parts.
  const Schedule& schedule() const { return cut_ ? *cut_ : whole_; }
  bool has_parts() const { return cut_.has_value(); }
  /// Which units of schedule() are a unit's of the whole: one or more.
  uint32_t first_part(UnitId unit) const;
  uint32_t part_count(UnitId unit) const;

 private:
  const Schedule& whole_;
  std::optional<Schedule> cut_;
  std::vector<uint32_t> first_;  ///< [unit of the whole], and the end.
};

}  // namespace reprise
