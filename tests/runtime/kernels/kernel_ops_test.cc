// Every op as a kernel of its own: lowered, interpreted and compiled, against
// the oracle.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "tests/runtime/kernels/kernel_cases.h"
#include "tests/testing/directories.h"
#include "tests/testing/hlo_evaluator.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

class KernelOps : public testing::TestWithParam<KernelCase> {};

/// f32 results may differ by rounding: `scale` is the size of what was added
/// up.
void expect_near(const Instruction& instruction, const std::vector<double>& got,
                 const Elements& want) {
  ASSERT_EQ(got.size(), want.size()) << instruction.name;
  double scale = 0;
  for (const double value : want) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  const std::string type(primitive_type_name(instruction.shape.type));
  const bool half = type == "bf16" || type == "f16";
  const bool exact = !half && type[0] != 'f';
  // Half types keep 8 to 11 bits; f32 results differ by a few roundings.
  const double precision = half ? 3e-2 : 2e-6;
  const bool reduces = instruction.opcode == Opcode::kReduce ||
                       instruction.opcode == Opcode::kScatter ||
                       instruction.opcode == Opcode::kReduceWindow;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (got[i] == want[i]) continue;
    const double bound =
        exact ? 0
              : precision * (reduces ? scale + 1 : std::fabs(want[i])) +
                    (half ? 1e-6 : 1e-37);
    ASSERT_NEAR(got[i], want[i], bound) << instruction.name << " element " << i;
  }
}

TEST_P(KernelOps, AgreeWithTheOracleAndTheInterpreter) {
  const std::string text =
      fmt::format("{}ENTRY main {{{}\n}}\n", kCaseRegions, GetParam().entry);
  const Result<Module> module = parse_hlo(text, GetParam().name);
  ASSERT_TRUE(module) << module.error().message;
  const Computation& computation = module->entry_computation();
  std::vector<Kernel> kernels;
  const std::vector<InstructionId> ops = kernel_ops(*module);
  for (const InstructionId op : ops) {
    Result<Kernel> kernel = lower_kernel(*module, {&op, 1}, {&op, 1});
    ASSERT_TRUE(kernel) << kernel.error().message;
    kernels.push_back(std::move(*kernel));
  }
  const Result<CompiledKernels> compiled = compile_kernels(
      kernels, {.cache_directory = build_directory() + "/kernel_cache"});
  ASSERT_TRUE(compiled) << compiled.error().message;
  Memory memory = random_inputs(*module, 7);
  std::vector<Elements> parameters;
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    if (instruction.opcode != Opcode::kParameter) continue;
    parameters.resize(
        std::max(parameters.size(),
                 static_cast<size_t>(instruction.parameter_number) + 1));
    parameters[static_cast<size_t>(instruction.parameter_number)] =
        elements_of(instruction.shape, memory[i]);
  }
  const auto want = evaluate(*module, computation, parameters);
  for (size_t k = 0; k < ops.size(); ++k) {
    const Instruction& instruction = computation.at(ops[k]);
    run_kernel(kernels[k], nullptr, memory);
    const std::vector<char> interpreted = memory[index_of(ops[k])];
    expect_near(instruction, elements_of(instruction.shape, interpreted),
                want.at(index_of(ops[k])));
    run_kernel(kernels[k], compiled->functions[k], memory);
    EXPECT_EQ(first_difference(instruction.shape, interpreted,
                               memory[index_of(ops[k])]),
              -1)
        << instruction.name << "\n"
        << kernel_text(kernels[k]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelOps, testing::ValuesIn(kKernelCases),
                         [](const auto& one) {
                           return std::string(one.param.name);
                         });

}  // namespace
}  // namespace reprise
