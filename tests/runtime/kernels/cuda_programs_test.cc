// Every kernel of every shipped program, printed for a GPU, computes bit for
// bit what the interpreter computes, whichever order threads run in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "data/kernel/kernel_parts.h"
#include "runtime/kernels/interpreter.h"
#include "runtime/kernels/print_cuda_stages.h"
#include "tests/runtime/kernels/cuda_program_kernels.h"
#include "tests/runtime/kernels/cuda_twin.h"

namespace reprise {
namespace {

using Bytes = std::vector<char>;

std::vector<void*> pointers_to(std::vector<Bytes>& memory) {
  std::vector<void*> pointers;
  for (Bytes& bytes : memory) pointers.push_back(bytes.data());
  return pointers;
}

void expect_same(const std::vector<Kernel>& kernels, const CudaTwins& twins) {
  std::mt19937_64 generator(5);
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::vector<Bytes> want;
    for (const KernelArgument& argument : kernels[k].arguments)
      want.push_back(random_argument(argument, generator));
    std::vector<Bytes> got = want;
    interpret_kernel(kernels[k], pointers_to(want).data(), 0,
                     kernel_iterations(kernels[k]));
    twins.run(k, pointers_to(got));
    for (size_t a = 0; a < want.size(); ++a) {
      // A NaN's bits are the host's in both.
      ASSERT_EQ(want[a], got[a]) << "argument " << a << "\n"
                                 << kernel_text(kernels[k]);
    }
  }
}

TEST(CudaPrograms, TwinsOfEveryKernelComputeWhatTheInterpreterComputes) {
  const std::vector<Kernel> kernels = program_kernels();
  ASSERT_GT(kernels.size(), 200u);
  std::map<StageMapping, int> mappings;
  size_t launches = 0;
  for (const Kernel& kernel : kernels) {
    const CudaPlan plan = plan_cuda_stages(kernel);
    launches += plan.stages.size();
    for (const CudaStage& stage : plan.stages) ++mappings[stage.mapping];
  }
  for (const auto& [mapping, count] : mappings)
    RecordProperty("mapping" + std::to_string(static_cast<int>(mapping)),
                   count);
  RecordProperty("kernels", static_cast<int>(kernels.size()));
  RecordProperty("launches", static_cast<int>(launches));
  // The programs' reductions need every mapping but the last resort.
  EXPECT_GT(mappings[StageMapping::kMap], 100);
  EXPECT_GT(mappings[StageMapping::kRows], 0);
  EXPECT_GT(mappings[StageMapping::kBlocks], 0);
  EXPECT_GT(mappings[StageMapping::kOwned], 0);
  EXPECT_GT(mappings[StageMapping::kTiled], 0);
  EXPECT_EQ(mappings[StageMapping::kSerial], 0);
  const Result<CudaTwins> twins = CudaTwins::make(kernels);
  ASSERT_TRUE(twins) << twins.error().message;
  expect_same(kernels, *twins);
}

}  // namespace
}  // namespace reprise
