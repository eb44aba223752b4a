// Slices of what was put together: their forms by hand, random chains of them
// against the interpreter.
#include "data/hlo/slice_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "data/hlo/hlo.h"
#include "tests/data/hlo/hlo_text.h"
#include "tests/testing/hlo_evaluator.h"

namespace reprise {
namespace {

/// What `ROOT r = negate(LAST)` reads once parts are sliced, as far down as its
/// operands are views: `slice[1:2](concatenate(x y))`.
std::string shown(const Computation& computation, InstructionId id) {
  const Instruction& op = computation.at(id);
  if (op.opcode == Opcode::kParameter) return op.name;
  std::string text(opcode_name(op.opcode));
  if (op.opcode == Opcode::kConstant) text += fmt::format(" {}", op.literal);
  if (const Attribute* found = op.find_attribute("slice"))
    text += std::get<RawText>(found->value).text;
  for (const InstructionId operand : op.operands)
    text += fmt::format(" ({})", shown(computation, operand));
  return text;
}

std::string read_after(const std::string& body) {
  Module module = module_of(
      "HloModule m\nENTRY e {\n  x = f32[4,6] parameter(0)\n"
      "  y = f32[2,6] parameter(1)\n  zero = f32[] constant(0)\n"
      "  table = f32[3] constant({1.5, -inf, 2})\n" +
      body + "}");
  Computation& entry = module.entry_computation();
  slice_parts(&entry);
  return shown(entry, entry.root);
}

TEST(SliceParts, ReadsTheOperandThatAConcatenationHasThere) {
  const std::string whole =
      "  c = f32[6,6] concatenate(x, y), dimensions={0}\n";
  EXPECT_EQ(read_after(whole + "ROOT r = f32[2,6] slice(c), "
                               "slice={[4:6], [0:6]}"),
            "y");
  EXPECT_EQ(read_after(whole + "ROOT r = f32[2,3] slice(c), "
                               "slice={[1:4:2], [0:6:2]}"),
            "slice{[1:4:2], [0:6:2]} (x)");
  EXPECT_EQ(read_after(whole + "ROOT r = f32[1,6] slice(c), "
                               "slice={[5:6], [0:6]}"),
            "slice{[1:2], [0:6]} (y)");
  // A row of both.
  EXPECT_EQ(read_after(whole + "ROOT r = f32[2,6] slice(c), "
                               "slice={[3:5], [0:6]}"),
            "slice{[3:5], [0:6]} (concatenate (x) (y))");
  // Its limit lies in y, its last element in x.
  EXPECT_EQ(read_after(whole + "ROOT r = f32[2,6] slice(c), "
                               "slice={[0:5:3], [0:6]}"),
            "slice{[0:4:3], [0:6]} (x)");
}

TEST(SliceParts, ReadsThroughSlicesAndPadding) {
  EXPECT_EQ(read_after("  s = f32[2,4] slice(x), slice={[1:4:2], [2:6]}\n"
                       "ROOT r = f32[1,2] slice(s), slice={[1:2], [1:4:2]}"),
            "slice{[3:4], [3:6:2]} (x)");
  const std::string padded = "  p = f32[5,9] pad(x, zero), padding=1_0x2_1\n";
  EXPECT_EQ(read_after(padded + "ROOT r = f32[4,6] slice(p), "
                                "slice={[1:5], [2:8]}"),
            "x");
  EXPECT_EQ(read_after(padded + "ROOT r = f32[1,6] slice(p), "
                                "slice={[0:1], [2:8]}"),
            "slice{[0:1], [2:8]} (pad (x) (constant 0))");
  // Taken away at the edge, and holes between elements.
  EXPECT_EQ(read_after("  p = f32[3,6] pad(x, zero), padding=-1_0x0_0\n"
                       "ROOT r = f32[1,6] slice(p), slice={[0:1], [0:6]}"),
            "slice{[1:2], [0:6]} (x)");
  EXPECT_EQ(read_after("  p = f32[7,6] pad(x, zero), padding=0_0_1x0_0\n"
                       "ROOT r = f32[1,6] slice(p), slice={[2:3], [0:6]}"),
            "slice{[2:3], [0:6]} (pad (x) (constant 0))");
}

TEST(SliceParts, ReadsElementsOfConstantsAndBeforeReshapes) {
  EXPECT_EQ(read_after("  s = f32[1] slice(table), slice={[1:2]}\n"
                       "ROOT r = f32[] reshape(s)"),
            "constant -inf");
  EXPECT_EQ(read_after("ROOT r = f32[2] slice(table), slice={[0:2]}"),
            "slice{[0:2]} (constant {1.5, -inf, 2})");
  EXPECT_EQ(read_after("  a = f32[1,2,6] reshape(y)\n"
                       "  b = f32[1,2,6] negate(a)\n"
                       "  c = f32[2,2,6] concatenate(a, b), dimensions={0}\n"
                       "  s = f32[1,2,6] slice(c), "
                       "slice={[0:1], [0:2], [0:6]}\n"
                       "ROOT r = f32[2,6] reshape(s)"),
            "y");
}

TEST(SliceParts, StridesOfOneElementSayNothing) {
  EXPECT_EQ(read_after("  s = f32[1,1] slice(x), slice={[2:4:"
                       "9223372036854775807], [1:6:9223372036854775807]}\n"
                       "ROOT r = f32[1,1] slice(s), slice={[0:1:"
                       "9223372036854775807], [0:1]}"),
            "slice{[2:3], [1:2]} (x)");
}

TEST(SliceParts, KeepsWhatWaitsForAnother) {
  EXPECT_EQ(read_after("  n = f32[4,6] negate(x)\n"
                       "  c = f32[6,6] concatenate(x, y), dimensions={0}, "
                       "control-predecessors={n}\n"
                       "ROOT r = f32[2,6] slice(c), slice={[4:6], [0:6]}"),
            "slice{[4:6], [0:6]} (concatenate (x) (y))");
  EXPECT_EQ(read_after("  n = f32[4,6] negate(x)\n"
                       "  c = f32[6,6] concatenate(x, y), dimensions={0}\n"
                       "ROOT r = f32[2,6] slice(c), slice={[4:6], [0:6]}, "
                       "control-predecessors={n}"),
            "slice{[4:6], [0:6]} (concatenate (x) (y))");
}

/// Writes random programs of views, each value `v0`, `v1`, … of two dimensions.
class RandomViews {
 public:
  explicit RandomViews(unsigned seed) : random_(seed) {}

  std::string program() {
    add(3, 4, "parameter(0)");
    add(2, 4, "parameter(1)");
    text_ += "  zero = f32[] constant(0)\n";
    for (int i = 0; i < 14; ++i) add_view();
    std::string types, names;
    for (size_t i = values_.size() - 6; i < values_.size(); ++i) {
      types += fmt::format("{}{}", types.empty() ? "" : ", ", type(i));
      names += fmt::format("{}v{}", names.empty() ? "" : ", ", i);
    }
    return fmt::format(
        "HloModule m\nENTRY e {{\n{}  ROOT r = ({}) tuple({})\n}}", text_,
        types, names);
  }

 private:
  struct Extents {
    int64_t rows, columns;
  };

  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution(least, most)(random_);
  }
  std::string type(size_t value) const {
    return fmt::format("f32[{},{}]", values_[value].rows,
                       values_[value].columns);
  }
  void add(int64_t rows, int64_t columns, const std::string& op) {
    values_.push_back({rows, columns});
    text_ += fmt::format("  v{} = {} {}\n", values_.size() - 1,
                         type(values_.size() - 1), op);
  }

  void add_view() {
    const auto at =
        static_cast<size_t>(draw(0, static_cast<int64_t>(values_.size()) - 1));
    const Extents of = values_[at];
    switch (draw(0, 4)) {
      case 0:
        return concatenate(at, of);
      case 1:
        return pad(at, of);
      case 2:
        return add(of.columns, of.rows, fmt::format("reshape(v{})", at));
      default:
        return slice(at, of);
    }
  }

  void concatenate(size_t at, const Extents& of) {
    for (size_t other = values_.size(); other-- > 0;) {
      if (values_[other].columns != of.columns) continue;
      return add(
          of.rows + values_[other].rows, of.columns,
          fmt::format("concatenate(v{}, v{}), dimensions={{0}}", at, other));
    }
  }

  void pad(size_t at, const Extents& of) {
    const int64_t low = draw(0, 2), high = draw(0, 2), hole = draw(0, 1);
    add(of.rows + (of.rows - 1) * hole + low + high, of.columns,
        fmt::format("pad(v{}, zero), padding={}_{}_{}x0_0", at, low, high,
                    hole));
  }

  void slice(size_t at, const Extents& of) {
    const auto cut = [&](int64_t extent) {
      const int64_t start = draw(0, extent - 1);
      return SliceDimension{start, draw(start + 1, extent), draw(1, 2)};
    };
    const auto count = [](const SliceDimension& d) {
      return (d.limit - d.start + d.stride - 1) / d.stride;
    };
    const SliceDimension rows = cut(of.rows), columns = cut(of.columns);
    add(count(rows), count(columns),
        fmt::format("slice(v{}), slice={{[{}:{}:{}], [{}:{}:{}]}}", at,
                    rows.start, rows.limit, rows.stride, columns.start,
                    columns.limit, columns.stride));
  }

  std::mt19937 random_;
  std::vector<Extents> values_;
  std::string text_;
};

std::vector<Elements> results_of_views(const Module& module) {
  const std::vector<Elements> parameters = {
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
      {-1, -2, -3, -4, -5, -6, -7, -8}};
  const Computation& entry = module.entry_computation();
  const auto values = evaluate(module, entry, parameters);
  std::vector<Elements> results;
  for (const InstructionId result : entry.at(entry.root).operands)
    results.push_back(values.at(index_of(result)));
  return results;
}

TEST(SliceParts, RandomChainsKeepTheirValues) {
  size_t shorter = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    const std::string text = RandomViews(seed).program();
    const Module before = module_of(text);
    const auto after = inline_calls(before, Arithmetic::kAsXla);
    ASSERT_TRUE(after) << after.error().message << text;
    EXPECT_EQ(results_of_views(*after), results_of_views(before)) << text;
    shorter += after->entry_computation().instructions.size() <
               before.entry_computation().instructions.size();
  }
  EXPECT_GT(shorter, 100u);
}

}  // namespace
}  // namespace reprise
