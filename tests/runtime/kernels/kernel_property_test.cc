// Whatever group lower_kernel accepts, its kernel computes bit for bit what its
// ops compute one by one, compiled and interpreted, in place or not.
#include <gtest/gtest.h>

#include <random>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "data/kernel/lower_kernel.h"
#include "tests/runtime/kernels/random_graph.h"
#include "tests/testing/directories.h"
#include "tests/testing/hlo_evaluator.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

/// Runs a kernel with each output in the memory of an input where that is safe;
/// true if any.
bool run_in_place(const Kernel& kernel, KernelFunction function, Memory memory,
                  const Memory& want, const Module& module) {
  std::vector<void*> arguments;
  for (const KernelArgument& argument : kernel.arguments) {
    arguments.push_back(memory[index_of(argument.instruction)].data());
  }
  std::vector<bool> taken(arguments.size(), false);
  bool any = false;
  for (size_t output = 0; output < arguments.size(); ++output) {
    if (!kernel.arguments[output].is_output) continue;
    for (size_t input = 0; input < arguments.size(); ++input) {
      if (taken[input] || !in_place_safe(kernel, input, output)) continue;
      arguments[output] = arguments[input];
      taken[input] = any = true;
      break;
    }
  }
  if (!any) return false;
  function(arguments.data(), 0, kernel_iterations(kernel));
  for (size_t output = 0; output < arguments.size(); ++output) {
    const KernelArgument& argument = kernel.arguments[output];
    if (!argument.is_output) continue;
    const std::vector<char>& expected = want.at(index_of(argument.instruction));
    const char* bytes = static_cast<const char*>(arguments[output]);
    EXPECT_EQ(first_difference(
                  module.entry_computation().at(argument.instruction).shape,
                  {bytes, bytes + expected.size()}, expected),
              -1)
        << "in place\n"
        << kernel_text(kernel);
  }
  return true;
}

/// Runs each part in two pieces, the later one first.
void run_in_pieces(const Kernel& kernel, KernelFunction function,
                   Memory& memory) {
  std::vector<void*> arguments;
  for (const KernelArgument& argument : kernel.arguments) {
    std::vector<char>& bytes = memory[index_of(argument.instruction)];
    if (argument.is_output) bytes.assign(bytes.size(), 0x7f);
    arguments.push_back(bytes.data());
  }
  for (const KernelPart& part : kernel_parts(kernel).parts) {
    const int64_t middle = part.begin + (part.end - part.begin) / 3;
    function(arguments.data(), middle, part.end);
    function(arguments.data(), part.begin, middle);
  }
}

struct CutGroup {
  uint64_t seed = 0;
  std::vector<InstructionId> ops;
  Kernel kernel;
};

class KernelProperty : public testing::Test {
 protected:
  void check(const Module& module, const CutGroup& group, const Memory& want,
             KernelFunction function) {
    Memory memory = want;
    if (function != nullptr && kernel_iterations(group.kernel) > 2) {
      run_in_pieces(group.kernel, function, memory);
    } else {
      run_kernel(group.kernel, function, memory);
    }
    for (const KernelArgument& argument : group.kernel.arguments) {
      if (!argument.is_output) continue;
      const Instruction& instruction =
          module.entry_computation().at(argument.instruction);
      const uint32_t id = index_of(argument.instruction);
      ASSERT_EQ(first_difference(instruction.shape, memory.at(id), want.at(id)),
                -1)
          << "seed " << group.seed << ", output " << instruction.name
          << (function == nullptr ? ", interpreted\n" : ", compiled\n")
          << kernel_text(group.kernel) << print_hlo(module);
    }
  }
};

TEST_F(KernelProperty, AcceptedGroupsComputeWhatTheirOpsCompute) {
  const int graphs = number_from_environment("REPRISE_PROPERTY_GRAPHS", 60);
  const int first = number_from_environment("REPRISE_PROPERTY_SEED", 1);
  int accepted = 0, refused = 0, in_place = 0;
  for (int round = 0; round < graphs; round += 20) {
    std::vector<Module> modules;
    std::vector<Memory> values;
    std::vector<std::pair<size_t, CutGroup>> groups;
    std::vector<Kernel> kernels;
    for (int i = round; i < std::min(round + 20, graphs); ++i) {
      const uint64_t seed = static_cast<uint64_t>(first + i);
      std::mt19937_64 generator(seed);
      Result<Module> module = parse_hlo(random_graph(seed, 24));
      ASSERT_TRUE(module) << module.error().message << random_graph(seed, 24);
      for (int g = 0; g < 12; ++g) {
        CutGroup group;
        group.seed = seed;
        group.ops = random_group(*module, 2 + generator() % 9, generator);
        Result<Kernel> kernel =
            lower_kernel(*module, group.ops, outputs_of(*module, group.ops));
        if (!kernel) {
          EXPECT_EQ(kernel.error().kind, ErrorKind::kInfeasible)
              << kernel.error().message;
          ++refused;
          continue;
        }
        group.kernel = std::move(*kernel);
        accepted += group.ops.size() > 1 ? 1 : 0;
        kernels.push_back(group.kernel);
        groups.emplace_back(modules.size(), std::move(group));
      }
      values.push_back(run_one_by_one(*module, seed));
      modules.push_back(std::move(*module));
    }
    const Result<CompiledKernels> compiled = compile_kernels(
        kernels, {.cache_directory = build_directory() + "/kernel_cache"});
    ASSERT_TRUE(compiled) << compiled.error().message;
    for (size_t k = 0; k < groups.size(); ++k) {
      const auto& [module, group] = groups[k];
      check(modules[module], group, values[module], nullptr);
      check(modules[module], group, values[module], compiled->functions[k]);
      if (HasFatalFailure()) return;
      in_place += run_in_place(group.kernel, compiled->functions[k],
                               values[module], values[module], modules[module]);
    }
  }
  RecordProperty("accepted", accepted);
  RecordProperty("refused", refused);
  RecordProperty("in_place", in_place);
  // The graphs are made so that most groups are feasible; a lowering that
  // refuses everything would pass the checks above.
  EXPECT_GT(accepted, refused);
  EXPECT_GT(in_place, accepted / 8);
}

}  // namespace
}  // namespace reprise
