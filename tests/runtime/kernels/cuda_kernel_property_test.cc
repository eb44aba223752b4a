// Kernels printed for a GPU compute bit for bit what the interpreter computes:
// random groups of random programs, cut into launches and mapped every way.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/kernels/interpreter.h"
#include "runtime/kernels/print_cuda_stages.h"
#include "tests/runtime/kernels/cuda_twin.h"
#include "tests/runtime/kernels/random_graph.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

int environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Runs every op alone by the interpreter.
Memory run_one_by_one(const Module& module, uint64_t seed) {
  Memory memory = random_inputs(module, seed);
  for (const InstructionId op : kernel_ops(module)) {
    const Result<Kernel> kernel = lower_kernel(module, {&op, 1}, {&op, 1});
    EXPECT_TRUE(kernel) << kernel.error().message;
    if (kernel) run_kernel(*kernel, nullptr, memory);
  }
  return memory;
}

struct Case {
  size_t module = 0;
  uint64_t seed = 0;
  Kernel kernel;
};

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

void expect_same(const Module& module, const Case& one, const Memory& want,
                 const Arguments& got, const char* how) {
  for (size_t a = 0; a < got.pointers.size(); ++a) {
    const KernelArgument& argument = one.kernel.arguments[a];
    if (!argument.is_output) continue;
    const std::vector<char>& expected = want.at(index_of(argument.instruction));
    const char* bytes = static_cast<const char*>(got.pointers[a]);
    ASSERT_EQ(first_difference(
                  module.entry_computation().at(argument.instruction).shape,
                  {bytes, bytes + expected.size()}, expected),
              -1)
        << how << ", seed " << one.seed << ", argument " << a << "\n"
        << kernel_text(one.kernel);
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
                     outer_extent(stage.kernel));
  }
}

TEST(CudaKernelProperty, TwinsComputeWhatTheInterpreterComputes) {
  const int graphs = environment("REPRISE_PROPERTY_GRAPHS", 40);
  const int first = environment("REPRISE_PROPERTY_SEED", 1);
  std::map<StageMapping, int> mappings;
  int in_place = 0, workspaces = 0;
  std::vector<Module> modules;
  std::vector<Memory> values;
  std::vector<Case> cases;
  for (int i = 0; i < graphs; ++i) {
    const uint64_t seed = static_cast<uint64_t>(first + i);
    std::mt19937_64 generator(seed);
    Result<Module> module = parse_hlo(random_graph(seed, 24));
    ASSERT_TRUE(module) << module.error().message;
    for (int g = 0; g < 12; ++g) {
      const std::vector<InstructionId> ops =
          random_group(*module, 2 + generator() % 9, generator);
      Result<Kernel> kernel =
          lower_kernel(*module, ops, outputs_of(*module, ops));
      if (kernel) cases.push_back({modules.size(), seed, std::move(*kernel)});
    }
    values.push_back(run_one_by_one(*module, seed));
    modules.push_back(std::move(*module));
  }
  std::vector<Kernel> kernels;
  for (const Case& one : cases) kernels.push_back(one.kernel);
  const Result<CudaTwins> twins = CudaTwins::make(kernels);
  ASSERT_TRUE(twins) << twins.error().message;
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& one = cases[k];
    const CudaPlan plan = plan_cuda_stages(one.kernel);
    for (const CudaStage& stage : plan.stages) ++mappings[stage.mapping];
    workspaces += plan.workspace_bytes > 0 ? 1 : 0;
    for (const bool shared : {false, true}) {
      Arguments cut = arguments_of(one.kernel, values[one.module], shared);
      if (shared && !cut.in_place) break;
      in_place += shared ? 1 : 0;
      run_stages(one.kernel, cut);
      expect_same(modules[one.module], one, values[one.module], cut, "cut");
      Arguments whole = arguments_of(one.kernel, values[one.module], shared);
      twins->run(k, whole.pointers);
      expect_same(modules[one.module], one, values[one.module], whole, "twin");
      if (HasFatalFailure()) return;
    }
  }
  for (const auto& [mapping, count] : mappings)
    RecordProperty("mapping" + std::to_string(static_cast<int>(mapping)),
                   count);
  RecordProperty("kernels", static_cast<int>(cases.size()));
  RecordProperty("in_place", in_place);
  RecordProperty("workspaces", workspaces);
  // A cut that made everything serial would pass the checks above.
  EXPECT_GT(mappings[StageMapping::kMap], graphs);
  EXPECT_GT(mappings[StageMapping::kRows], graphs / 8);
  EXPECT_GT(mappings[StageMapping::kOrdered] + mappings[StageMapping::kTiled],
            graphs / 8);
  EXPECT_EQ(mappings[StageMapping::kSerial], 0);
  EXPECT_GT(in_place, graphs / 8);
}

}  // namespace
}  // namespace reprise
