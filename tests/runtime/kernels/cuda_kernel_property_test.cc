// Kernels printed for a GPU compute bit for bit what the interpreter computes:
// random groups of random programs, cut into launches and mapped every way.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/kernels/print_cuda_stages.h"
#include "tests/runtime/kernels/cuda_check.h"
#include "tests/runtime/kernels/cuda_twin.h"
#include "tests/runtime/kernels/random_graph.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

struct Case {
  size_t module = 0;
  uint64_t seed = 0;
  Kernel kernel;
};

TEST(CudaKernelProperty, TwinsComputeWhatTheInterpreterComputes) {
  const int graphs = number_from_environment("REPRISE_PROPERTY_GRAPHS", 40);
  const int first = number_from_environment("REPRISE_PROPERTY_SEED", 1);
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
    in_place += expect_cuda_agrees(modules[one.module], one.kernel,
                                   values[one.module], *twins, k);
    if (HasFailure()) {
      FAIL() << "seed " << one.seed << "\n" << kernel_text(one.kernel);
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
  EXPECT_GT(mappings[StageMapping::kOrdered] + mappings[StageMapping::kOwned] +
                mappings[StageMapping::kTiled],
            graphs / 8);
  EXPECT_EQ(mappings[StageMapping::kSerial], 0);
  EXPECT_GT(in_place, graphs / 8);
}

}  // namespace
}  // namespace reprise
