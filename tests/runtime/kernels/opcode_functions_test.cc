// Every function of the opcode table, with every type it is said to be defined
// for: interpreted, compiled, and printed for a GPU, bit for bit the same.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "data/kernel/lower_kernel.h"
#include "tests/runtime/kernels/cuda_check.h"
#include "tests/runtime/kernels/cuda_twin.h"
#include "tests/testing/directories.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

constexpr Opcode kFunctions[] = {
#define REPRISE_UNARY(id, ...) Opcode::k##id,
#define REPRISE_BINARY(id, ...) Opcode::k##id,
#define REPRISE_TERNARY(id, ...) Opcode::k##id,
#include "data/hlo/opcode_table.inc"
};

/// A program of one type that applies each function which takes it.
std::string program(PrimitiveType type) {
  const std::string shape = std::string(primitive_type_name(type)) + "[41]";
  std::string text = "HloModule functions\nENTRY main {\n  x = " + shape +
                     " parameter(0)\n  y = " + shape +
                     " parameter(1)\n  z = " + shape + " parameter(2)\n";
  for (const Opcode opcode : kFunctions) {
    if (!is_computable(opcode, type)) continue;
    const OpcodeFacts& facts = facts_of(opcode);
    constexpr std::string_view kOperands = "x, y, z";
    text += fmt::format("  r.{0} = {1} {0}({2})\n", facts.name, shape,
                        kOperands.substr(0, 3 * facts.most_operands - 2));
  }
  return text + "  ROOT end = s32[] constant(0)\n}\n";
}

class OpcodeFunctions : public testing::TestWithParam<PrimitiveType> {};

TEST_P(OpcodeFunctions, AgreeOnAllDevices) {
  const Result<Module> module = parse_hlo(program(GetParam()));
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<InstructionId> ops = kernel_ops(*module);
  ASSERT_GT(ops.size(), 5u);
  std::vector<Kernel> kernels;
  for (const InstructionId op : ops) {
    Result<Kernel> kernel = lower_kernel(*module, {&op, 1}, {&op, 1});
    ASSERT_TRUE(kernel) << kernel.error().message;
    kernels.push_back(std::move(*kernel));
  }
  const Result<CompiledKernels> compiled = compile_kernels(
      kernels, {.cache_directory = build_directory() + "/kernel_cache"});
  ASSERT_TRUE(compiled) << compiled.error().message;
  const Result<CudaTwins> twins = CudaTwins::make(kernels);
  ASSERT_TRUE(twins) << twins.error().message;
  const Memory want = run_one_by_one(*module, 3);
  Memory memory = random_inputs(*module, 3);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Instruction& instruction = module->entry_computation().at(ops[k]);
    run_kernel(kernels[k], compiled->functions[k], memory);
    EXPECT_EQ(first_difference(instruction.shape, want.at(index_of(ops[k])),
                               memory[index_of(ops[k])]),
              -1)
        << instruction.name;
    expect_cuda_agrees(*module, kernels[k], want, *twins, k);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OpcodeFunctions,
    testing::Values(PrimitiveType::kPred, PrimitiveType::kS8,
                    PrimitiveType::kU32, PrimitiveType::kS64,
                    PrimitiveType::kBF16, PrimitiveType::kF32,
                    PrimitiveType::kF64),
    [](const auto& one) {
      return std::string(primitive_type_name(one.param));
    });

}  // namespace
}  // namespace reprise
