// Accuracy of the math prelude against the C library in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace {

#include "runtime/kernels/prelude.inc"
#include "runtime/kernels/prelude_functions.inc"

/// Greatest relative error over a grid; results under FLT_MIN count as zero.
double worst(float (*function)(float), double (*exact)(double), double from,
             double to) {
  double error = 0;
  for (int i = 0; i <= 200000; ++i) {
    const float x = static_cast<float>(from + (to - from) * i / 200000);
    const double want = exact(x), got = function(x);
    if (std::fabs(want) < 1.2e-38) {
      EXPECT_LT(std::fabs(got), 1.3e-38) << x;
    } else if (std::fabs(want) < 3.4e38) {
      error = std::max(error, std::fabs(got - want) / std::fabs(want));
    }
  }
  return error;
}

double exact_logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Half a unit in the last place of f32 is 6e-8; the bounds are a few such
// units.
TEST(Prelude, ExponentialsAndLogarithmsAreAccurate) {
  EXPECT_LT(worst(rk_exponential, std::exp, -86.9, 88.7), 2e-7);
  EXPECT_LT(worst(rk_exponential_minus_one, std::expm1, -5, 5), 1e-7);
  EXPECT_LT(worst(rk_exponential_minus_one, std::expm1, -1e-5, 1e-5), 1e-7);
  EXPECT_LT(worst(rk_log, std::log, 1e-30, 1e-3), 2e-7);
  EXPECT_LT(worst(rk_log, std::log, 1e-3, 0.9), 2e-7);
  EXPECT_LT(worst(rk_log, std::log, 1.1, 1e6), 2e-7);
  EXPECT_LT(worst(rk_log_plus_one, std::log1p, -0.9, 3), 1e-7);
  EXPECT_LT(worst(rk_log_plus_one, std::log1p, -1e-6, 1e-6), 1e-7);
  EXPECT_LT(worst(rk_logistic, exact_logistic, -80, 80), 3e-7);
}

TEST(Prelude, TanhErfAndRootsAreAccurate) {
  EXPECT_LT(worst(rk_tanh, std::tanh, -9, 9), 4e-7);
  EXPECT_LT(worst(rk_tanh, std::tanh, -1e-2, 1e-2), 4e-7);
  EXPECT_LT(worst(rk_erf, std::erf, -4, 4), 6e-7);
  EXPECT_LT(worst(rk_cbrt, std::cbrt, -1000, 1000), 1e-7);
}

TEST(Prelude, TrigonometryIsAccurate) {
  EXPECT_LT(worst(rk_sine, std::sin, -3, 3), 1e-7);
  EXPECT_LT(worst(rk_cosine, std::cos, -1.5, 1.5), 1e-7);
  EXPECT_LT(worst(rk_sine, std::sin, 1000, 1003), 1e-7);
  EXPECT_LT(worst(rk_tan, std::tan, -1.5, 1.5), 2e-7);
}

// Half a unit is 6e-8; the inverse functions take what C's double ones take.
TEST(Prelude, InverseAndHyperbolicFunctionsAreAccurate) {
  EXPECT_LT(worst(rk_asin, std::asin, -1, 1), 1e-7);
  EXPECT_LT(worst(rk_acos, std::acos, -1, 1), 1e-7);
  EXPECT_LT(worst(rk_atan, std::atan, -50, 50), 1e-7);
  EXPECT_LT(worst(rk_sinh, std::sinh, -89, 89), 1e-7);
  EXPECT_LT(worst(rk_sinh, std::sinh, -1, 1), 1e-7);
  EXPECT_LT(worst(rk_cosh, std::cosh, -89, 89), 1e-7);
  EXPECT_LT(worst(rk_asinh, std::asinh, -1, 1), 1e-7);
  EXPECT_LT(worst(rk_asinh, std::asinh, -1e30, 1e30), 1e-7);
  EXPECT_LT(worst(rk_acosh, std::acosh, 1, 1.01), 1e-7);
  EXPECT_LT(worst(rk_acosh, std::acosh, 1, 1e30), 1e-7);
  EXPECT_LT(worst(rk_atanh, std::atanh, -0.999999, 0.999999), 1e-7);
}

TEST(Prelude, InverseAndHyperbolicFunctionsKnowTheirEnds) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(rk_sinh(inf), inf);
  EXPECT_EQ(rk_sinh(-inf), -inf);
  EXPECT_EQ(rk_sinh(90.0f), inf);
  EXPECT_TRUE(std::signbit(rk_sinh(-0.0f)));
  EXPECT_EQ(rk_cosh(-inf), inf);
  EXPECT_EQ(rk_cosh(0.0f), 1);
  EXPECT_EQ(rk_asinh(-inf), -inf);
  EXPECT_TRUE(std::signbit(rk_asinh(-0.0f)));
  EXPECT_EQ(rk_acosh(1.0f), 0);
  EXPECT_EQ(rk_acosh(inf), inf);
  EXPECT_EQ(rk_atanh(1.0f), inf);
  EXPECT_EQ(rk_atanh(-1.0f), -inf);
  EXPECT_FLOAT_EQ(rk_asin(1.0f), 1.57079633f);
  EXPECT_FLOAT_EQ(rk_acos(-1.0f), 3.14159265f);
  EXPECT_FLOAT_EQ(rk_atan(-inf), -1.57079633f);
  for (const float outside : {rk_asin(1.5f), rk_acos(-1.5f), rk_acosh(0.5f),
                              rk_acosh(-inf), rk_atanh(1.5f), rk_atanh(inf)})
    EXPECT_TRUE(std::isnan(outside));
  using Function = float (*)(float);
  for (const Function function :
       std::initializer_list<Function>{rk_asin, rk_acos, rk_atan, rk_sinh,
                                       rk_cosh, rk_asinh, rk_acosh, rk_atanh})
    EXPECT_TRUE(std::isnan(function(nan)));
}

TEST(Prelude, PowerIsAccurateAndKnowsItsSpecialCases) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.9f, 0.999f, 1.5f, 1e-20f, 3e20f, 2.0f}) {
    for (const float y :
         {1.0f, 2.0f, 3.0f, 1000.0f, 0.5f, -1.0f, -0.3333f, 1e-3f}) {
      const double want =
          std::pow(static_cast<double>(x), static_cast<double>(y));
      if (want > 3e38 || want < 1e-37) continue;
      EXPECT_NEAR(rk_power(x, y) / want, 1.0, 1e-7) << x << " " << y;
    }
  }
  for (const float x : {-inf, -2.0f, -1.0f, -0.5f, -0.0f, 0.0f, 0.5f, 1.0f,
                        2.0f, inf, std::nanf("")}) {
    for (const float y : {-inf, -3.0f, -2.0f, -0.5f, -0.0f, 0.0f, 0.5f, 2.0f,
                          3.0f, inf, std::nanf("")}) {
      const float want = std::pow(x, y), got = rk_power(x, y);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << x << " " << y;
      } else if (std::isinf(want) || want == 0) {
        EXPECT_EQ(got, want) << x << " " << y;
        EXPECT_EQ(std::signbit(got), std::signbit(want)) << x << " " << y;
      } else {
        EXPECT_NEAR(got, want, std::fabs(want) * 1e-6) << x << " " << y;
      }
    }
  }
}

TEST(Prelude, SpecialValuesPropagate) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(rk_exponential(inf), inf);
  EXPECT_EQ(rk_exponential(-inf), 0);
  EXPECT_EQ(rk_exponential(89.0f), inf);
  EXPECT_EQ(rk_log(0.0f), -inf);
  EXPECT_EQ(rk_log(inf), inf);
  EXPECT_EQ(rk_log_plus_one(-1.0f), -inf);
  EXPECT_EQ(rk_exponential_minus_one(-inf), -1);
  EXPECT_EQ(rk_tanh(inf), 1);
  EXPECT_EQ(rk_tanh(-inf), -1);
  using Function = float (*)(float);
  for (const Function function : std::initializer_list<Function>{
           rk_exponential, rk_log, rk_log_plus_one, rk_exponential_minus_one,
           rk_tanh, rk_logistic, rk_erf, rk_cbrt, rk_sine, rk_cosine, rk_sqrt,
           rk_rsqrt}) {
    EXPECT_TRUE(std::isnan(function(nan)));
  }
  EXPECT_TRUE(std::isnan(rk_log(-1.0f)));
  EXPECT_TRUE(std::isnan(rk_sine(inf)));
  EXPECT_TRUE(std::isnan(rk_maximum(nan, 1.0f)));
  EXPECT_TRUE(std::isnan(rk_maximum(1.0f, nan)));
  EXPECT_TRUE(std::isnan(rk_minimum(1.0f, nan)));
}

TEST(Prelude, IntegersWrapAndSaturate) {
  const int least = std::numeric_limits<int>::min(),
            most = std::numeric_limits<int>::max();
  EXPECT_EQ(rk_add(most, 1), least);
  EXPECT_EQ(rk_divide(7, 0), -1);
  EXPECT_EQ(rk_divide(least, -1), least);
  EXPECT_EQ(rk_remainder(7, 0), 7);
  EXPECT_EQ(rk_to_s32(3e9f), most);
  EXPECT_EQ(rk_to_s32(-3e9f), least);
  EXPECT_EQ(rk_to_s32(std::nanf("")), 0);
  EXPECT_EQ(rk_to_u32(-1.0f), 0u);
  EXPECT_EQ(rk_shift_left(1, 40), 0);
  EXPECT_EQ(rk_shift_right_arithmetic(-8, 40), -1);
  EXPECT_EQ(rk_shift_right_logical(-8, 28), 15);
  EXPECT_EQ(rk_popcnt(static_cast<signed char>(-1)), 8);
  EXPECT_EQ(rk_count_leading_zeros(1), 31);
  EXPECT_EQ(rk_power(3, 4), 81);
}

TEST(Prelude, HalfTypesComeBackFromF32) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<unsigned short>(bits);
    const float f16 = rk_load_f16(half), bf16 = rk_load_bf16(half);
    if (f16 == f16) {
      EXPECT_EQ(rk_store_f16(f16), half);
    }
    if (bf16 == bf16) {
      EXPECT_EQ(rk_store_bf16(bf16), half);
    }
  }
  EXPECT_EQ(rk_load_f16(0x3555), 0.333251953125f);
  EXPECT_EQ(rk_store_f16(65520.0f), 0x7c00);            // Rounds to infinity.
  EXPECT_EQ(rk_store_f16(1.0f + 1.0f / 2048), 0x3c00);  // Tie to even.
  EXPECT_EQ(rk_store_f16(1.0f + 3.0f / 2048), 0x3c02);  // Tie to even.
  EXPECT_EQ(rk_store_f16(3.0e-8f), 0x0001);             // Subnormal, rounded.
  EXPECT_EQ(rk_store_bf16(1.0f + 1.0f / 256), 0x3f80);  // Tie to even.
}

}  // namespace
