// State that goes through a conditional or a loop: written over the step's
// parameters where that is safe, and right in any case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "runtime/process/process_group.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

struct StateCase {
  std::string name;
  std::string branches;     ///< Computations `yes` and `no`.
  std::string conditional;  ///< Its line, then whatever reads it.
  /// One step of `a` and `b` where the condition holds.
  std::function<void(float* a, float* b)> yes;
  int64_t copies = 0;  ///< Of state, that the schedule has.
};

const StateCase kStateCases[] = {
    {.name = "in place",
     .branches = R"(
yes {
  t = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(t), index=0
  b = f32[4] get-tuple-element(t), index=1
  c = f32[4] add(a, b)
  d = f32[4] multiply(b, b)
  ROOT r = (f32[4], f32[4]) tuple(c, d)
}
no {
  ROOT t = (f32[4], f32[4]) parameter(0)
}
)",
     .conditional =
         "r = (f32[4], f32[4]) conditional(p, s, s), true_computation=yes, "
         "false_computation=no",
     .yes =
         [](float* a, float* b) {
           *a = *a + *b;
           *b = *b * *b;
         }},
    {.name = "swapped",
     .branches = R"(
yes {
  t = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(t), index=0
  b = f32[4] get-tuple-element(t), index=1
  c = f32[4] negate(b)
  ROOT r = (f32[4], f32[4]) tuple(c, a)
}
no {
  ROOT t = (f32[4], f32[4]) parameter(0)
}
)",
     .conditional =
         "r = (f32[4], f32[4]) conditional(p, s, s), true_computation=yes, "
         "false_computation=no",
     .yes =
         [](float* a, float* b) {
           const float old = *a;
           *a = -*b;
           *b = old;
         }},
    {.name = "one taken twice",
     .branches = R"(
yes {
  t = (f32[4], f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(t), index=0
  b = f32[4] get-tuple-element(t), index=1
  again = f32[4] get-tuple-element(t), index=2
  c = f32[4] negate(a)
  d = f32[4] add(again, b)
  ROOT r = (f32[4], f32[4]) tuple(c, d)
}
no {
  ROOT t = (f32[4], f32[4]) parameter(0)
}
)",
     .conditional =
         "s3 = (f32[4], f32[4], f32[4]) tuple(a, b, a)\n"
         "  r = (f32[4], f32[4]) conditional(p, s3, s), true_computation=yes, "
         "false_computation=no",
     .yes =
         [](float* a, float* b) {
           *b = *a + *b;
           *a = -*a;
         },
     .copies = 1},
    {.name = "one not taken",
     .branches = R"(
yes {
  b = f32[4] parameter(0)
  c = f32[4] negate(b)
  d = f32[4] add(b, b)
  ROOT r = (f32[4], f32[4]) tuple(c, d)
}
no {
  ROOT t = (f32[4], f32[4]) parameter(0)
}
)",
     .conditional =
         "r = (f32[4], f32[4]) conditional(p, b, s), true_computation=yes, "
         "false_computation=no",
     .yes =
         [](float* a, float* b) {
           *a = -*b;
           *b = *b + *b;
         }},
    {.name = "old value read later",
     .branches = R"(
yes {
  t = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(t), index=0
  b = f32[4] get-tuple-element(t), index=1
  c = f32[4] add(a, b)
  d = f32[4] multiply(b, b)
  ROOT r = (f32[4], f32[4]) tuple(c, d)
}
no {
  ROOT t = (f32[4], f32[4]) parameter(0)
}
)",
     .conditional =
         R"(r0 = (f32[4], f32[4]) conditional(p, s, s), true_computation=yes, false_computation=no
  x = f32[4] get-tuple-element(r0), index=0
  y = f32[4] get-tuple-element(r0), index=1
  z = f32[4] subtract(y, a)
  r = (f32[4], f32[4]) tuple(x, z))",
     .yes =
         [](float* a, float* b) {
           const float old = *a;
           *a = *a + *b;
           *b = *b * *b - old;
         },
     .copies = 1},
};

std::string state_program(const StateCase& given) {
  return fmt::format(
      R"(HloModule m, input_output_alias={{ {{0}}: (0, {{}}, must-alias), {{1}}: (1, {{}}, must-alias) }}
{}
ENTRY main {{
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  p = pred[] parameter(2)
  s = (f32[4], f32[4]) tuple(a, b)
  {}
  new_a = f32[4] get-tuple-element(r), index=0
  new_b = f32[4] get-tuple-element(r), index=1
  ROOT out = (f32[4], f32[4]) tuple(new_a, new_b)
}}
)",
      given.branches, given.conditional);
}

int64_t state_copies(const Schedule& schedule) {
  return std::count_if(
      schedule.units.begin(), schedule.units.end(),
      [](const Unit& unit) { return unit.kind == UnitKind::kCopy; });
}

/// Kept alive with its communicator, without which no step runs.
std::unique_ptr<Executor> interpreted(const Module& module,
                                      const Schedule& schedule) {
  static const auto alone = make_single_process_group();
  static const auto communicator = make_solo_communicator();
  const auto kernels = load_kernels(
      schedule, {.interpret = true, .cache_directory = ""}, *alone);
  EXPECT_TRUE(kernels) << kernels.error().message;
  auto executor = Executor::create(module, schedule, kernels->code,
                                   *communicator, nullptr, {});
  EXPECT_TRUE(executor) << executor.error().message;
  return *std::move(executor);
}

TEST(ConditionalState, IsReplacedInPlaceOrCopied) {
  for (const StateCase& given : kStateCases) {
    SCOPED_TRACE(given.name);
    const auto module = parse_inlined(state_program(given));
    ASSERT_TRUE(module) << module.error().message;
    const auto schedule = lower_schedule(*module, identity_plan(*module, 1));
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_EQ(state_copies(*schedule), given.copies)
        << print_schedule(*schedule);
    const auto executor = interpreted(*module, *schedule);
    float a[4] = {1, -2, 0.5, 3}, b[4] = {2, 1, -1, 0.25};
    std::memcpy(executor->parameter(0).data(), a, sizeof a);
    std::memcpy(executor->parameter(1).data(), b, sizeof b);
    for (int32_t step = 0; step < 6; ++step) {
      const bool holds = step % 3 != 1;
      executor->parameter(2)[0] = std::byte{holds};
      ASSERT_TRUE(executor->run_step(step));
      for (int i = 0; i < 4; ++i) {
        const float old = a[i];
        if (holds) given.yes(&a[i], &b[i]);
        if (!holds && given.name == "old value read later") b[i] -= old;
      }
      EXPECT_EQ(std::memcmp(executor->output(0).data(), a, sizeof a), 0);
      EXPECT_EQ(std::memcmp(executor->output(1).data(), b, sizeof b), 0);
    }
  }
}

/// Two passes of x * x + y over a parameter, which is read nowhere else.
TEST(LoopState, IsReplacedInPlace) {
  const auto module = parse_inlined(
      R"(HloModule m, input_output_alias={ {}: (0, {}, must-alias) }

condition {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  y = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  square = f32[4] multiply(x, x)
  sum = f32[4] add(square, y)
  ROOT out = (s32[], f32[4], f32[4]) tuple(next, sum, y)
}
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  state = (s32[], f32[4], f32[4]) tuple(zero, x, y)
  loop = (s32[], f32[4], f32[4]) while(state), condition=condition, body=body
  ROOT out = f32[4] get-tuple-element(loop), index=1
}
)");
  ASSERT_TRUE(module) << module.error().message;
  const auto schedule = lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(state_copies(*schedule), 0) << print_schedule(*schedule);
  const auto executor = interpreted(*module, *schedule);
  float x[4] = {1, -2, 0.5, 0}, y[4] = {2, 1, -1, 0.25};
  std::memcpy(executor->parameter(0).data(), x, sizeof x);
  std::memcpy(executor->parameter(1).data(), y, sizeof y);
  for (int32_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(executor->run_step(step));
    for (int i = 0; i < 4; ++i) {
      for (int pass = 0; pass < 2; ++pass) x[i] = x[i] * x[i] + y[i];
    }
    EXPECT_EQ(std::memcmp(executor->output(0).data(), x, sizeof x), 0);
  }
}

}  // namespace
}  // namespace reprise
