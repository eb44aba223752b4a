#include "data/hlo/half_functions.h"

#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

/// The ops between the parameter x, of `type`, and the root r.
std::string steps_of(const std::string& notes, const std::string& type,
                     const std::string& function) {
  const auto inlined = inline_calls(module_of(
      "HloModule m, frontend_attributes={reprise_half_products=\"rounded\"," +
      notes + "}\nENTRY e {\n  x = " + type +
      "[8] parameter(0)\n  ROOT r = " + type + "[8] " + function + "(x)\n}"));
  EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
  return inlined ? arithmetic(inlined->entry_computation()) : "";
}

constexpr const char* kExpm1 = "reprise_half_expm1=\"steps\"";
constexpr const char* kOthers = "reprise_half_functions=\"steps\"";

// As XLA:CPU of JAX 0.4.30 to 0.10.2 computes it of f16 alone.
TEST(HalfFunctions, RoundWithinExpm1WhereTheHeaderSaysSo) {
  EXPECT_EQ(steps_of(kExpm1, "f16", "exponential-minus-one"),
            "r/h5=multiply(x, 0.5)\n"
            "r/h6=exponential(x)\n"
            "r/h7=tanh(r/h5)\n"
            "r/h8=add(r/h6, 1)\n"
            "r/h9=multiply(r/h7, r/h8)\n"
            "r/h12=compare(r/h5, 0)\n"
            "r/h13=abs(x)\n"
            "r/h14=compare(r/h13, 0.5)\n"
            "r/h15=subtract(r/h6, 1)\n"
            "r/h16=select(r/h12, x, r/h9)\n"
            "r=select(r/h14, r/h15, r/h16)\n");
  for (const char* type : {"f32", "bf16", "f64"}) {
    EXPECT_EQ(steps_of(kExpm1, type, "exponential-minus-one"),
              "r=exponential-minus-one(x)\n");
  }
  EXPECT_EQ(steps_of(kOthers, "f16", "exponential-minus-one"),
            "r=exponential-minus-one(x)\n");
}

// As XLA:CPU of JAX 0.5.3 and 0.7.2, where that of 0.10.2 rounds the result.
TEST(HalfFunctions, RoundWithinRootsAndLogarithms) {
  EXPECT_EQ(steps_of(kOthers, "f16", "rsqrt"),
            "r/h3=sqrt(x)\n"
            "r=divide(1, r/h3)\n");
  EXPECT_EQ(steps_of(kOthers, "f16", "cbrt"),
            "r/h1=abs(x)\n"
            "r/h4=power(r/h1, 0.33333334)\n"
            "r/h7=compare(x, 0)\n"
            "r/h10=compare(x, 0)\n"
            "r/h11=select(r/h10, x, r/h4)\n"
            "r/h12=negate(r/h4)\n"
            "r=select(r/h7, r/h12, r/h11)\n");
  EXPECT_EQ(steps_of(kOthers, "f16", "log-plus-one"),
            "r/h1=multiply(x, x)\n"
            "r/h4=multiply(4.527e-05, x)\n"
            "r/h7=add(r/h4, 0.49854103)\n"
            "r/h8=multiply(r/h7, x)\n"
            "r/h11=add(r/h8, 6.5787325)\n"
            "r/h12=multiply(r/h11, x)\n"
            "r/h15=add(r/h12, 29.911919)\n"
            "r/h16=multiply(r/h15, x)\n"
            "r/h19=add(r/h16, 60.94967)\n"
            "r/h20=multiply(r/h19, x)\n"
            "r/h23=add(r/h20, 57.112965)\n"
            "r/h24=multiply(r/h23, x)\n"
            "r/h27=add(r/h24, 20.039553)\n"
            "r/h30=multiply(1, x)\n"
            "r/h33=add(r/h30, 15.062909)\n"
            "r/h34=multiply(r/h33, x)\n"
            "r/h37=add(r/h34, 83.04757)\n"
            "r/h38=multiply(r/h37, x)\n"
            "r/h41=add(r/h38, 221.7624)\n"
            "r/h42=multiply(r/h41, x)\n"
            "r/h45=add(r/h42, 309.09872)\n"
            "r/h46=multiply(r/h45, x)\n"
            "r/h49=add(r/h46, 216.42789)\n"
            "r/h50=multiply(r/h49, x)\n"
            "r/h53=add(r/h50, 60.11866)\n"
            "r/h54=divide(r/h27, r/h53)\n"
            "r/h55=multiply(x, r/h1)\n"
            "r/h58=multiply(-0.5, r/h1)\n"
            "r/h59=multiply(r/h55, r/h54)\n"
            "r/h60=add(r/h58, r/h59)\n"
            "r/h63=abs(x)\n"
            "r/h64=compare(r/h63, 0.41421357)\n"
            "r/h67=add(x, 1)\n"
            "r/h68=log(r/h67)\n"
            "r/h69=add(x, r/h60)\n"
            "r=select(r/h64, r/h69, r/h68)\n");
  for (const char* function : {"rsqrt", "cbrt", "log-plus-one"}) {
    const std::string whole = std::string("r=") + function + "(x)\n";
    EXPECT_EQ(steps_of(kExpm1, "f16", function), whole);
    EXPECT_EQ(steps_of(kOthers, "f32", function), whole);
  }
}

}  // namespace
}  // namespace reprise
