// Small programs against JAX: every opcode that runs, in many forms and types,
// through lowering and the CPU's executor.
#include <gtest/gtest.h>

#include <cstring>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "tests/runtime/cpu/jax_values.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// Runs two steps, so that what a step leaves behind shows.
void run_case(const JaxCase& one, bool interpret) {
  const Result<InlinedModule> module = parse_inlined(one.hlo, one.name);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto alone = make_single_process_group();
  const Result<LoadedKernels> kernels =
      load_kernels(*schedule,
                   {.interpret = interpret,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone);
  ASSERT_TRUE(kernels) << kernels.error().message;
  const auto communicator = make_solo_communicator();
  const auto executor = Executor::create(*module, *schedule, kernels->code,
                                         *communicator, nullptr, {});
  ASSERT_TRUE(executor) << executor.error().message;
  const Computation& entry = module->entry_computation();
  const Instruction& root = entry.at(entry.root);
  for (int32_t step = 0; step < 2; ++step) {
    for (size_t n = 0; n < one.inputs.size(); ++n) {
      const auto to = (*executor)->parameter(static_cast<int64_t>(n));
      ASSERT_EQ(to.size(), one.inputs[n].size());
      std::memcpy(to.data(), one.inputs[n].data(), to.size());
    }
    const Status done = (*executor)->run_step(step);
    ASSERT_TRUE(done) << done.error().message;
  }
  for (size_t k = 0; k < one.outputs.size(); ++k) {
    const Shape& shape =
        root.shape.is_tuple() ? root.shape.elements[k] : root.shape;
    expect_close(fmt::format("output {}", k), shape,
                 (*executor)->output(static_cast<int64_t>(k)), one.outputs[k],
                 goes_by_blocks(one) ? 0 : rounding_of(one));
  }
}

class JaxCases : public testing::TestWithParam<JaxCase> {};

TEST_P(JaxCases, AgreeWithJax) { run_case(GetParam(), true); }

std::string case_name(const std::string& name) {
  std::string plain = name;
  for (char& c : plain) c = std::isalnum(c) != 0 ? c : '_';
  return plain;
}

INSTANTIATE_TEST_SUITE_P(All, JaxCases, testing::ValuesIn(jax_cases()),
                         [](const auto& one) {
                           return case_name(one.param.name);
                         });

/// Where generated code and routines call each other.
TEST(CompiledJaxCases, AgreeWithJax) {
  for (const JaxCase& one : jax_cases()) {
    const bool chosen =
        one.name == "scan.gradient" || one.name == "while.nested" ||
        one.name == "cond.1" || one.name == "sort.keys" ||
        one.name == "reduce.variadic" || one.name == "max_pool.gradient";
    if (chosen) {
      SCOPED_TRACE(one.name);
      run_case(one, false);
    }
  }
}

}  // namespace
}  // namespace reprise
