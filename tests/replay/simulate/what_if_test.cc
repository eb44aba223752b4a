#include "replay/simulate/what_if.h"

#include <gtest/gtest.h>

#include "tests/replay/simulate/schedule_text.h"

namespace reprise {
namespace {

WhatIf parsed(std::string_view text) {
  const Result<WhatIf> what_if = parse_what_if(text);
  EXPECT_TRUE(what_if.has_value()) << text;
  return what_if ? *what_if : WhatIf{};
}

TEST(WhatIf, ScalesTheWireAndNotTheLatency) {
  CostModel costs;
  costs.collectives["k"] = {.latency_ns = 100,
                            .bandwidth_bytes_per_s = 1e9,
                            .points = {{1000, 1100}}};
  apply_what_if(parsed("bandwidth=2x"), costs);
  EXPECT_EQ(costs.collectives["k"].price_ns(1000), 600);
  EXPECT_EQ(costs.collectives["k"].price_ns(2000), 1100);
  apply_what_if(parsed("latency=50ns"), costs);
  EXPECT_EQ(costs.collectives["k"].price_ns(1000), 550);
  apply_what_if(parsed("latency=2x"), costs);
  EXPECT_EQ(costs.collectives["k"].price_ns(1000), 600);
}

TEST(WhatIf, ScalesMatchingUnitsAndRanks) {
  TextSchedule text;
  parse_schedule("compute dot.1 10\ncompute add.1 10", 2, text);
  EXPECT_TRUE(apply_what_if(parsed("op:^dot=0.5x"), nullptr, text.priced));
  EXPECT_EQ(replay_step_time(text.priced), 15);
  EXPECT_TRUE(apply_what_if(parsed("rank:1=2x"), nullptr, text.priced));
  EXPECT_EQ(replay_step_time(text.priced), 30);
}

TEST(WhatIf, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "bandwidth", "bandwidth=", "bandwidth=-2x", "bandwidth=2",
        "bandwidth=nanx", "latency=5m", "op:=2x", "op:(=2x", "rank:=2x",
        "rank:-1=2x", "speed=2x"}) {
    EXPECT_FALSE(parse_what_if(text).has_value()) << text;
  }
  TextSchedule text;
  parse_schedule("compute dot.1 10", 2, text);
  EXPECT_FALSE(apply_what_if(parsed("op:conv=2x"), nullptr, text.priced));
  EXPECT_FALSE(apply_what_if(parsed("rank:2=2x"), nullptr, text.priced));
}

}  // namespace
}  // namespace reprise
