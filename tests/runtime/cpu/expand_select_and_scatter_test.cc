// Gradients of pooling as programs of slices, pads and selects, against the
// routine of the CPU, bit by bit.
#include "data/hlo/expand_select_and_scatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "data/schedule/called_program.h"
#include "tests/runtime/cpu/text_program.h"
#include "tests/testing/element_bits.h"
#include "tests/testing/kernel_runner.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

using Extents = std::vector<int64_t>;
using Bytes = std::vector<char>;

struct Pooling {
  std::string type = "f32";
  Extents operand = {}, source = {};
  std::string window = {};
  std::string select = "ROOT r = pred[] compare(a, b), direction=GE";
  std::string scatter = "ROOT r = {0}[] add(a, b)";

  std::string text() const {
    const std::string parameters =
        fmt::format("a = {0}[] parameter(0)\n b = {0}[] parameter(1)\n", type);
    const std::string of_operand =
        fmt::format("{}[{}]", type, fmt::join(operand, ","));
    return fmt::format(
        "HloModule m\nselect {{\n {0} {1}\n}}\nscatter {{\n {0} {2}\n}}\n"
        "ENTRY e {{\n x = {3} parameter(0)\n y = {4}[{5}] parameter(1)\n"
        " z = {4}[] parameter(2)\n"
        " ROOT s = {3} select-and-scatter(x, y, z), window={{{6}}}, "
        "select=select, scatter=scatter\n}}\n",
        parameters, select, fmt::format(fmt::runtime(scatter), type),
        of_operand, type, fmt::join(source, ","), window);
  }
};

InlinedModule parsed(const Pooling& pooling) {
  Result<InlinedModule> module = parse_inlined(pooling.text());
  EXPECT_TRUE(module) << module.error().message << pooling.text();
  return module ? *std::move(module) : InlinedModule();
}

std::optional<InlinedModule> expanded(const Pooling& pooling) {
  const InlinedModule module = parsed(pooling);
  const Computation& entry = module.entry_computation();
  return expand_select_and_scatter(module, entry.at(entry.root));
}

/// As a device runs it.
std::shared_ptr<const CalledProgram> lowered(InlinedModule module) {
  auto program = lower_device_program(std::move(module), "s", 1);
  EXPECT_TRUE(program) << program.error().message;
  return std::move(program).value();
}

Bytes run_routine(const Pooling& pooling, const std::vector<Bytes>& inputs) {
  TextProgram program(pooling.text());
  for (size_t n = 0; n < inputs.size(); ++n) {
    const auto to = program.executor().parameter(static_cast<int64_t>(n));
    EXPECT_EQ(to.size(), inputs[n].size());
    std::memcpy(to.data(), inputs[n].data(), to.size());
  }
  EXPECT_TRUE(program.executor().run_step(0));
  const auto made = program.executor().output(0);
  Bytes bytes(made.size());
  std::memcpy(bytes.data(), made.data(), made.size());
  return bytes;
}

/// Its fused kernels, one after the other.
Bytes run_expanded(const CalledProgram& program,
                   const std::vector<Bytes>& inputs) {
  const Computation& entry = program.module.entry_computation();
  Memory memory;
  for (uint32_t i = 0; i < entry.instructions.size(); ++i) {
    const Instruction& instruction = entry.instructions[i];
    if (instruction.opcode == Opcode::kParameter)
      memory[i] = inputs[static_cast<size_t>(instruction.parameter_number)];
  }
  for (const Unit& unit : program.schedule.units) {
    EXPECT_EQ(unit.kind, UnitKind::kKernel);
    run_kernel(program.schedule.kernels[static_cast<size_t>(unit.kernel)],
               nullptr, memory);
  }
  return memory[index_of(entry.at(entry.root).operands[0])];
}

class RandomPoolings {
 public:
  explicit RandomPoolings(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int64_t>(all.size()))];
  }

  /// Windows that overlap or leave gaps, reach over the border or lie beyond
  /// it, or leave out elements at either end.
  Pooling pooling() {
    Pooling made;
    made.type = one_of({"f32", "f32", "bf16", "f16", "f64", "s32", "u8"});
    made.select = fmt::format("ROOT r = pred[] compare({}), direction={}",
                              one_of({"a, b", "a, b", "a, b", "b, a"}),
                              one_of({"GE", "GT", "LE", "LT"}));
    made.scatter = fmt::format(
        "ROOT r = {{0}}[] {}",
        one_of({"add(a, b)", "add(a, b)", "maximum(b, a)", "subtract(a, b)"}));
    std::vector<std::string> sizes, strides, paddings;
    int64_t taps = 1;
    const int64_t rank = 1 + below(5);
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t size = taps > 12 ? 1 : 1 + below(rank < 3 ? 5 : 3);
      const int64_t stride = 1 + below(4), low = below(5) - 1;
      taps *= size;
      made.operand.push_back(1 + below(rank < 3 ? 12 : 5));
      made.source.push_back(1 + below(5));
      sizes.push_back(std::to_string(size));
      strides.push_back(std::to_string(stride));
      // What comes after is the source's, whatever the padding says.
      paddings.push_back(fmt::format("{}_{}", low, below(3)));
    }
    made.window =
        fmt::format("size={} stride={} pad={}", fmt::join(sizes, "x"),
                    fmt::join(strides, "x"), fmt::join(paddings, "x"));
    return made;
  }

  /// Small whole numbers, which tie, or others; NaN and both zeros among them.
  Bytes values(const Shape& shape, bool whole) {
    const size_t bytes =
        static_cast<size_t>(primitive_type_bits(shape.type)) / 8;
    const bool is_float = float_layout(shape.type).mantissa > 0;
    Bytes made(bytes * static_cast<size_t>(element_count(shape)));
    for (size_t at = 0; at < made.size(); at += bytes) {
      double value = static_cast<double>(below(5));
      if (is_float) {
        value = whole ? value - 2 : std::normal_distribution<double>()(random_);
        if (below(12) == 0) value = one_of({std::nan(""), -0.0, HUGE_VAL});
      }
      const uint64_t bits = bits_of_element(shape.type, value);
      std::memcpy(&made[at], &bits, bytes);
    }
    return made;
  }

 private:
  std::mt19937_64 random_;
};

/// False where there is no expansion.
bool expect_equal(const Pooling& pooling, RandomPoolings& random, bool whole) {
  SCOPED_TRACE(pooling.text());
  std::optional<InlinedModule> expansion = expanded(pooling);
  if (!expansion) return false;
  const auto program = lowered(*std::move(expansion));
  EXPECT_LE(program->schedule.units.size(), 2U);
  const InlinedModule module = parsed(pooling);
  const Computation& entry = module.entry_computation();
  std::vector<Bytes> inputs;
  for (const Instruction* parameter : parameters_of(entry))
    inputs.push_back(random.values(parameter->shape, whole));
  EXPECT_EQ(
      first_difference(entry.at(entry.root).shape, run_routine(pooling, inputs),
                       run_expanded(*program, inputs)),
      -1);
  return true;
}

TEST(ExpandSelectAndScatter, HasTheBitsOfTheRoutine) {
  RandomPoolings random(1);
  size_t made = 0;
  // Others have windows that lie beyond the operand alone.
  for (int i = 0; i < 2000; ++i)
    made += expect_equal(random.pooling(), random, i % 3 != 0) ? 1 : 0;
  EXPECT_GT(made, 1000U);
}

std::vector<std::string> kernel_outputs(const Pooling& pooling) {
  std::optional<InlinedModule> module = expanded(pooling);
  if (!module) return {};
  const auto program = lowered(*std::move(module));
  std::vector<std::string> outputs;
  for (const Unit& unit : program->schedule.units) {
    const auto kernel = static_cast<size_t>(unit.kernel);
    for (const KernelArgument& argument :
         program->schedule.kernels[kernel].arguments) {
      if (!argument.is_output) continue;
      outputs.push_back(fmt::format(
          "{}[{}]", primitive_type_name(argument.type), argument.elements));
    }
  }
  return outputs;
}

// What each window selects, then the result: 8·8·8·32 windows, 8·16·16·32
// elements.
TEST(ExpandSelectAndScatter, MakesTwoKernels) {
  const std::vector<std::string> two = {"s8[16384]", "f32[65536]"};
  Pooling pooling{.operand = {8, 16, 16, 32}, .source = {8, 8, 8, 32}};
  pooling.window = "size=1x2x2x1 stride=1x2x2x1";
  EXPECT_EQ(kernel_outputs(pooling), two);
  pooling.window = "size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0";
  EXPECT_EQ(kernel_outputs(pooling), two);
  pooling.window = "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0";
  EXPECT_EQ(kernel_outputs(pooling), two);
}

TEST(ExpandSelectAndScatter, RepeatsAFewElementwiseOps) {
  Pooling widened{.type = "bf16", .operand = {6}, .source = {3}};
  widened.window = "size=2 stride=2";
  widened.select =
      "p = f32[] convert(a)\n q = f32[] convert(b)\n"
      " ROOT r = pred[] compare(p, q), direction=GE";
  widened.scatter =
      "p = f32[] convert(a)\n q = f32[] convert(b)\n"
      " s = f32[] add(p, q)\n ROOT r = bf16[] convert(s)";
  Pooling squares{.operand = {9}, .source = {5}};
  squares.window = "size=3 stride=2 pad=1_1";
  squares.select =
      "ROOT r = pred[] compare(a, b), direction=GE, type=TOTALORDER";
  squares.scatter = "p = f32[] multiply(b, b)\n ROOT r = f32[] add(p, a)";
  RandomPoolings random(2);
  for (const Pooling& pooling : {widened, squares})
    EXPECT_TRUE(expect_equal(pooling, random, false));
}

TEST(ExpandSelectAndScatter, LeavesTheRestToTheHost) {
  const Pooling pooling{
      .operand = {80}, .source = {8}, .window = "size=64 stride=2"};
  EXPECT_TRUE(expanded(pooling));
  const auto with = [&](auto Pooling::*member, auto value) {
    Pooling changed = pooling;
    changed.*member = value;
    return expanded(changed);
  };
  for (const char* window :
       {"size=65 stride=2", "size=2 stride=2 rhs_dilate=2",
        "size=2 stride=2 lhs_dilate=2", "size=2 stride=2 rhs_reversal=1",
        "size=0 stride=2", "size=2 stride=1 pad=-80_0", "size=2x2 stride=1x1"})
    EXPECT_FALSE(with(&Pooling::window, window)) << window;
  EXPECT_FALSE(with(&Pooling::source, Extents{0}));
  EXPECT_FALSE(with(&Pooling::select,
                    "c = f32[] constant(1)\n d = f32[] add(a, c)\n"
                    " ROOT r = pred[] compare(d, b), direction=GE"));
  EXPECT_FALSE(with(&Pooling::scatter,
                    "c = f32[] negate(a)\n d = f32[] negate(c)\n"
                    " e = f32[] negate(d)\n f = f32[] negate(e)\n"
                    " g = f32[] negate(f)\n h = f32[] negate(g)\n"
                    " ROOT r = f32[] add(h, b)"));
}

}  // namespace
}  // namespace reprise
