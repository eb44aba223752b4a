#include "data/hlo/nested_functions.h"

#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

std::string simplified(const std::string& header, const std::string& body,
                       const std::string& root) {
  const auto inlined = inline_calls(module_of("HloModule m" + header + R"(
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  z = f32[8] parameter(2)
)" + body + "  ROOT r = (f32[8]) tuple(" + root +
                                              ")\n}"));
  EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
  return inlined ? arithmetic(inlined->entry_computation()) : "";
}

std::string simplified(const std::string& body, const std::string& root) {
  return simplified("", body, root);
}

constexpr const char* kSeparate =
    ", frontend_attributes={reprise_constants=\"separate\"}";

// As XLA of JAX 0.4.30 to 0.12 gives: where something else reads the root, too,
// it stays a quotient.
TEST(NestedFunctions, QuotientsByRootsAreProducts) {
  const std::string root = "  s = f32[8] sqrt(y)\n  q = f32[8] divide(x, s)\n";
  EXPECT_EQ(simplified(root, "q"), "q/f4=rsqrt(y)\nq=multiply(x, q/f4)\n");
  EXPECT_EQ(simplified(root + "  p = f32[8] add(q, s)\n", "p"),
            "s=sqrt(y)\nq=divide(x, s)\np=add(q, s)\n");
  EXPECT_EQ(
      simplified("  s = f32[8] rsqrt(y)\n  q = f32[8] divide(x, s)\n", "q"),
      "q/f4=sqrt(y)\nq=multiply(x, q/f4)\n");
  EXPECT_EQ(simplified(R"(  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  s = f32[8] sqrt(y)
  q = f32[8] divide(ones, s)
)",
                       "q"),
            "q=rsqrt(y)\n");
}

// By hand: one quotient is left of several, and of x / (1 / y) none.
TEST(NestedFunctions, QuotientsOfQuotientsAreOne) {
  const std::string quotient = "  q = f32[8] divide(x, y)\n";
  EXPECT_EQ(simplified(quotient + "  p = f32[8] divide(q, z)\n", "p"),
            "p/f4=multiply(y, z)\np=divide(x, p/f4)\n");
  EXPECT_EQ(simplified(quotient + "  p = f32[8] divide(z, q)\n", "p"),
            "p/f4=multiply(z, y)\np=divide(p/f4, x)\n");
  EXPECT_EQ(simplified(quotient + R"(  o = f32[8] divide(z, x)
  p = f32[8] divide(q, o)
)",
                       "p"),
            "p/f5=multiply(x, x)\np/f6=multiply(y, z)\n"
            "p=divide(p/f5, p/f6)\n");
}

// By hand; XLA has 0 for the logarithm of y^0, whatever y is.
TEST(NestedFunctions, PowersAndLogarithms) {
  const std::string power = "  w = f32[8] power(x, y)\n";
  EXPECT_EQ(simplified(power + "  q = f32[8] divide(z, w)\n", "q"),
            "q/f4=negate(y)\nq/f5=power(x, q/f4)\nq=multiply(z, q/f5)\n");
  EXPECT_EQ(simplified(power + "  l = f32[8] log(w)\n", "l"),
            "l/f6=abs(x)\nl/f7=log(l/f6)\nl/f8=compare(y, 0)\n"
            "l/f9=multiply(l/f7, y)\nl=select(l/f8, 0, l/f9)\n");
  EXPECT_EQ(simplified("  s = f32[8] sqrt(x)\n  l = f32[8] log(s)\n", "l"),
            "l/f4=log(x)\nl=multiply(l/f4, 0.5)\n");
  const auto to = [](const std::string& exponent) {
    return simplified("  c = f32[] constant(" + exponent + R"()
  cc = f32[8] broadcast(c), dimensions={}
  w = f32[8] power(x, cc)
)",
                      "w");
  };
  EXPECT_EQ(to("2"), "w=multiply(x, x)\n");
  EXPECT_EQ(to("3"), "w/f5=multiply(x, x)\nw=multiply(x, w/f5)\n");
  EXPECT_EQ(to("-1"), "w=divide(1, x)\n");
  EXPECT_EQ(to("4"), "w=power(x, 4)\n");
}

// As XLA of JAX 0.4.30 to 0.11 gives; that of 0.12 leaves all of them.
TEST(NestedFunctions, ExponentialsMeetUpToJax011) {
  const std::string both =
      "  a = f32[8] exponential(x)\n"
      "  b = f32[8] exponential(y)\n";
  const std::string product = both + "  p = f32[8] multiply(a, b)\n";
  EXPECT_EQ(simplified(product, "p"), "p/f5=add(x, y)\np=exponential(p/f5)\n");
  EXPECT_EQ(simplified(kSeparate, product, "p"),
            "a=exponential(x)\nb=exponential(y)\np=multiply(a, b)\n");
  EXPECT_EQ(simplified(both + "  q = f32[8] divide(a, b)\n", "q"),
            "q/f5=negate(y)\nq/f7=add(x, q/f5)\nq=exponential(q/f7)\n");
  EXPECT_EQ(simplified(both + "  w = f32[8] power(a, y)\n", "w"),
            "w/f5=multiply(x, y)\nw=exponential(w/f5)\n");
  const std::string back =
      "  a = f32[8] exponential(x)\n"
      "  l = f32[8] log(a)\n  n = f32[8] negate(l)\n";
  EXPECT_EQ(simplified(back, "n"), "l=copy(x)\nn=negate(l)\n");
  const std::string square =
      "  s = f32[8] multiply(x, x)\n"
      "  a = f32[8] sqrt(s)\n";
  EXPECT_EQ(simplified(square, "a"), "a=abs(x)\n");
  EXPECT_EQ(simplified(kSeparate, square, "a"),
            "s=multiply(x, x)\na=sqrt(s)\n");
}

}  // namespace
}  // namespace reprise
