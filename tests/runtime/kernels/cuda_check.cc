#include "tests/runtime/kernels/cuda_check.h"

#include <gtest/gtest.h>

#include <cstring>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "runtime/kernels/interpreter.h"
#include "runtime/kernels/print_cuda_stages.h"

namespace reprise {
namespace {

/// Memory of a kernel's arguments: inputs as given, outputs poisoned, and where
/// asked an output in the memory of an input that allows it.
struct Arguments {
  std::vector<std::vector<char>> bytes;
  std::vector<void*> pointers;
  bool in_place = false;
};

Arguments arguments_of(const Kernel& kernel, const Memory& values,
                       bool in_place) {
  Arguments made;
  for (const KernelArgument& argument : kernel.arguments) {
    made.bytes.push_back(values.at(index_of(argument.instruction)));
    if (argument.is_output)
      made.bytes.back().assign(made.bytes.back().size(), 0x7f);
  }
  for (std::vector<char>& bytes : made.bytes)
    made.pointers.push_back(bytes.data());
  if (!in_place) return made;
  std::vector<bool> taken(kernel.arguments.size(), false);
  for (size_t output = 0; output < taken.size(); ++output) {
    if (!kernel.arguments[output].is_output) continue;
    for (size_t input = 0; input < taken.size(); ++input) {
      if (taken[input] || !in_place_safe(kernel, input, output)) continue;
      made.pointers[output] = made.pointers[input];
      taken[input] = made.in_place = true;
      break;
    }
  }
  return made;
}

void expect_same(const Module& module, const Kernel& kernel, const Memory& want,
                 const Arguments& got, const char* how) {
  for (size_t a = 0; a < got.pointers.size(); ++a) {
    const KernelArgument& argument = kernel.arguments[a];
    if (!argument.is_output) continue;
    const std::vector<char>& expected = want.at(index_of(argument.instruction));
    const char* bytes = static_cast<const char*>(got.pointers[a]);
    ASSERT_EQ(first_difference(
                  module.entry_computation().at(argument.instruction).shape,
                  {bytes, bytes + expected.size()}, expected),
              -1)
        << how << (got.in_place ? " in place" : "") << ", argument " << a
        << "\n"
        << kernel_text(kernel);
  }
}

/// Runs each stage by the interpreter: the cut alone.
void run_stages(const Kernel& kernel, const Arguments& arguments) {
  const CudaPlan plan = plan_cuda_stages(kernel);
  std::vector<int64_t> workspace(
      static_cast<size_t>(plan.workspace_bytes) / 8 + 32, 0x7f7f7f7f7f7f7f7f);
  for (const CudaStage& stage : plan.stages) {
    std::vector<void*> pointers = arguments.pointers;
    for (const int64_t offset : plan.workspace_offsets) {
      pointers.push_back(reinterpret_cast<char*>(workspace.data()) + offset);
    }
    // Folded initial values are in no stage's statements.
    for (const StageAccumulator& accumulator : stage.accumulators) {
      if (!accumulator.initial) continue;
      const KernelArgument& argument =
          kernel.arguments[static_cast<size_t>(accumulator.target)];
      const int64_t size = primitive_type_bits(argument.type) / 8;
      char* memory =
          static_cast<char*>(pointers[static_cast<size_t>(accumulator.target)]);
      for (int64_t i = 0; i < argument.elements; ++i) {
        std::memcpy(memory + i * size, &*accumulator.initial,
                    static_cast<size_t>(size));
      }
    }
    interpret_kernel(stage.kernel, pointers.data(), 0,
                     kernel_iterations(stage.kernel));
  }
}

}  // namespace

bool expect_cuda_agrees(const Module& module, const Kernel& kernel,
                        const Memory& want, const CudaTwins& twins,
                        size_t place) {
  for (const bool in_place : {false, true}) {
    const Arguments cut = arguments_of(kernel, want, in_place);
    if (in_place && !cut.in_place) return false;
    run_stages(kernel, cut);
    expect_same(module, kernel, want, cut, "cut");
    const Arguments twin = arguments_of(kernel, want, in_place);
    twins.run(place, twin.pointers);
    expect_same(module, kernel, want, twin, "twin");
  }
  return true;
}

}  // namespace reprise
