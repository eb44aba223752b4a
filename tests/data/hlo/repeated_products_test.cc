// Which sums take in a product that others read, too: as XLA:CPU of JAX 0.5.3,
// 0.7.2, 0.10.2 and 0.12 rounds them, each case run as a function of
// `jax.numpy` of f32[64,48].
#include "data/hlo/repeated_products.h"

#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

/// The opcode of `sum`, which reads `p`, in a program of these lines after
/// x, y and z, f32[8,4], s, f32[8], c, 25 everywhere, and zero.
std::string sum_of(const std::string& lines, const std::string& notes = "",
                   Arithmetic arithmetic = Arithmetic::kAsXla) {
  const auto inlined = inline_calls(module_of("HloModule m" + notes + R"(
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  z = f32[8,4] parameter(2)
  s = f32[8] parameter(3)
  w = f32[4,4] parameter(4)
  scale = f32[] constant(25)
  c = f32[8,4] broadcast(scale), dimensions={}
  zero = f32[] constant(0)
)" + lines + "}"),
                                    arithmetic);
  EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
  if (!inlined) return {};
  for (const Instruction& op : inlined->entry_computation().instructions) {
    if (op.name == "sum") return std::string(opcode_name(op.opcode));
  }
  return "none";
}

/// With `p` and `sum` as results of their own.
std::string sum_of_product(const std::string& product) {
  return sum_of(product + R"(
  sum = f32[8,4] add(p, z)
  ROOT t = (f32[8,4], f32[8,4]) tuple(p, sum)
)");
}

TEST(RepeatedProducts, AreThoseThatReadNoMoreThanOneArray) {
  EXPECT_EQ(sum_of_product("p = f32[8,4] multiply(x, c)"), "multiply-add");
  EXPECT_EQ(sum_of_product("p = f32[8,4] multiply(x, x)"), "multiply-add");
  EXPECT_EQ(sum_of_product("rows = f32[8,4] broadcast(s), dimensions={0}\n"
                           "p = f32[8,4] multiply(rows, x)"),
            "multiply-add");
  EXPECT_EQ(sum_of_product("p = f32[8,4] multiply(x, y)"), "add");
}

// A kernel that reads the product for something else has it rounded.
TEST(RepeatedProducts, AreReadOnceInTheKernelOfTheSum) {
  const std::string before =
      "p = f32[8,4] multiply(x, c)\n"
      "sum = f32[8,4] subtract(z, p)\n"
      "e = f32[8,4] exponential(p)\n";
  EXPECT_EQ(sum_of(before + "ROOT t = (f32[8,4], f32[8,4]) tuple(sum, e)\n"),
            "negated-multiply-add");
  EXPECT_EQ(sum_of(before + "ROOT t = f32[8,4] multiply(sum, e)\n"),
            "subtract");
  // The exponential is kept, since something else reads it.
  EXPECT_EQ(sum_of(before + R"(
  r = f32[8,4] multiply(sum, e)
  d = f32[8,4] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[8,4], f32[8,4]) tuple(r, d)
)"),
            "negated-multiply-add");
  // By way of a broadcast, too.
  EXPECT_EQ(sum_of(R"(
  c8 = f32[8] broadcast(scale), dimensions={}
  p = f32[8] multiply(s, c8)
  sum = f32[8] add(p, s)
  a = f32[8,4] broadcast(sum), dimensions={0}
  b = f32[8,4] broadcast(p), dimensions={0}
  ROOT r = f32[8,4] multiply(a, b)
)"),
            "add");
  EXPECT_EQ(sum_of(R"(
  p = f32[8,4] multiply(x, c)
  ROOT sum = f32[8,4] add(p, p)
)"),
            "add");
}

TEST(RepeatedProducts, ShiftedScoresOnceWhereTheHeaderSaysSo) {
  const std::string scores = R"(
  p = f32[8,4] multiply(x, c)
  m = f32[8] reduce(p, zero), dimensions={1}, to_apply=most
  b = f32[8,4] broadcast(m), dimensions={0}
  sum = f32[8,4] subtract(p, b)
)";
  const std::string once = ", frontend_attributes={reprise_shifts=\"shared\"}";
  const std::string softmax = scores + "ROOT e = f32[8,4] exponential(sum)\n";
  EXPECT_EQ(sum_of(softmax), "multiply-subtract");
  EXPECT_EQ(sum_of(softmax, once), "subtract");
  // Nothing is shifted before an exponential.
  EXPECT_EQ(sum_of(scores + "ROOT e = f32[8,4] negate(sum)\n", once),
            "multiply-subtract");
}

// Plans and traces of before know them as two ops.
TEST(RepeatedProducts, StandApartInEarlierArithmetic) {
  const std::string text =
      "p = f32[8,4] multiply(x, c)\n"
      "sum = f32[8,4] add(p, z)\n"
      "ROOT t = (f32[8,4], f32[8,4]) tuple(p, sum)\n";
  EXPECT_EQ(sum_of(text, "", Arithmetic::kProductsShared), "add");
  EXPECT_EQ(sum_of(text), "multiply-add");
}

// Nothing reads the product any more.
TEST(RepeatedProducts, GoWhereAllTheirReadersAreSums) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  p = f32[2] multiply(x, x)
  a = f32[2] add(p, y)
  b = f32[2] subtract(p, y)
  ROOT t = (f32[2], f32[2]) tuple(a, b)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(signatures(inlined->entry_computation()),
            "parameter()f32\n"
            "parameter()f32\n"
            "multiply-add(x:f32 x:f32 y:f32 )f32\n"
            "multiply-subtract(x:f32 x:f32 y:f32 )f32\n"
            "tuple(a:f32 b:f32 )\n");
}

}  // namespace
}  // namespace reprise
