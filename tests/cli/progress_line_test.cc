// What a bar says: derived by hand from counts and times.
#include "cli/progress_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace reprise {
namespace {

using std::chrono::seconds;

TEST(ProgressLine, SaysShareRateAndTimeLeft) {
  // A quarter in 2 s: 6 s are left; 50 MB in 2 s are 25 MB a second.
  EXPECT_EQ(progress_text(
                {.what = "reading", .share = 0.25, .count = 50e6, .unit = "B"},
                seconds(2), 80),
            "  reading [######..................]  25 %, 25.0 MB/s, 6.00 s "
            "left");
  EXPECT_EQ(progress_text(
                {.what = "training", .share = 0.5, .count = 3, .unit = "steps"},
                seconds(2), 80),
            "  training [############............]  50 %, 1.5 steps/s, 2.00 s "
            "left");
}

TEST(ProgressLine, SaysNoTimeLeftOfWhatHasNoEndOrNoBeginning) {
  EXPECT_EQ(progress_text({.what = "searching", .count = 100, .unit = "plans"},
                          seconds(2), 80),
            "  searching, 50 plans/s");
  EXPECT_EQ(progress_text({.what = "reading", .share = 0, .unit = ""},
                          seconds(0), 80),
            "  reading [........................]   0 %");
}

TEST(ProgressLine, StaysBelowTheTerminalsWidth) {
  const WorkProgress progress = {
      .what = "reading a.trace", .share = 0.5, .count = 1e9, .unit = "B"};
  for (size_t columns = 0; columns < 90; ++columns) {
    const std::string line = progress_text(progress, seconds(3), columns);
    EXPECT_LT(line.size(), std::max<size_t>(columns, 1)) << columns;
  }
}

TEST(ProgressLine, EscapesNames) {
  EXPECT_EQ(
      progress_text({.what = "reading \x1b[2K\n", .unit = ""}, seconds(0), 80),
      "  reading \\x1b[2K\\n");
}

}  // namespace
}  // namespace reprise
