// Whatever the plan, training gives the same bits.
#include <gtest/gtest.h>

#include "tests/runtime/train/trained_program.h"
#include "tests/testing/mutated_plan.h"
#include "tests/testing/random_plan.h"

namespace reprise {
namespace {

struct Case {
  const char* program;
  int32_t steps;
  uint64_t plans;
};

class PlanIdentity : public testing::TestWithParam<Case> {};

TEST_P(PlanIdentity, AnyValidPlanGivesTheBitsOfTheIdentityPlan) {
  const Case& c = GetParam();
  const Result<TestProgram> program = load_test_program(c.program);
  ASSERT_TRUE(program) << program.error().message;
  const auto identity =
      make_test_run(*program, identity_plan(program->module, 1));
  ASSERT_TRUE(identity) << identity.error().message;
  const auto losses = train_steps(**identity, c.steps);
  ASSERT_TRUE(losses) << losses.error().message;
  EXPECT_LT(losses->back(), losses->front());
  const std::vector<std::string> expected =
      (*identity)->run->state_digests().value();

  for (uint64_t seed = 1; seed <= c.plans; ++seed) {
    const Plan plan = random_valid_plan(program->module, seed, 1);
    const auto planned = make_test_run(*program, plan);
    ASSERT_TRUE(planned) << planned.error().message;
    const auto planned_losses = train_steps(**planned, c.steps);
    ASSERT_TRUE(planned_losses) << planned_losses.error().message;
    EXPECT_EQ(*planned_losses, *losses) << "seed " << seed;
    const std::vector<std::string> digests =
        (*planned)->run->state_digests().value();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(digests[i], expected[i])
          << "seed " << seed << ", " << program->manifest.parameters[i].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, PlanIdentity,
                         testing::Values(Case{"mlp.1", 3, 4},
                                         Case{"gpt.1", 2, 2}));

TEST(PlanIdentity, HoldsBetweenTwoRanksToo) {
  for (const char* name : {"mlp.2", "gpt.2"}) {
    const Result<TestProgram> program = load_test_program(name);
    ASSERT_TRUE(program) << program.error().message;
    const auto expected =
        train_two_ranks(*program, identity_plan(program->module, 2), 2);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ((*expected)[1], (*expected)[0]);
    for (const uint64_t seed : {1, 2}) {
      const auto planned = train_two_ranks(
          *program, random_valid_plan(program->module, seed, 2), 2);
      ASSERT_TRUE(planned) << planned.error().message;
      EXPECT_EQ(*planned, *expected) << name << ", seed " << seed;
    }
  }
}

// Whoever edits a plan by hand gets a reason or the same bits.
TEST(PlanIdentity, HoldsUnderMeddledPlansThatAreValid) {
  const Result<TestProgram> program = load_test_program("mlp.1");
  ASSERT_TRUE(program) << program.error().message;
  const Plan base = random_valid_plan(program->module, 1, 1);
  const auto expected = make_test_run(*program, base, true);
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_TRUE(train_steps(**expected, 1));
  int valid = 0;
  for (uint64_t seed = 0; seed < 200 && valid < 5; ++seed) {
    const Plan plan = mutated_plan(program->module, base, seed);
    const auto run = make_test_run(*program, plan, true);
    if (!run || plan == base) continue;
    ASSERT_TRUE(train_steps(**run, 1));
    EXPECT_EQ((*run)->run->state_digests().value(),
              (*expected)->run->state_digests().value())
        << print_plan(plan);
    ++valid;
  }
  EXPECT_EQ(valid, 5);
}

TEST(PlanIdentity, InterpretedKernelsGiveTheBitsOfCompiledOnes) {
  const Result<TestProgram> program = load_test_program("mlp.1");
  ASSERT_TRUE(program) << program.error().message;
  const Plan plan = random_valid_plan(program->module, 1, 1);
  const auto compiled = make_test_run(*program, plan);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto interpreted = make_test_run(*program, plan, true);
  ASSERT_TRUE(interpreted) << interpreted.error().message;
  ASSERT_TRUE(train_steps(**compiled, 1));
  ASSERT_TRUE(train_steps(**interpreted, 1));
  EXPECT_EQ((*interpreted)->run->state_digests().value(),
            (*compiled)->run->state_digests().value());
}

}  // namespace
}  // namespace reprise
