// Schedules as text, for tests: one unit a line,
//   compute NAME DURATION [after NAME…] [slow FACTOR]
//   transfer NAME DURATION [after NAME…] [slow FACTOR] [bytes N] [groups
//   0,1;2,3]
#pragma once

#include <string_view>

#include "replay/graph/priced_schedule.h"

namespace reprise {

/// A schedule that owns what its prices point to.
struct TextSchedule {
  Schedule schedule;
  PricedSchedule priced;
};

/// Fills `result` from text. Aborts on a malformed case: a bug of the test.
void parse_schedule(std::string_view text, int64_t ranks, TextSchedule& result);

}  // namespace reprise
