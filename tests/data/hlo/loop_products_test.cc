// Products that leave loops: what the program becomes, by hand, and what must
// stay. That results stay JAX's: jax_cases_test, `recurrent.*`.
#include "data/hlo/loop_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// Five steps over rows x[i] (2x9) and the row g = tanh(x[i]) w (2x11): `sum`
/// adds x[i]^T g to a 9x11 matrix, `kept` keeps g u (2x9).
struct LoopText {
  std::string type = "f32";
  std::string limit = "constant(5)";
  std::string sum = "add(total, outer)";
  std::string kept = "dynamic-update-slice(rows, kept_row, i, zero, zero)";
  std::string test = "compare(i, limit), direction=LT";
  std::string condition;      ///< Further ops of it.
  std::string body;           ///< Further ops before the products.
  std::string weights = "w";  ///< What `read` multiplies with.
  std::string index = "i";    ///< Of the row.
  int spare = 40;  ///< Rows of an array that only makes the state large.

  std::string text() const {
    const std::string state = fmt::format(
        "(s32[], {0}[5,2,9], {0}[9,11], {0}[11,9], {0}[9,11], {0}[5,2,9], "
        "{0}[{1},2,9])",
        type, spare);
    return fmt::format(
        R"(HloModule m
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {t}[5,2,9] get-tuple-element(s), index=1
  w = {t}[9,11] get-tuple-element(s), index=2
  u = {t}[11,9] get-tuple-element(s), index=3
  total = {t}[9,11] get-tuple-element(s), index=4
  rows = {t}[5,2,9] get-tuple-element(s), index=5
  spare = {t}[{spare},2,9] get-tuple-element(s), index=6
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
{body}  slice = {t}[1,2,9] dynamic-slice(x, {index}, zero, zero), dynamic_slice_sizes={{1,2,9}}
  row = {t}[2,9] reshape(slice)
  read = {t}[2,11] dot(row, {weights}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  g = {t}[2,11] tanh(read)
  outer = {t}[9,11] dot(row, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  added = {t}[9,11] {sum}
  back = {t}[2,9] dot(g, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  kept_row = {t}[1,2,9] reshape(back)
  kept = {t}[5,2,9] {kept}
  ROOT t = {state} tuple(next, x, w, u, added, kept, spare)
}}
condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  total = {t}[9,11] get-tuple-element(s), index=4
  limit = s32[] {limit}
{condition}  ROOT p = pred[] {test}
}}
ENTRY e {{
  x = {t}[5,2,9] parameter(0)
  w = {t}[9,11] parameter(1)
  u = {t}[11,9] parameter(2)
  from = {t}[9,11] parameter(3)
  spare = {t}[{spare},2,9] parameter(4)
  zero = s32[] constant(0)
  nothing = {t}[] constant(0)
  empty = {t}[5,2,9] broadcast(nothing), dimensions={{}}
  init = {state} tuple(zero, x, w, u, from, empty, spare)
  loop = {state} while(init), condition=condition, body=body
  total = {t}[9,11] get-tuple-element(loop), index=4
  rows = {t}[5,2,9] get-tuple-element(loop), index=5
  ROOT r = ({t}[9,11], {t}[5,2,9]) tuple(total, rows)
}})",
        fmt::arg("state", state), fmt::arg("t", type), fmt::arg("sum", sum),
        fmt::arg("kept", kept), fmt::arg("limit", limit),
        fmt::arg("test", test), fmt::arg("condition", condition),
        fmt::arg("body", body), fmt::arg("weights", weights),
        fmt::arg("index", index), fmt::arg("spare", spare));
  }
};

InlinedModule inlined_of(const std::string& text,
                         Arithmetic arithmetic = Arithmetic::kAsXla) {
  const Result<Module> module = parse_hlo(text);
  EXPECT_TRUE(module) << module.error().message;
  Result<InlinedModule> inlined = inline_calls(*module, arithmetic);
  EXPECT_TRUE(inlined) << inlined.error().message;
  return *std::move(inlined);
}

int products_in(const Computation& computation) {
  return static_cast<int>(std::count_if(
      computation.instructions.begin(), computation.instructions.end(),
      [](const Instruction& op) { return op.opcode == Opcode::kDot; }));
}

/// (products of the body, products of the entry).
std::pair<int, int> products(const InlinedModule& module) {
  const auto body =
      std::find_if(module.computations.begin(), module.computations.end(),
                   [](const Computation& one) { return one.name == "body"; });
  return {products_in(*body), products_in(module.entry_computation())};
}

std::pair<int, int> products(const LoopText& loop) {
  return products(inlined_of(loop.text()));
}

/// Shapes and opcodes of the entry from the loop on.
std::string after_loop(const InlinedModule& module) {
  const Computation& entry = module.entry_computation();
  std::string text;
  bool is_after = false;
  for (const Instruction& op : entry.instructions) {
    is_after = is_after || op.opcode == Opcode::kWhile;
    if (!is_after || op.opcode == Opcode::kWhile) continue;
    text += fmt::format("{} {}", opcode_name(op.opcode),
                        op.shape.is_tuple() ? "" : shape_text(op.shape, false));
    for (const InstructionId read : op.operands) {
      const Instruction& from = entry.at(read);
      text += from.opcode == Opcode::kParameter ? " " + from.name : "";
    }
    text += '\n';
  }
  return text;
}

TEST(LoopProducts, LeaveBeforeAndAfter) {
  const InlinedModule module = inlined_of(LoopText().text());
  EXPECT_EQ(products(module), std::pair(0, 3));
  // By hand: g becomes rows of 5 x 2, x is there already.
  EXPECT_EQ(after_loop(module),
            "reshape f32[10,9] x\n"
            "get-tuple-element f32[5,2,11]\n"
            "reshape f32[10,11]\n"
            "dot f32[9,11]\n"
            "add f32[9,11] from\n"
            "get-tuple-element f32[5,2,11]\n"
            "reshape f32[10,11]\n"
            "dot f32[10,9] u\n"
            "reshape f32[5,2,9]\n"
            "tuple \n");
  const Computation& entry = module.entry_computation();
  const auto loop = std::find_if(
      entry.instructions.begin(), entry.instructions.end(),
      [](const Instruction& op) { return op.opcode == Opcode::kWhile; });
  // Without the sum and the rows, with g's rows and the product with w.
  EXPECT_EQ(shape_text(loop->shape, false),
            "(s32[], f32[5,2,9], f32[9,11], f32[11,9], f32[40,2,9], "
            "f32[5,2,11], f32[5,2,11])");
}

TEST(LoopProducts, StayAsTheyWereForOlderPlans) {
  EXPECT_EQ(products(inlined_of(LoopText().text(), Arithmetic::kInLoops)),
            std::pair(3, 0));
}

TEST(LoopProducts, SumsStayWhereTheyAreNoPlainSums) {
  LoopText loop;
  loop.sum = "subtract(total, outer)";
  EXPECT_EQ(products(loop), std::pair(1, 2));
  loop.sum = "add(outer, outer)";
  EXPECT_EQ(products(loop), std::pair(1, 2));
  loop = {};
  loop.type = "bf16";  // Each step rounds.
  EXPECT_EQ(products(loop), std::pair(1, 2));
}

TEST(LoopProducts, RowsStayWhereTheLoopReadsThem) {
  LoopText loop;
  loop.kept = "dynamic-update-slice(rows, kept_row, zero, zero, zero)";
  EXPECT_EQ(products(loop), std::pair(1, 2));
  loop.kept = "multiply(rows, rows)";  // Nothing reads `back`.
  EXPECT_EQ(products(loop), std::pair(0, 2));
}

TEST(LoopProducts, StayWhereStepsOrStateAreNotKnown) {
  LoopText loop;
  loop.test = "compare(i, limit), direction=LE";
  EXPECT_EQ(products(loop), std::pair(3, 0));
  loop = {};
  loop.limit = "add(i, i)";
  EXPECT_EQ(products(loop), std::pair(3, 0));
  loop = {};
  loop.condition = "  also = f32[9,11] negate(total)\n";
  EXPECT_EQ(products(loop), std::pair(3, 0));
}

TEST(LoopProducts, StayWhereTheirRowsWouldBeLarge) {
  LoopText loop;
  loop.spare = 1;  // g's rows and w's product are 440 bytes each, the
                   // state 1,980: one of them may be there.
  EXPECT_EQ(products(loop), std::pair(1, 2));
}

/// Each step doubles the ways to what it is made of.
TEST(LoopProducts, LooksAtNoMoreThanFewOpsOnTheWayToWeights) {
  LoopText loop;
  loop.weights = "w2";
  loop.body =
      "  w1 = f32[18,11] concatenate(w, w), dimensions={0}\n"
      "  w2 = f32[9,11] slice(w1), slice={[0:9], [0:11]}\n";
  EXPECT_EQ(products(loop), std::pair(0, 3));
  loop.body.clear();
  loop.weights = "w";
  for (int i = 0; i < 100; ++i) {
    loop.body += fmt::format(
        "  c{0} = f32[18,11] concatenate({1}, {1}), dimensions={{0}}\n"
        "  s{0} = f32[9,11] slice(c{0}), slice={{[0:9], [0:11]}}\n",
        i, loop.weights);
    loop.weights = fmt::format("s{}", i);
  }
  EXPECT_EQ(products(loop), std::pair(1, 2));
}

TEST(LoopProducts, IndicesCountThatComeByEveryRowOnce) {
  LoopText loop;
  loop.body =
      "  four = s32[] constant(4)\n  behind = s32[] subtract(four, i)\n";
  loop.index = "behind";
  // The sum keeps g's rows where x's are, u's product where it writes: no
  // room is left for those of the product with w.
  EXPECT_EQ(products(loop), std::pair(1, 2));
  loop.body = "  two = s32[] add(i, i)\n";
  loop.index = "two";
  EXPECT_EQ(products(loop).first, 1);
  loop.body = "  n0 = s32[] constant(1000000000)\n";
  for (int i = 0; i < 100; ++i)
    loop.body += fmt::format("  n{} = s32[] add(n{}, n{})\n", i + 1, i, i);
  loop.body += "  far = s32[] add(i, n100)\n";
  loop.index = "far";
  EXPECT_EQ(products(loop).first, 1);
}

/// A matrix of three dimensions by a vector gives one of two.
TEST(LoopProducts, StayWhereFactorsAreNoMatrices) {
  std::string text = LoopText().text();
  const auto put = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  put("  row = f32[2,9] reshape(slice)",
      "  row = f32[2,9] reshape(slice)\n  cube = f32[2,3,3] reshape(slice)\n"
      "  v1 = f32[1,3] slice(w), slice={[0:1], [0:3]}\n"
      "  v = f32[3] reshape(v1)\n"
      "  thin = f32[2,3] dot(cube, v), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n"
      "  none = f32[] constant(0)\n"
      "  wide = f32[2,11] pad(thin, none), padding=0_0x0_8");
  put("tanh(read)", "add(read, wide)");
  EXPECT_EQ(products(inlined_of(text)), std::pair(1, 3));
}

TEST(LoopProducts, StayInABodyThatTwoLoopsShare) {
  std::string text = LoopText().text();
  const std::string root = "  ROOT r =";
  const size_t at = text.find(root);
  const std::string state =
      "(s32[], f32[5,2,9], f32[9,11], f32[11,9], f32[9,11], f32[5,2,9], "
      "f32[40,2,9])";
  text.insert(
      at, "  init2 = " + state +
              " tuple(zero, x, w, u, total, empty, spare)\n  loop2 = " + state +
              " while(init2), condition=condition, body=body\n"
              "  also = f32[9,11] get-tuple-element(loop2), index=4\n");
  EXPECT_EQ(products(inlined_of(text)), std::pair(3, 0));
}

}  // namespace
}  // namespace reprise
