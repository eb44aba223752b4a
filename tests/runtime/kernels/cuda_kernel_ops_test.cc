// Printed for a GPU: every op and type, and nests that need each way of being
// cut into launches and mapped to threads.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/kernels/print_cuda.h"
#include "runtime/kernels/print_cuda_stages.h"
#include "tests/runtime/kernels/cuda_check.h"
#include "tests/runtime/kernels/cuda_twin.h"
#include "tests/runtime/kernels/kernel_cases.h"

namespace reprise {
namespace {

Module parse(const std::string& entry) {
  Result<Module> module =
      parse_hlo(std::string(kCaseRegions) + "ENTRY main {" + entry + "\n}\n");
  EXPECT_TRUE(module) << module.error().message;
  return std::move(*module);
}

class CudaKernelOps : public testing::TestWithParam<KernelCase> {};

TEST_P(CudaKernelOps, AgreeWithTheInterpreter) {
  const Module module = parse(GetParam().entry);
  std::vector<Kernel> kernels;
  for (const InstructionId op : kernel_ops(module)) {
    Result<Kernel> kernel = lower_kernel(module, {&op, 1}, {&op, 1});
    ASSERT_TRUE(kernel) << kernel.error().message;
    kernels.push_back(std::move(*kernel));
  }
  const Result<CudaTwins> twins = CudaTwins::make(kernels);
  ASSERT_TRUE(twins) << twins.error().message;
  const Memory want = run_one_by_one(module, 7);
  for (size_t k = 0; k < kernels.size(); ++k)
    expect_cuda_agrees(module, kernels[k], want, *twins, k);
}

INSTANTIATE_TEST_SUITE_P(All, CudaKernelOps, testing::ValuesIn(kKernelCases),
                         [](const auto& one) {
                           return std::string(one.param.name);
                         });

/// All ops of an entry as one kernel.
struct Fused {
  const char* name;
  const char* entry;
  std::vector<const char*> outputs;
  std::vector<StageMapping> stages;
  bool workspace = false;
  size_t launches = 0;  ///< If not one a stage.
};

using enum StageMapping;

const Fused kFused[] = {
    // 3000 columns: a block a row, tiles of which the last is not whole.
    {"softmax_of_long_rows",
     R"(
  x = f32[6,3000] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[6] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[6,3000] broadcast(m), dimensions={0}
  d = f32[6,3000] subtract(x, mb)
  e = f32[6,3000] exponential(d)
  s = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[6,3000] broadcast(s), dimensions={0}
  ROOT r = f32[6,3000] divide(e, sb))",
     {"r", "s"},
     {kBlocks}},
    {"softmax_of_short_rows",
     R"(
  x = f32[37,45] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[37] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[37,45] broadcast(m), dimensions={0}
  d = f32[37,45] subtract(x, mb)
  e = f32[37,45] exponential(d)
  s = f32[37] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[37,45] broadcast(s), dimensions={0}
  ROOT r = f32[37,45] divide(e, sb))",
     {"r", "m"},
     {kRows}},
    // Rows by lanes and, of what they yield, columns in order: the product
    // waits in the workspace.
    {"rows_and_columns",
     R"(
  x = f32[50,700] parameter(0)
  y = f32[50,700] parameter(1)
  zero = f32[] constant(0)
  s = f32[50] reduce(x, zero), dimensions={1}, to_apply=add
  sb = f32[50,700] broadcast(s), dimensions={0}
  p = f32[50,700] multiply(y, sb)
  ROOT c = f32[700] reduce(p, zero), dimensions={0}, to_apply=add)",
     {"p", "c"},
     {kBlocks, kTiled},
     true},
    // Three columns of 5000 rows.
    {"tall_columns",
     R"(
  x = f32[5000,3] parameter(0)
  half = f32[] constant(0.5)
  e = f32[5000,3] exponential(x)
  ROOT r = f32[3] reduce(e, half), dimensions={0}, to_apply=add)",
     {"e", "r"},
     {kTiled}},
    {"several_columns",
     R"(
  x = f32[40,9,70] parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  n = f32[40,9,70] negate(x)
  a = f32[70] reduce(x, zero), dimensions={0,1}, to_apply=add
  ROOT b = f32[70] reduce(n, low), dimensions={0,1}, to_apply=max)",
     {"a", "b"},
     {kTiled}},
    {"few_rows_of_columns",
     R"(
  x = f32[9,300] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[300] reduce(x, zero), dimensions={0}, to_apply=add)",
     {"r"},
     {kOrdered}},
    // Several elements a thread; the last block's are not whole.
    {"four_elements_each",
     R"(
  x = f32[1100001] parameter(0)
  y = f32[1100001] parameter(1)
  ROOT r = f32[1100001] multiply(x, y))",
     {"r"},
     {kMap}},
    {"two_elements_each",
     R"(
  x = bf16[901,601] parameter(0)
  v = bf16[601] parameter(1)
  b = bf16[901,601] broadcast(v), dimensions={1}
  ROOT r = bf16[901,601] add(x, b))",
     {"r"},
     {kMap}},
    // In place, every thread needs the old element 5: it is saved first.
    {"one_old_element",
     R"(
  x = f32[70000] parameter(0)
  s = f32[1] slice(x), slice={[5:6]}
  f = f32[] reshape(s)
  b = f32[70000] broadcast(f), dimensions={}
  ROOT r = f32[70000] add(x, b))",
     {"r"},
     {kMap, kMap},
     true},
    // A store by an outer loop, whose old element the inner one needs.
    {"outer_and_inner",
     R"(
  v = f32[64] parameter(0)
  x = f32[64,100] parameter(1)
  e = f32[64] exponential(v)
  b = f32[64,100] broadcast(v), dimensions={0}
  ROOT r = f32[64,100] add(x, b))",
     {"e", "r"},
     {kMap, kMap},
     false,
     1},  // Two where e is written over v (expect_cuda_agrees).
    // Elementwise ops over different shapes, which share a launch.
    {"siblings",
     R"(
  x = f32[30] parameter(0)
  y = f32[7,100] parameter(1)
  z = f32[33000] parameter(2)
  a = f32[30] tanh(x)
  b = f32[7,100] negate(y)
  ROOT c = f32[33000] add(z, z))",
     {"a", "b", "c"},
     {kMap, kMap, kMap},
     false,
     1},
    {"colliding_rows",
     R"(
  x = f32[50,300] parameter(0)
  i = s32[200,1] parameter(1)
  u = f32[200,300] parameter(2)
  ROOT r = f32[50,300] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add)",
     {"r"},
     {kMap, kOwned}},
    // Into a literal, past the end too, and with a window: two loops of S.
    {"colliding_windows",
     R"(
  zero = f32[] constant(0)
  x = f32[20,30] broadcast(zero), dimensions={}
  i = s32[2,70] parameter(0)
  u = f32[70,2,3] parameter(1)
  ROOT r = f32[20,30] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=add)",
     {"r"},
     {kOwned}},
    {"colliding_scalars",
     R"(
  x = bf16[17] parameter(0)
  i = s32[300,1] parameter(1)
  u = bf16[300] parameter(2)
  ROOT r = bf16[17] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=addb)",
     {"r"},
     {kMap, kOwned}},
    // Too many elements for each to look at every update.
    {"colliding_rows_of_many",
     R"(
  x = f32[3000,300] parameter(0)
  i = s32[400,1] parameter(1)
  u = f32[400,300] parameter(2)
  ROOT r = f32[3000,300] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add)",
     {"r"},
     {kMap, kOrdered}},
    {"a_long_sum",
     R"(
  x = f32[70001] parameter(0)
  z = f32[] constant(0.25)
  s = f32[] reduce(x, z), dimensions={0}, to_apply=add
  b = f32[70001] broadcast(s), dimensions={}
  ROOT r = f32[70001] divide(x, b))",
     {"r", "s"},
     {kBlocks}},
    {"narrow_long_rows",
     R"(
  u = u8[20,3000] parameter(0)
  q = pred[20,3000] parameter(1)
  x = bf16[20,3000] parameter(2)
  zu = u8[] constant(0)
  f = pred[] constant(false)
  zb = bf16[] constant(0)
  ru = u8[20] reduce(u, zu), dimensions={1}, to_apply=maxu
  rq = pred[20] reduce(q, f), dimensions={1}, to_apply=or
  ROOT rb = bf16[20] reduce(x, zb), dimensions={1}, to_apply=addb)",
     {"ru", "rq", "rb"},
     {kBlocks, kBlocks, kTiled}},
    {"narrow_columns",
     R"(
  x = bf16[300,20] parameter(0)
  zb = bf16[] constant(1)
  ROOT rb = bf16[20] reduce(x, zb), dimensions={0}, to_apply=addb)",
     {"rb"},
     {kTiled}},
    // Lanes over the inner of two reduced dimensions.
    {"two_reduced_dimensions",
     R"(
  x = f32[7,30,64] parameter(0)
  v = f32[64] parameter(1)
  w = f32[7,30,64] broadcast(v), dimensions={2}
  p = f32[7,30,64] multiply(x, w)
  z = f32[] constant(0)
  ROOT b = f32[7] reduce(p, z), dimensions={1,2}, to_apply=add)",
     {"b"},
     {kBlocks}},
    {"two_reduced_dimensions_apart",
     R"(
  y = f32[7,30,50] parameter(0)
  v = f32[50] parameter(1)
  w = f32[7,30,50] broadcast(v), dimensions={2}
  p = f32[7,30,50] multiply(y, w)
  z = f32[] constant(0)
  ROOT b = f32[7] reduce(p, z), dimensions={1,2}, to_apply=add)",
     {"b"},
     {kRows}},
};

class CudaFused : public testing::TestWithParam<Fused> {
 protected:
  Kernel lower(const Module& module) {
    std::vector<InstructionId> outputs;
    const Computation& entry = module.entry_computation();
    for (const char* name : GetParam().outputs) {
      for (uint32_t i = 0; i < entry.instructions.size(); ++i) {
        if (entry.instructions[i].name == name)
          outputs.push_back(InstructionId{i});
      }
    }
    Result<Kernel> kernel = lower_kernel(module, kernel_ops(module), outputs);
    EXPECT_TRUE(kernel) << kernel.error().message;
    return kernel ? std::move(*kernel) : Kernel();
  }
};

TEST_P(CudaFused, IsCutAndMappedAndAgrees) {
  const Module module = parse(GetParam().entry);
  const Kernel kernel = lower(module);
  ASSERT_FALSE(kernel.arguments.empty());
  const CudaPlan plan = plan_cuda_stages(kernel);
  std::vector<StageMapping> stages;
  for (const CudaStage& stage : plan.stages) stages.push_back(stage.mapping);
  EXPECT_EQ(stages, GetParam().stages) << kernel_text(kernel);
  EXPECT_EQ(plan.workspace_bytes > 0, GetParam().workspace);
  const Result<CudaTwins> twins = CudaTwins::make({&kernel, 1});
  ASSERT_TRUE(twins) << twins.error().message;
  EXPECT_EQ(twins->cubins().kernels[0].launches.size(),
            GetParam().launches > 0 ? GetParam().launches : stages.size());
  expect_cuda_agrees(module, kernel, run_one_by_one(module, 3), *twins, 0);
}

INSTANTIATE_TEST_SUITE_P(All, CudaFused, testing::ValuesIn(kFused),
                         [](const auto& one) {
                           return std::string(one.param.name);
                         });

TEST(LaunchedBlocks, PartsThatShareMemoryFollowEachOther) {
  // Three parts: 0 -> 3, 1 -> 4, 2 -> 5, each of 64 bytes.
  CubinKernel kernel;
  kernel.launches = {
      {.entry = "first",
       .grid_blocks = 7,
       .block_threads = 64,
       .parts = {{.first_block = 0, .stored = {3}, .used = {0, 3}},
                 {.first_block = 2, .stored = {4}, .used = {1, 4}},
                 {.first_block = 5, .stored = {5}, .used = {2, 5}}}},
      {.entry = "second", .grid_blocks = 1, .block_threads = 64}};
  std::vector<ArgumentPlace> places;
  for (uint64_t a = 0; a < 6; ++a) places.push_back({64 * a, 64});
  const auto launched = [&] {
    std::vector<std::array<size_t, 3>> found;
    for (const LaunchedBlocks& one : launched_blocks(kernel, places))
      found.push_back({one.launch, one.first_block, one.blocks});
    return found;
  };
  using Found = std::vector<std::array<size_t, 3>>;
  EXPECT_EQ(launched(), (Found{{0, 0, 7}, {1, 0, 1}}));
  places[3] = places[0];  // In place: a part of its own memory.
  EXPECT_EQ(launched(), (Found{{0, 0, 7}, {1, 0, 1}}));
  places[5].address = places[1].address + 60;  // What the second part reads.
  EXPECT_EQ(launched(), (Found{{0, 0, 5}, {0, 5, 2}, {1, 0, 1}}));
  places[4] = places[0];  // And the first: each for itself.
  EXPECT_EQ(launched(), (Found{{0, 0, 2}, {0, 2, 3}, {0, 5, 2}, {1, 0, 1}}));
}

TEST(CudaKernels, AllOfTheseCompileWhereNvrtcIs) {
  if (!Nvrtc::open({})) GTEST_SKIP() << "no NVRTC";
  std::vector<Kernel> kernels;
  for (const KernelCase& one : kKernelCases) {
    const Module module = parse(one.entry);
    for (const InstructionId op : kernel_ops(module)) {
      Result<Kernel> kernel = lower_kernel(module, {&op, 1}, {&op, 1});
      ASSERT_TRUE(kernel) << kernel.error().message;
      kernels.push_back(std::move(*kernel));
    }
  }
  for (const Fused& one : kFused) {
    const Module module = parse(one.entry);
    const std::vector<InstructionId> ops = kernel_ops(module);
    Result<Kernel> kernel = lower_kernel(module, ops, {&ops.back(), 1});
    ASSERT_TRUE(kernel) << kernel.error().message;
    kernels.push_back(std::move(*kernel));
  }
  // An empty cache: what a cache holds has no log.
  std::string directory =
      std::filesystem::temp_directory_path() / "reprise_cubins_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const Result<Cubins> cubins =
      compile_cubins(kernels, 90, {.cache_directory = directory});
  std::filesystem::remove_all(directory);
  ASSERT_TRUE(cubins) << cubins.error().message;
  ASSERT_GT(cubins->resources.size(), 100u);
  for (const CubinResources& entry : cubins->resources) {
    if (entry.spill_store_bytes + entry.spill_load_bytes == 0) continue;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (cubins->kernels[k].launches[0].entry == entry.entry)
        ADD_FAILURE() << entry.entry << " spills, " << entry.registers
                      << " registers\n"
                      << kernel_text(kernels[k]);
    }
  }
}

TEST(CudaKernels, ARefusedKernelIsNamed) {
  const Module module = parse(
      "ROOT x = f32[3] parameter(0)\n"
      "  y = f32[3] tanh(x)");
  const std::vector<InstructionId> ops = kernel_ops(module);
  const Result<Kernel> kernel = lower_kernel(module, ops, ops);
  ASSERT_TRUE(kernel);
  ::setenv("REPRISE_TWIN_REFUSES", "rk_tanh(v", 1);
  const Result<CudaTwins> twins = CudaTwins::make({&*kernel, 1});
  ::unsetenv("REPRISE_TWIN_REFUSES");
  ASSERT_FALSE(twins);
  EXPECT_EQ(twins.error().kind, ErrorKind::kDevice);
  EXPECT_NE(twins.error().message.find("instruction 1 (f32[3])"),
            std::string::npos)
      << twins.error().message;
}

/// Runs a kernel in which each thread reads what another put in shared memory.
std::vector<int> exchange(const std::string& barrier) {
  const Result<Nvrtc> nvrtc =
      Nvrtc::open({.search = {.only = REPRISE_FAKE_NVRTC}});
  EXPECT_TRUE(nvrtc) << nvrtc.error().message;
  const bool checks = std::getenv("REPRISE_TWIN_CHECKS") != nullptr;
  ::setenv("REPRISE_TWIN_CHECKS", "1", 1);
  const Result<NvrtcImage> image = nvrtc->compile(
      cuda_prelude() +
          "RK_KERNEL(k, 32, void* p0) { int* a = (int*)p0;\n"
          "RK_SHARED(int, g, 32);\n"
          "RK_THREADS(32) { g[t] = t; }\n" +
          barrier + "RK_THREADS(32) { a[t] = g[31 - t]; } }\nRK_ENTRY(k)\n",
      {});
  if (!checks) ::unsetenv("REPRISE_TWIN_CHECKS");
  EXPECT_TRUE(image) << image.error().message;
  const auto library = load_twin(image->cubin);
  EXPECT_TRUE(library) << library.error().message;
  auto* entry = reinterpret_cast<void (*)(void* const*, unsigned)>(
      ::dlsym(library->get(), "k"));
  std::vector<int> values(32, -1);
  void* parameters[] = {values.data()};
  entry(parameters, 1);
  return values;
}

TEST(CudaTwinDeathTest, TheCheckOfRacesSeesAMissingBarrier) {
  EXPECT_EQ(exchange("RK_SYNC();\n")[5], 26);
  EXPECT_DEATH(exchange(""), "race in shared memory: read of what another");
  EXPECT_DEATH(exchange("RK_THREADS(32) RK_SYNC();\n"), "a barrier that not");
}

TEST(CudaKernels, AMissingNvrtcAndAnUnknownDeviceAreSaid) {
  const Result<Cubins> missing = compile_cubins(
      {}, 90, {.nvrtc_search = {.only = "/nonexistent/libnvrtc.so"}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kDevice);
  EXPECT_NE(missing.error().message.find("NVRTC"), std::string::npos);
  const Result<Cubins> unknown =
      compile_cubins({}, 999, {.nvrtc_search = {.only = REPRISE_FAKE_NVRTC}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("99.9"), std::string::npos);
}

}  // namespace
}  // namespace reprise
