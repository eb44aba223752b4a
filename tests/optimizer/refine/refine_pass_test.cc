// Local search on an order by replay.
#include "optimizer/refine/refine_pass.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"
#include "optimizer/baselines/baselines.h"
#include "optimizer/optimize.h"
#include "tests/optimizer/synthetic_costs.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

/// From a plan with buckets it keeps these, moves units only, and what it finds
/// is a valid plan that is no slower.
TEST(Refine, MovesUnitsOfTheRecordedPlanOnly) {
  const auto module =
      parse_hlo_file(source_directory() + "/data/programs/mlp.2.hlo");
  ASSERT_TRUE(module.has_value());
  const InlinedModule inlined = *inline_calls(*module);
  const CostModel costs = busy_costs();
  auto recorded = baseline_plan("ddp", inlined, 2, costs);
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  OptimizeOptions options;
  options.only = {"refine"};
  std::vector<Plan> plans;
  for (const int threads : {1, 4}) {
    options.threads = threads;
    const auto result = optimize(inlined, *recorded, costs, options);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    plans.push_back(result->plan);
  }
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_EQ(plans[0].fusion, recorded->fusion);
  EXPECT_EQ(plans[0].buckets, recorded->buckets);
  EXPECT_TRUE(validate_plan(plans[0], inlined).has_value());
  EXPECT_LE(plans[0].predicted->step_time_ns,
            recorded->predicted->step_time_ns);
}

/// It runs where it is asked for only.
TEST(Refine, IsOnRequest) { EXPECT_TRUE(refine_pass().on_request); }

}  // namespace
}  // namespace reprise
