#include "data/program/lowered_program.h"

#include <gtest/gtest.h>

#include "data/file.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

Trace trace_of(const std::string& program) {
  const std::string path = source_directory() + "/data/programs/" + program;
  Trace trace;
  trace.program_text = *read_text_file(path + ".hlo");
  trace.manifest_text = *read_text_file(path + ".json");
  trace.ranks.resize(1);
  trace.ranks[0].device = "cpu";
  return trace;
}

// What `train` takes, `replay --plan` takes: a plan that names units as an
// earlier arithmetic made them is lowered under that.
TEST(LoweredProgram, TakesAPlanOfBeforeBesideARunOfNow) {
  const Trace trace = trace_of("loops.1");
  const auto recorded = lowered_program_of(trace, "t", "");
  ASSERT_TRUE(recorded) << recorded.error().message;
  const auto parsed = parse_hlo(trace.program_text, "t");
  ASSERT_TRUE(parsed) << parsed.error().message;
  size_t earlier = 0;
  for (const Arithmetic before :
       {Arithmetic::kRowsApart, Arithmetic::kAsWritten}) {
    auto inlined = inline_calls(*parsed, before);
    ASSERT_TRUE(inlined) << inlined.error().message;
    ASSERT_TRUE(alias_state(recorded->manifest, &*inlined));
    const Plan plan = identity_plan(*inlined, 1);
    earlier += plan.program_fingerprint != recorded->plan.program_fingerprint;
    const auto replanned = lower_replanned(*recorded, "t", plan, "plan");
    ASSERT_TRUE(replanned) << replanned.error().message;
    EXPECT_GE(replanned->schedule.units.size(),
              recorded->schedule.units.size());
  }
  EXPECT_GT(earlier, 0U);
  Plan other = recorded->plan;
  other.program_fingerprint = "another";
  const auto refused = lower_replanned(*recorded, "t", other, "plan");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("plan: the plan is for another"),
            std::string::npos)
      << refused.error().message;
}

TEST(LoweredProgram, OfATraceIsLoweredForWhatRecordedIt) {
  Trace trace = trace_of("loops.1");
  for (const auto& [device, lowered_for] :
       {std::pair{"cpu", LoweredFor::kProcessor},
        std::pair{"cuda", LoweredFor::kGpu}}) {
    trace.ranks[0].device = device;
    const auto lowered = lowered_program_of(trace, "t", "");
    ASSERT_TRUE(lowered) << lowered.error().message;
    EXPECT_EQ(lowered->module.device, lowered_for);
  }
}

}  // namespace
}  // namespace reprise
