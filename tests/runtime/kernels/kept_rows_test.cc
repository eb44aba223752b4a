// Updates of slices that run in place go over the slice alone, and give the
// interpreter's bytes wherever the slice lies.
#include "runtime/kernels/kept_rows.h"

#include <cstring>
#include <map>

#include "data/kernel/kernel_parts.h"
#include "tests/runtime/kernels/compiled_kernel.h"

namespace reprise {
namespace {

struct Stack {
  const char* name;
  const char* entry;  ///< Updates `s` by `u` at `i` to `r`.
  size_t ranged;      ///< Loops of which an update says where they change.
};

/// Counts loops that are bounded before they begin.
void count_ranges(const Kernel& kernel,
                  const std::vector<KernelStatement>& statements,
                  size_t& ranged) {
  for (const KernelStatement& statement : statements) {
    if (statement.kind != KernelStatement::Kind::kLoop) continue;
    const auto kept = kept_elements(kernel, statement.body);
    ranged += kept && !changed_ranges(kernel, statement, *kept).empty();
    count_ranges(kernel, statement.body, ranged);
  }
}

class KeptRowsOf : public testing::TestWithParam<Stack> {
 protected:
  KeptRowsOf() : made_(compiled(GetParam().entry, {"r"})) {}

  uint32_t id(const std::string& name) const {
    const auto& all = made_.module.entry_computation().instructions;
    const auto found = std::ranges::find(all, name, &Instruction::name);
    return static_cast<uint32_t>(found - all.begin());
  }

  /// What is in `r` after a run in two parts cut there.
  std::vector<char> result_of(Memory memory, bool in_place, int64_t cut) const {
    std::vector<char>& result = memory[id("r")];
    result = memory[id("s")];
    if (!in_place) result.assign(result.size(), 0x7f);
    std::vector<void*> arguments;
    for (const KernelArgument& argument : made_.kernel.arguments) {
      const uint32_t of = index_of(argument.instruction);
      arguments.push_back(
          memory[in_place && of == id("s") ? id("r") : of].data());
    }
    const int64_t all = kernel_iterations(made_.kernel);
    made_.library.functions.front()(arguments.data(), cut, all);
    made_.library.functions.front()(arguments.data(), 0, cut);
    return result;
  }

  Compiled made_;
};

TEST_P(KeptRowsOf, AreKnownBeforeTheLoop) {
  size_t ranged = 0;
  count_ranges(made_.kernel, made_.kernel.body, ranged);
  EXPECT_EQ(ranged, GetParam().ranged) << kernel_text(made_.kernel);
}

TEST_P(KeptRowsOf, StayAsTheyAreWhereverTheSliceLies) {
  const int64_t all = kernel_iterations(made_.kernel);
  for (int32_t start = -2; start < 12; ++start) {
    Memory memory = random_inputs(made_.module, 7);
    std::memcpy(memory[id("i")].data(), &start, sizeof start);
    Memory want = memory;
    run_kernel(made_.kernel, nullptr, want);
    for (const bool in_place : {false, true}) {
      for (const int64_t cut : {int64_t{0}, all / 3, all - 1, all}) {
        EXPECT_EQ(result_of(memory, in_place, cut), want[id("r")])
            << "from " << start << (in_place ? " in place" : "") << ", cut at "
            << cut;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Entries, KeptRowsOf,
                         testing::Values(Stack{"rows",
                                               R"(
  s = f32[9,33] parameter(0)  u = f32[1,33] parameter(1)
  i = s32[] parameter(2)  z = s32[] constant(0)
  ROOT r = f32[9,33] dynamic-update-slice(s, u, i, z))",
                                               1},
                                         Stack{"scalars",
                                               R"(
  s = f32[10] parameter(0)  u = f32[1] parameter(1)  i = s32[] parameter(2)
  ROOT r = f32[10] dynamic-update-slice(s, u, i))",
                                               1},
                                         Stack{"several_rows_of_bf16",
                                               R"(
  s = bf16[9,20] parameter(0)  u = bf16[3,20] parameter(1)
  i = s32[] parameter(2)  z = s32[] constant(0)
  ROOT r = bf16[9,20] dynamic-update-slice(s, u, i, z))",
                                               1},
                                         Stack{"inner_rows",
                                               R"(
  s = f32[4,9,5] parameter(0)  u = f32[4,1,5] parameter(1)
  i = s32[] parameter(2)  z = s32[] constant(0)
  ROOT r = f32[4,9,5] dynamic-update-slice(s, u, z, i, z))",
                                               1},
                                         Stack{"columns",
                                               R"(
  s = f32[6,40] parameter(0)  u = f32[6,7] parameter(1)
  i = s32[] parameter(2)  z = s32[] constant(0)
  ROOT r = f32[6,40] dynamic-update-slice(s, u, z, i))",
                                               1},
                                         Stack{"a_corner",
                                               R"(
  s = f32[9,40] parameter(0)  u = f32[2,7] parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[9,40] dynamic-update-slice(s, u, i, i))",
                                               2},
                                         Stack{"places_of_an_array",
                                               R"(
  s = f32[9,40] parameter(0)  u = f32[1,40] parameter(1)
  i = s32[] parameter(2)  two = s32[] constant(2)  z = s32[] constant(0)
  j = s32[] multiply(i, two)
  ROOT r = f32[9,40] dynamic-update-slice(s, u, j, z))",
                                               1}),
                         [](const auto& stack) {
                           return std::string(stack.param.name);
                         });

}  // namespace
}  // namespace reprise
