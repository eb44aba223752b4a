#include "data/plan/plan.h"

#include <gtest/gtest.h>

#include <random>

namespace reprise {
namespace {

Plan full_plan() {
  Plan plan;
  plan.program_fingerprint = "sha256:00";
  plan.ranks = 2;
  plan.fusion = {{.unit = "f0", .ops = {"multiply.12", "add.13"}}};
  plan.buckets = {{.unit = "b0",
                   .collectives = {"all-reduce.4", "all-reduce.7:2"},
                   .chunks = 2},
                  {.unit = "b1", .collectives = {"all-reduce.9"}}};
  plan.called = {{"ag.1", "ag.2"}, {"rs.1", "rs.2"}};
  plan.order = {"dot.3", "f0", "b0#0", "b0#1", "b1"};
  plan.predicted = PlanPrediction{.step_time_ns = 120,
                                  .baselines = {{"ddp", 200}, {"none", 300}},
                                  .lower_bound_ns = 100,
                                  .gap = 0.2};
  plan.seed = UINT64_MAX;
  plan.evaluations = 12345;
  plan.made_by = "reprise \"0.1.0\"";
  return plan;
}

TEST(Plan, PrintsWhatItParses) {
  const Plan plan = full_plan();
  const std::string text = print_plan(plan);
  const Result<Plan> parsed = parse_plan(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, plan);
  EXPECT_EQ(print_plan(*parsed), text);
}

// A trace holds the plan that it ran under.
TEST(Plan, IsToldFromWhatHoldsOne) {
  const std::string text = print_plan(full_plan());
  EXPECT_TRUE(begins_as_plan(text));
  EXPECT_TRUE(begins_as_plan("\n " + text));
  EXPECT_FALSE(begins_as_plan("SQLite format 3" + text));
  EXPECT_FALSE(begins_as_plan(""));
}

TEST(Plan, OfAnImportedTracePrintsWhatItParses) {
  Plan plan;
  plan.trace = TracePlan{.fingerprint = "sha256:11",
                         .gradients = {{.name = "gradient.0",
                                        .type = "float",
                                        .shape = "512x320",
                                        .bytes = 655360},
                                       {.name = "gradient.1",
                                        .type = "c10::Half",
                                        .shape = "7",
                                        .bytes = 14}},
                         .single_cap_bytes = 1 << 20,
                         .single_cap_step_time_ns = 150,
                         .recorded_step_time_ns = 200,
                         .replayed_step_time_ns = 190};
  plan.ranks = 2;
  plan.buckets = {{.unit = "b0", .collectives = {"gradient.0"}},
                  {.unit = "b1", .collectives = {"gradient.1"}}};
  const std::string text = print_plan(plan);
  EXPECT_EQ(text.find("program_fingerprint"), std::string::npos);
  const Result<Plan> parsed = parse_plan(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, plan);
  EXPECT_EQ(print_plan(*parsed), text);
}

TEST(Plan, NeedsNoOptionalKey) {
  const Result<Plan> plan = parse_plan(
      R"({"schema": "reprise.plan/1", "program_fingerprint": "sha256:1", "ranks": 1,
          "fusion": [], "buckets": []})");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->device, "cpu");
  EXPECT_TRUE(plan->order.empty());
  EXPECT_FALSE(plan->predicted);
}

struct BadPlan {
  const char* text;
  ErrorKind kind;
  const char* message;
};

class PlanErrors : public ::testing::TestWithParam<BadPlan> {};

TEST_P(PlanErrors, NameFileAndPlace) {
  const Result<Plan> plan = parse_plan(GetParam().text, "p.json");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, GetParam().kind);
  EXPECT_NE(plan.error().message.find("p.json"), std::string::npos)
      << plan.error().message;
  EXPECT_NE(plan.error().message.find(GetParam().message), std::string::npos)
      << plan.error().message;
}

#define HEAD \
  R"({"schema": "reprise.plan/1", "program_fingerprint": "x", "ranks": 1,)"

INSTANTIATE_TEST_SUITE_P(
    Inputs, PlanErrors,
    ::testing::Values(
        BadPlan{"", ErrorKind::kParse, "byte 1"},
        BadPlan{"{\"a\": ", ErrorKind::kParse, "byte 7"},
        BadPlan{"[1]", ErrorKind::kInvalid, "expected an object"},
        BadPlan{"{}", ErrorKind::kInvalid, "key 'schema' is missing"},
        BadPlan{R"({"schema": "reprise.plan/2"})", ErrorKind::kInvalid,
                "schema is 'reprise.plan/2'"},
        BadPlan{R"({"schema": "reprise.plan/1", "program_fingerprint": 7})",
                ErrorKind::kInvalid,
                "key 'program_fingerprint': expected a string, found 7"},
        BadPlan{
            R"({"schema": "reprise.plan/1", "program_fingerprint": "x", "ranks": 0})",
            ErrorKind::kInvalid, "key 'ranks': expected an integer from 1"},
        BadPlan{
            R"({"schema": "reprise.plan/1", "program_fingerprint": "x", "ranks": 1e30})",
            ErrorKind::kInvalid, "key 'ranks'"},
        BadPlan{R"({"schema": "reprise.plan/1", "trace_fingerprint": "x",
                    "ranks": 2, "fusion": [], "buckets": [],
                    "gradients": [{"name": "g", "type": "float", "shape": "",
                                   "bytes": -1}]})",
                ErrorKind::kInvalid, "plan.gradients[0]: key 'bytes'"},
        BadPlan{HEAD R"("fusion": [], "buckets": [], "called": [["a", 1]]})",
                ErrorKind::kInvalid, "key 'called': expected lists of names"},
        BadPlan{HEAD R"("fusion": 3, "buckets": []})", ErrorKind::kInvalid,
                "key 'fusion'"},
        BadPlan{HEAD R"("fusion": [{"unit": "f0"}], "buckets": []})",
                ErrorKind::kInvalid, "plan.fusion[0]: key 'ops' is missing"},
        BadPlan{HEAD
                R"("fusion": [{"unit": "f0", "ops": [1]}], "buckets": []})",
                ErrorKind::kInvalid,
                "key 'ops': expected an array of strings, found 1"},
        BadPlan{
            HEAD
            R"("fusion": [], "buckets": [{"unit": "b", "collectives": [], "chunks": -1}]})",
            ErrorKind::kInvalid, "plan.buckets[0]: key 'chunks'"},
        BadPlan{HEAD R"("fusion": [], "buckets": [], "ordr": []})",
                ErrorKind::kInvalid, "unknown key 'ordr'"}));

TEST(Plan, SurvivesTruncationNoiseAndDepth) {
  const std::string text = print_plan(full_plan());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse_plan(text.substr(0, length)));
  }
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string noisy = text;
    for (int k = 0; k < 3; ++k) {
      noisy[random() % noisy.size()] = static_cast<char>(random());
    }
    const Result<Plan> plan = parse_plan(noisy);
    if (!plan) continue;
    EXPECT_EQ(*parse_plan(print_plan(*plan)), *plan);
  }
  const std::string deep(1000000, '[');
  EXPECT_FALSE(parse_plan("{\"schema\": " + deep));
  const std::string closed = deep + std::string(deep.size(), ']');
  EXPECT_FALSE(parse_plan("{\"schema\": " + closed + "}"));
}

}  // namespace
}  // namespace reprise
