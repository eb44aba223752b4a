// Accuracy of the math prelude against the C library in double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

#include "runtime/kernels/prelude.inc"
#include "runtime/kernels/prelude_functions.inc"
#include "runtime/kernels/prelude_functions_f64.inc"

double exact_logistic(double x) { return 1 / (1 + std::exp(-x)); }
double exact_rsqrt(double x) { return 1 / std::sqrt(x); }

/// A function and the most that it is wrong by, in units of the last place.
struct Accuracy {
  const char* name;
  float (*function)(float);
  double (*exact)(double);
  double units;
};

/// One value of f32: its error, or infinity where the kind of value is wrong.
double error_in_units(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) == std::isnan(got)
               ? 0
               : std::numeric_limits<double>::infinity();
  if (std::isinf(rounded) || std::isinf(got))
    return got == rounded ? 0 : std::numeric_limits<double>::infinity();
  const float size = std::fabs(rounded);
  if (size < std::numeric_limits<float>::min())  // may be flushed to zero
    return std::fabs(got) <= std::numeric_limits<float>::min()
               ? 0
               : std::numeric_limits<double>::infinity();
  const double unit = std::ldexp(1.0, std::ilogb(size) - 23);
  return std::fabs(static_cast<double>(got) - want) / unit;
}

class PreludeOverAllOfF32 : public testing::TestWithParam<Accuracy> {};

// Every 4,099th bit pattern, a prime: exponents, signs, infinities and NaN, in
// all 10^6 values. Half a unit is what rounding alone takes; those with XLA's
// bits have its errors (exp's are beyond one unit above 88.38 alone). XLA:CPU's
// others (JAX 0.10.2): 0.5 to 5 units, sinh and cosh 24.
TEST_P(PreludeOverAllOfF32, IsAccurate) {
  const Accuracy& accuracy = GetParam();
  double greatest = 0;
  float where = 0;
  const auto look = [&](float x) {
    if (std::fpclassify(x) == FP_SUBNORMAL) return;  // taken as zero in a step
    const double error =
        error_in_units(accuracy.function(x), accuracy.exact(x));
    if (error > greatest) {
      greatest = error;
      where = x;
    }
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    look(rk_float_of(static_cast<unsigned>(bits)));
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x :
       {0.0F, -0.0F, 1.0F, -1.0F, inf, -inf, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::min(), 1e22F, 1e30F, 16367173.0F * 0x1p72F})
    look(x);
  EXPECT_LE(greatest, accuracy.units) << "at " << where;
}

INSTANTIATE_TEST_SUITE_P(
    Functions, PreludeOverAllOfF32,
    testing::Values(Accuracy{"sine", rk_sine, std::sin, 0.6},
                    Accuracy{"cosine", rk_cosine, std::cos, 0.6},
                    Accuracy{"tan", rk_tan, std::tan, 0.501},
                    Accuracy{"exp", rk_exponential, std::exp, 5},
                    Accuracy{"expm1", rk_exponential_minus_one, std::expm1, 6},
                    Accuracy{"log", rk_log, std::log, 1.2},
                    Accuracy{"log1p", rk_log_plus_one, std::log1p, 2.5},
                    Accuracy{"tanh", rk_tanh, std::tanh, 6},
                    Accuracy{"logistic", rk_logistic, exact_logistic, 2.5},
                    Accuracy{"erf", rk_erf, std::erf, 6},
                    Accuracy{"sqrt", rk_sqrt, std::sqrt, 0.501},
                    Accuracy{"rsqrt", rk_rsqrt, exact_rsqrt, 1.5},
                    Accuracy{"cbrt", rk_cbrt, std::cbrt, 0.501},
                    Accuracy{"asin", rk_asin, std::asin, 0.501},
                    Accuracy{"acos", rk_acos, std::acos, 0.501},
                    Accuracy{"atan", rk_atan, std::atan, 0.501},
                    Accuracy{"sinh", rk_sinh, std::sinh, 0.501},
                    Accuracy{"cosh", rk_cosh, std::cosh, 0.501},
                    Accuracy{"asinh", rk_asinh, std::asinh, 0.501},
                    Accuracy{"acosh", rk_acosh, std::acosh, 0.501},
                    Accuracy{"atanh", rk_atanh, std::atanh, 0.501}),
    [](const testing::TestParamInfo<Accuracy>& test) {
      return std::string(test.param.name);
    });

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
  EXPECT_EQ(rk_log_plus_one(inf), inf);
  EXPECT_TRUE(std::isnan(rk_log_plus_one(-1.5f)));
  EXPECT_EQ(rk_exponential_minus_one(inf), inf);
  EXPECT_EQ(rk_exponential_minus_one(89.0f), inf);
  using F32 = float (*)(float);
  for (const F32 function : std::initializer_list<F32>{
           rk_sine, rk_tan, rk_log_plus_one, rk_exponential_minus_one}) {
    EXPECT_TRUE(std::signbit(function(-0.0f)));
    EXPECT_EQ(function(-1e-41f), -1e-41f);
  }
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

/// FNV-1a, a word at a time, of a function's results for every 4,099th bit
/// pattern of f32 that is no subnormal; subnormal results are taken as zero,
/// and all NaN as one.
uint64_t digest(float (*function)(float)) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    const float x = rk_float_of(static_cast<unsigned>(bits));
    if (std::fpclassify(x) == FP_SUBNORMAL) continue;
    const float y = function(x);
    uint32_t word = rk_bits_of(y);
    if (std::isnan(y)) word = 0x7fc00000;
    if (y == 0 || std::fpclassify(y) == FP_SUBNORMAL) word = 0;
    hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

// Printed by JAX 0.10.2 on a CPU, jax.jit of each function over the same
// 1,043,717 values; JAX 0.5.3 and 0.7.2 print the same but for log1p.
TEST(Prelude, FunctionsHaveTheBitsOfXlaOverAllOfF32) {
  EXPECT_EQ(digest(rk_exponential), 0xe10632ed892c8867);
  EXPECT_EQ(digest(rk_exponential_minus_one), 0xa14cd3b218647537);
  EXPECT_EQ(digest(rk_log), 0x12606dfaeeefb63b);
  EXPECT_EQ(digest(rk_log_plus_one), 0x11062d0d52f0fbb6);
  EXPECT_EQ(digest(rk_tanh), 0xcbb9db7d26a87de4);
  EXPECT_EQ(digest(rk_erf), 0x96788ccc0741116e);
  EXPECT_EQ(digest(rk_logistic), 0xaa4f63bbae5695ca);
  EXPECT_EQ(digest(rk_sine), 0xbc8bdc42b500ce33);
  EXPECT_EQ(digest(rk_cosine), 0xfa45cba29bff80a0);
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
  EXPECT_EQ(rk_multiply_high(least, least), 1 << 30);
  EXPECT_EQ(rk_multiply_high(most, -3), -2);
  EXPECT_EQ(rk_multiply_high(~0u, ~0u), ~0u - 1);
  EXPECT_EQ(rk_multiply_high(rk_s64(1) << 40, -(rk_s64(1) << 50)), -(1 << 26));
  EXPECT_EQ(rk_multiply_high(~rk_u64(0), ~rk_u64(0)), ~rk_u64(0) - 1);
  EXPECT_EQ(rk_shift_left(1, 40), 0);
  EXPECT_EQ(rk_shift_right_arithmetic(-8, 40), -1);
  EXPECT_EQ(rk_shift_right_logical(-8, 28), 15);
  EXPECT_EQ(rk_popcnt(static_cast<signed char>(-1)), 8);
  EXPECT_EQ(rk_count_leading_zeros(1), 31);
  EXPECT_EQ(rk_power(3, 4), 81);
}

/// A function of f64 and the most that it is wrong by, in units.
struct AccuracyOfF64 {
  const char* name;
  double (*function)(double);
  long double (*exact)(long double);
  double units;
};

class PreludeOverF64 : public testing::TestWithParam<AccuracyOfF64> {};

// Bit patterns at random, and as many where networks are: glibc's own f64
// functions are wrong by up to 1 to 2 units.
TEST_P(PreludeOverF64, IsAccurate) {
  const AccuracyOfF64& accuracy = GetParam();
  double greatest = 0, where = 0;
  const auto look = [&](double x) {
    if (std::fpclassify(x) == FP_SUBNORMAL) return;  // taken as zero in a step
    const long double want = accuracy.exact(x);
    const auto rounded = static_cast<double>(want);
    const double got = accuracy.function(x);
    double error = 0;
    if (std::isnan(rounded) || std::isnan(got)) {
      error = std::isnan(rounded) == std::isnan(got) ? 0 : 1e9;
    } else if (std::isinf(rounded) || std::isinf(got)) {
      error = got == rounded ? 0 : 1e9;
    } else if (std::fabs(rounded) < std::numeric_limits<double>::min()) {
      error = std::fabs(got) <= std::numeric_limits<double>::min() ? 0 : 1e9;
    } else {
      const int unit = std::ilogb(rounded) - 52;
      error =
          static_cast<double>(std::fabs(got - want) * std::ldexp(1.0L, -unit));
    }
    if (std::signbit(rounded) != std::signbit(got) && !std::isnan(got))
      error = 1e9;
    if (error > greatest) {
      greatest = error;
      where = x;
    }
  };
  std::mt19937_64 bits(7);
  std::normal_distribution<double> values(0, 2);
  for (int i = 0; i < 400000; ++i) {
    look(std::bit_cast<double>(bits()));
    look(values(bits));
    look(1 + values(bits) * 1e-3);
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (const double x : {0.0,
                         -0.0,
                         1.0,
                         -1.0,
                         0.5,
                         inf,
                         -inf,
                         std::nan(""),
                         709.7,
                         709.8,
                         710.0,
                         710.4,
                         710.5,
                         -708.3,
                         -745.0,
                         -746.0,
                         1e150,
                         1e151,
                         -1e151,
                         1e308,
                         1e-300,
                         0.34657359027997264,
                         -0.34657359027997264,
                         699.9,
                         700.1})
    look(x);
  EXPECT_LE(greatest, accuracy.units) << "at " << where;
}

INSTANTIATE_TEST_SUITE_P(
    Functions, PreludeOverF64,
    testing::Values(AccuracyOfF64{"exp", rk_exponential, std::exp, 5},
                    AccuracyOfF64{"expm1", rk_exponential_minus_one, std::expm1,
                                  2},
                    AccuracyOfF64{"log", rk_log, std::log, 1.2},
                    AccuracyOfF64{"log1p", rk_log_plus_one, std::log1p, 1},
                    AccuracyOfF64{"tanh", rk_tanh, std::tanh, 2.5},
                    AccuracyOfF64{"sinh", rk_sinh, std::sinh, 2.5},
                    AccuracyOfF64{"cosh", rk_cosh, std::cosh, 2},
                    AccuracyOfF64{"asinh", rk_asinh, std::asinh, 2.5},
                    AccuracyOfF64{"acosh", rk_acosh, std::acosh, 2.5},
                    AccuracyOfF64{"atanh", rk_atanh, std::atanh, 2.5}),
    [](const testing::TestParamInfo<AccuracyOfF64>& test) {
      return std::string(test.param.name);
    });

// Branch-free, and yet exact: whatever the quotient, down to subnormal values.
TEST(Prelude, RemaindersOfF32AreExact) {
  std::mt19937_64 bits(11);
  const auto check = [](float a, float b) {
    const float want = std::fmod(a, b), got = rk_remainder(a, b);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << a << " " << b;
    } else {
      EXPECT_EQ(rk_bits_of(got), rk_bits_of(want)) << a << " " << b;
    }
  };
  for (int i = 0; i < 400000; ++i) {
    const float a = rk_float_of(static_cast<unsigned>(bits()));
    check(a, rk_float_of(static_cast<unsigned>(bits())));
    check(a, std::nextafter(a / static_cast<float>(1U << (bits() % 31)),
                            bits() % 2 == 0 ? 0.0F : 1e38F));
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float a :
       {0.0F, -0.0F, 1.0F, -7.5F, 3e38F, 1e-45F, inf, -inf, std::nanf("")}) {
    for (const float b :
         {0.0F, -0.0F, 1.0F, -2.5F, 3e38F, 1e-45F, inf, -inf, std::nanf("")})
      check(a, b);
  }
}

// By way of doubles, with the quotients of whole numbers.
TEST(Prelude, IntegersDivideAsXlaSays) {
  std::mt19937_64 bits(13);
  const auto check = [](auto a, decltype(a) b) {
    using T = decltype(a);
    const bool turns = std::is_signed_v<T> && b == static_cast<T>(-1);
    EXPECT_EQ(rk_divide(a, b), b == 0  ? static_cast<T>(-1)
                               : turns ? rk_negate(a)
                                       : static_cast<T>(a / b))
        << +a << " " << +b;
    EXPECT_EQ(rk_remainder(a, b), b == 0  ? a
                                  : turns ? T{0}
                                          : static_cast<T>(a % b))
        << +a << " " << +b;
  };
  const auto check_all = [&]<typename T>(T /*type*/) {
    const T ends[] = {0,
                      1,
                      2,
                      static_cast<T>(-1),
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::max()};
    for (int i = 0; i < 200000; ++i) {
      const uint64_t draw = bits();
      const auto a = static_cast<T>(bits() >> (draw % 40));
      const auto b = static_cast<T>(bits() >> (draw / 64 % 60));
      check(a, b);
      check(static_cast<T>(
                rk_multiply(static_cast<T>(b | 1), static_cast<T>(draw >> 50))),
            static_cast<T>(b | 1));
      check(a, ends[draw % 6]);
      check(ends[draw % 6], b);
    }
  };
  check_all(int{}), check_all(unsigned{});
  check_all(rk_s64{}), check_all(rk_u64{});
  check_all(static_cast<short>(0)), check_all(static_cast<unsigned char>(0));
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
  // Every 4099th float, and those around every half.
  const auto expect_rounded = [](unsigned bits) {
    const float x = rk_float_of(bits), rounded = rk_round_f16(x);
    if (x != x) {
      EXPECT_NE(rounded, rounded);
      return;
    }
    EXPECT_EQ(rk_bits_of(rounded), rk_bits_of(rk_load_f16(rk_store_f16(x))))
        << bits;
  };
  for (unsigned bits = 0; bits < 0xffffffffu - 4099; bits += 4099)
    expect_rounded(bits);
  for (unsigned half = 0; half < 65536; ++half) {
    const unsigned at = rk_bits_of(rk_load_f16(static_cast<uint16_t>(half)));
    for (const int apart : {-4097, -4096, -4095, -1, 0, 1, 4095, 4096, 4097})
      expect_rounded(at + static_cast<unsigned>(apart));
  }
  EXPECT_EQ(rk_load_f16(0x3555), 0.333251953125f);
  EXPECT_EQ(rk_store_f16(65520.0f), 0x7c00);            // Rounds to infinity.
  EXPECT_EQ(rk_store_f16(1.0f + 1.0f / 2048), 0x3c00);  // Tie to even.
  EXPECT_EQ(rk_store_f16(1.0f + 3.0f / 2048), 0x3c02);  // Tie to even.
  EXPECT_EQ(rk_store_f16(3.0e-8f), 0x0001);             // Subnormal, rounded.
  EXPECT_EQ(rk_store_bf16(1.0f + 1.0f / 256), 0x3f80);  // Tie to even.
}

}  // namespace
