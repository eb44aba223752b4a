#include "data/narrow_type.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/element.h"

namespace reprise {
namespace {

const NarrowFloat& format(PrimitiveType type) {
  return narrow_type(type)->format;
}

double value(PrimitiveType type, int bits) {
  return narrow_float_value(format(type), static_cast<uint8_t>(bits));
}

int bits(PrimitiveType type, double value) {
  return narrow_float_bits(format(type), value);
}

// Sign, exponent and mantissa by hand, after Micikevicius et al., FP8 formats
// for deep learning, 2022, table 1.
TEST(NarrowType, FloatsOfEightBitsAreThoseOfTheirPaper) {
  constexpr PrimitiveType e4m3 = PrimitiveType::kF8E4M3FN;
  constexpr PrimitiveType e5m2 = PrimitiveType::kF8E5M2;
  EXPECT_EQ(value(e4m3, 0x7e), 448);  // 1.75 * 2^8
  EXPECT_EQ(value(e4m3, 0x08), 0x1p-6);
  EXPECT_EQ(value(e4m3, 0x07), 0x1.cp-7);
  EXPECT_EQ(value(e4m3, 0x81), -0x1p-9);
  EXPECT_TRUE(std::isnan(value(e4m3, 0x7f)));
  EXPECT_TRUE(std::isnan(value(e4m3, 0xff)));
  EXPECT_EQ(value(e5m2, 0x7b), 57344);  // 1.75 * 2^15
  EXPECT_EQ(value(e5m2, 0x04), 0x1p-14);
  EXPECT_EQ(value(e5m2, 0x03), 0x1.8p-15);
  EXPECT_EQ(value(e5m2, 0x81), -0x1p-16);
  EXPECT_EQ(value(e5m2, 0xfc), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(value(e5m2, 0x7d)));
}

TEST(NarrowType, EveryFloatComesBackAndIsTheNearest) {
  for (const PrimitiveType type :
       {PrimitiveType::kF8E4M3FN, PrimitiveType::kF8E5M2,
        PrimitiveType::kF8E4M3FNUZ, PrimitiveType::kF8E5M2FNUZ,
        PrimitiveType::kF8E4M3B11FNUZ, PrimitiveType::kF8E4M3,
        PrimitiveType::kF8E3M4, PrimitiveType::kF4E2M1FN}) {
    const int count = 1 << primitive_type_bits(type);
    for (int code = 0; code < count; ++code) {
      const double x = value(type, code);
      if (std::isnan(x)) continue;
      EXPECT_EQ(bits(type, x), code);
      if (code % (count / 2) <= 1 || std::isinf(x)) continue;
      // Between this one and that of the number below, the tie to the even one.
      const double below = value(type, code - 1);
      EXPECT_EQ(bits(type, x * 0.75 + below * 0.25), code);
      EXPECT_EQ(bits(type, x * 0.25 + below * 0.75), code - 1);
      EXPECT_EQ(bits(type, (x + below) / 2), code % 2 == 0 ? code : code - 1);
    }
  }
}

TEST(NarrowType, BeyondTheLargestIsNaNOrInfinity) {
  constexpr PrimitiveType e4m3 = PrimitiveType::kF8E4M3FN;
  constexpr PrimitiveType e5m2 = PrimitiveType::kF8E5M2;
  EXPECT_EQ(bits(e4m3, 464), 0x7e);  // Halfway to 480: even is 448.
  EXPECT_EQ(bits(e4m3, 464.1), 0x7f);
  EXPECT_EQ(bits(e4m3, -HUGE_VAL), 0xff);
  EXPECT_EQ(bits(e4m3, std::nan("")), 0x7f);
  EXPECT_EQ(bits(e5m2, 61439), 0x7b);
  EXPECT_EQ(bits(e5m2, 61440), 0x7c);  // Halfway to 65536, which is even.
  EXPECT_EQ(bits(e5m2, -1e300), 0xfc);
  EXPECT_EQ(bits(e5m2, std::nan("")), 0x7e);
}

// As ml_dtypes 0.5.4 and XLA:CPU of JAX 0.10.2 have them.
TEST(NarrowType, OfOtherFormatsEachHasItsOwnWayOut) {
  constexpr PrimitiveType e4m3fnuz = PrimitiveType::kF8E4M3FNUZ;
  EXPECT_EQ(value(e4m3fnuz, 0x7f), 240);  // 1.875 * 2^7
  EXPECT_TRUE(std::isnan(value(e4m3fnuz, 0x80)));
  EXPECT_EQ(bits(e4m3fnuz, 1e9), 0x80);
  EXPECT_EQ(bits(e4m3fnuz, -0.0), 0);
  EXPECT_EQ(bits(e4m3fnuz, -1e-9), 0);
  EXPECT_EQ(value(PrimitiveType::kF8E5M2FNUZ, 0x7f), 57344);
  EXPECT_EQ(value(PrimitiveType::kF8E4M3B11FNUZ, 0x7f), 30);
  EXPECT_EQ(bits(PrimitiveType::kF8E4M3, 1e9), 0x78);
  EXPECT_EQ(bits(PrimitiveType::kF8E4M3, std::nan("")), 0x7c);
  EXPECT_EQ(value(PrimitiveType::kF8E3M4, 0x6f), 15.5);
  constexpr PrimitiveType e2m1 = PrimitiveType::kF4E2M1FN;
  EXPECT_EQ(value(e2m1, 15), -6);
  EXPECT_EQ(bits(e2m1, 1e9), 7);
  EXPECT_EQ(bits(e2m1, -HUGE_VAL), 15);
  EXPECT_EQ(bits(e2m1, std::nan("")), 8);
  EXPECT_EQ(bits(e2m1, -0.0), 8);
}

TEST(NarrowType, WithoutASignThereArePowersOfTwoAlone) {
  constexpr PrimitiveType e8m0 = PrimitiveType::kF8E8M0FNU;
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(value(e8m0, code), std::ldexp(1, code - 127));
    EXPECT_EQ(bits(e8m0, value(e8m0, code)), code);
  }
  EXPECT_TRUE(std::isnan(value(e8m0, 255)));
  EXPECT_EQ(bits(e8m0, 1.49), 127);
  EXPECT_EQ(bits(e8m0, 1.5), 128);
  EXPECT_EQ(bits(e8m0, 3), 129);
  EXPECT_EQ(bits(e8m0, 0x1.4p-127), 1);
  EXPECT_EQ(bits(e8m0, 1e-45), 0);
  EXPECT_EQ(bits(e8m0, 2.5e38), 254);
  for (const double none : {0.0, -1.0, 2.6e38, HUGE_VAL, std::nan("")})
    EXPECT_EQ(bits(e8m0, none), 255);
}

TEST(NarrowType, IntegersOfFourBitsTakeAByteAndStayWithinTheirLimits) {
  EXPECT_EQ(narrow_type(PrimitiveType::kS8), nullptr);
  EXPECT_EQ(stored_bytes(PrimitiveType::kS4), 1U);
  EXPECT_EQ(stored_bytes(PrimitiveType::kF32), 4U);
  const auto stored = [](PrimitiveType type, double number) {
    std::byte byte;
    store_element(type, number, &byte);
    return load_element(type, &byte);
  };
  EXPECT_EQ(stored(PrimitiveType::kS4, -9), -8);
  EXPECT_EQ(stored(PrimitiveType::kS4, 9), 7);
  EXPECT_EQ(stored(PrimitiveType::kU4, -1), 0);
  EXPECT_EQ(stored(PrimitiveType::kU4, 99), 15);
  EXPECT_EQ(stored(PrimitiveType::kS2, -9), -2);
  EXPECT_EQ(stored(PrimitiveType::kS2, 9), 1);
  EXPECT_EQ(stored(PrimitiveType::kU2, 9), 3);
  EXPECT_EQ(stored(PrimitiveType::kS4, std::nan("")), 0);
}

}  // namespace
}  // namespace reprise
