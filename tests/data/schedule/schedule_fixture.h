// A program of a few lines, lowered for two ranks under a plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/plan/plan.h"
#include "data/schedule/schedule.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {

class ScheduleTest : public ::testing::Test {
 protected:
  using Names = std::vector<std::string>;

  void load(const std::string& header, const std::string& entry) {
    const std::string text = "HloModule m" + header + R"(
add_f32 {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
add_s32 {
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT s = s32[] add(p, q)
}
ENTRY main {
)" + entry + "\n}\n";
    Result<InlinedModule> parsed = parse_inlined(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    module_ = *std::move(parsed);
    plan_ = identity_plan(module_, 2);
  }
  void lower() {
    Result<Schedule> lowered = lower_schedule(module_, plan_);
    ASSERT_TRUE(lowered) << lowered.error().message;
    schedule_ = *std::move(lowered);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Unit& unit : schedule_.units) result.push_back(unit.name);
    return result;
  }
  uint32_t place(const std::string& name) const {
    const auto all = names();
    return static_cast<uint32_t>(std::find(all.begin(), all.end(), name) -
                                 all.begin());
  }
  const Unit& unit(const std::string& name) const {
    return schedule_.units.at(place(name));
  }
  bool depends(const std::string& after, const std::string& before,
               uint32_t steps = 0) const {
    const Dependency wanted{UnitId{place(before)}, UnitId{place(after)}, steps};
    return std::count(schedule_.dependencies.begin(),
                      schedule_.dependencies.end(), wanted) > 0;
  }
  std::string refusal() const {
    const Result<Schedule> lowered = lower_schedule(module_, plan_);
    return lowered ? "lowered" : lowered.error().message;
  }
  InlinedModule module_;
  Plan plan_;
  Schedule schedule_;
};

/// Header of a program whose first output is its first parameter's next value.
constexpr const char* kAlias =
    ", input_output_alias={ {0}: (0, {}, may-alias) }";

}  // namespace reprise
