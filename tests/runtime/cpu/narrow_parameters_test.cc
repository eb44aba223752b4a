// Floats of 8 bits and fewer and integers of 4 and 2 as parameters and results
// of a step.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "data/element.h"
#include "data/narrow_type.h"
#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

using Elements = std::vector<std::byte>;

constexpr PrimitiveType kNarrow[] = {
    PrimitiveType::kF8E4M3FN,   PrimitiveType::kF8E5M2,
    PrimitiveType::kF8E4M3FNUZ, PrimitiveType::kF8E5M2FNUZ,
    PrimitiveType::kF8E4M3,     PrimitiveType::kF8E4M3B11FNUZ,
    PrimitiveType::kF8E3M4,     PrimitiveType::kF8E8M0FNU,
    PrimitiveType::kF4E2M1FN,   PrimitiveType::kS4,
    PrimitiveType::kU4,         PrimitiveType::kS2,
    PrimitiveType::kU2};

/// The step's only output of its only parameter. `body` calls the type `@`.
Elements output_of(std::string body, PrimitiveType type,
                   const Elements& parameter, bool interpret) {
  for (size_t at = body.find('@'); at != std::string::npos;
       at = body.find('@', at))
    body.replace(at, 1, primitive_type_name(type));
  TextProgram program("HloModule m\nENTRY e {\n" + body + "}\n", 1, interpret);
  const auto place = program.executor().parameter(0);
  EXPECT_EQ(place.size(), parameter.size());
  std::memcpy(place.data(), parameter.data(), place.size());
  EXPECT_TRUE(program.executor().run_step(0));
  const auto output = program.executor().output(0);
  return {output.begin(), output.end()};
}

/// Every value of the type, NaN in every form.
Elements every(PrimitiveType type) {
  Elements bytes;
  const int count = 1 << primitive_type_bits(type);
  const bool is_signed = stored_type(type) == PrimitiveType::kS8;
  for (int i = 0; i < count; ++i)
    bytes.push_back(static_cast<std::byte>(is_signed ? i - count / 2 : i));
  return bytes;
}

std::string extents(const Elements& bytes) {
  return "[" + std::to_string(bytes.size()) + "]";
}

// In bf16, of which load_element() makes numbers by its bits: this thread takes
// denormals of f32, as the smallest f8e8m0fnu is one, for zeros.
TEST(NarrowParameters, AreReadAsWhatTheyAre) {
  for (const PrimitiveType type : kNarrow) {
    for (const bool interpret : {true, false}) {
      const Elements bytes = every(type);
      const std::string n = extents(bytes);
      const Elements wide = output_of(
          " x = @" + n + " parameter(0)\n ROOT y = bf16" + n + " convert(x)\n",
          type, bytes, interpret);
      for (size_t i = 0; i < bytes.size(); ++i) {
        const double expected = load_element(type, &bytes[i]);
        const double got = load_element(PrimitiveType::kBF16, &wide[2 * i]);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got)) << i;
        } else {
          EXPECT_EQ(got, expected) << i;
          EXPECT_EQ(std::signbit(got), std::signbit(expected)) << i;
        }
      }
    }
  }
}

// All but NaN, which has one form, come out of a copy as they went in; what is
// handed through keeps that too.
TEST(NarrowParameters, ComeOutAsTheyWentIn) {
  for (const PrimitiveType type : kNarrow) {
    for (const bool interpret : {true, false}) {
      const Elements bytes = every(type);
      const std::string n = extents(bytes);
      EXPECT_EQ(output_of(" x = @" + n + " parameter(0)\n ROOT t = (@" + n +
                              ") tuple(x)\n",
                          type, bytes, interpret),
                bytes);
      const Elements copied =
          output_of(" x = @" + n + " parameter(0)\n y = @" + n +
                        " reverse(x), dimensions={0}\n ROOT z = @" + n +
                        " reverse(y), dimensions={0}\n",
                    type, bytes, interpret);
      for (size_t i = 0; i < bytes.size(); ++i) {
        std::byte expected = bytes[i];
        if (std::isnan(load_element(type, &bytes[i])))
          store_element(type, std::nan(""), &expected);
        EXPECT_EQ(copied[i], expected) << i;
      }
    }
  }
}

// Rounding as in data/narrow_type.h, integers saturated, at steps of a fifth of
// the smallest and over the whole range.
TEST(NarrowParameters, ResultsAreRoundedConversions) {
  for (const PrimitiveType type : kNarrow) {
    const NarrowFloat& format = narrow_type(type)->format;
    Elements bytes;
    for (int i = -200; i < 200; ++i) {
      const double step = format.largest == 0
                              ? 0.1
                              : std::ldexp(0.2, format.smallest_exponent -
                                                    format.mantissa_bits);
      for (const double value : {i * step, std::ldexp(1 + i / 512.0, i / 10)}) {
        bytes.resize(bytes.size() + 4);
        store_element(PrimitiveType::kF32, value, &bytes[bytes.size() - 4]);
      }
    }
    const std::string n = "[" + std::to_string(bytes.size() / 4) + "]";
    for (const bool interpret : {true, false}) {
      const Elements narrow = output_of(
          " x = f32" + n + " parameter(0)\n ROOT y = @" + n + " convert(x)\n",
          type, bytes, interpret);
      for (size_t i = 0; i < narrow.size(); ++i) {
        const double x = load_element(PrimitiveType::kF32, &bytes[4 * i]);
        std::byte expected;
        store_element(type, x, &expected);
        const double wanted = load_element(type, &expected);
        const double got = load_element(type, &narrow[i]);
        EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
            << primitive_type_name(type) << ": " << x << " is " << got
            << ", not " << wanted;
      }
    }
  }
}

TEST(NarrowParameters, BitsAreThoseOfTheType) {
  const Elements bytes = every(PrimitiveType::kF8E4M3FN);
  const std::string n = extents(bytes);
  const Elements bits = output_of(
      " x = @" + n + " parameter(0)\n y = u8" + n +
          " bitcast-convert(x)\n z = u8" + n + " not(y)\n w = @" + n +
          " bitcast-convert(z)\n ROOT v = u8" + n + " bitcast-convert(w)\n",
      PrimitiveType::kF8E4M3FN, bytes, true);
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bits[i], ~bytes[i]);
  const Elements integers = every(PrimitiveType::kS4);
  const Elements unsigned_bits = output_of(
      " x = @[16] parameter(0)\n ROOT y = u4[16] bitcast-convert(x)\n",
      PrimitiveType::kS4, integers, true);
  for (size_t i = 0; i < integers.size(); ++i)
    EXPECT_EQ(unsigned_bits[i], integers[i] & std::byte{15});
}

// The last bits of a byte come first, as JAX's bitcast_convert_type has them.
TEST(NarrowParameters, PartsOfBytesAreTakenOutAndPutTogether) {
  const Elements bytes = {std::byte{0x1b}, std::byte{0xe4}};
  const auto values = [&](PrimitiveType type, const std::string& body) {
    std::vector<double> found;
    for (const bool interpret : {true, false}) {
      found.clear();
      for (const std::byte& byte : output_of(body, type, bytes, interpret))
        found.push_back(load_element(type, &byte));
    }
    return found;
  };
  using V = std::vector<double>;
  const std::string given = " x = u8[2] parameter(0)\n";
  EXPECT_EQ(values(PrimitiveType::kS4,
                   given + " ROOT y = @[2,2] bitcast-convert(x)\n"),
            (V{-5, 1, 4, -2}));
  EXPECT_EQ(values(PrimitiveType::kU2,
                   given + " ROOT y = @[2,4] bitcast-convert(x)\n"),
            (V{3, 2, 1, 0, 0, 1, 2, 3}));
  EXPECT_EQ(values(PrimitiveType::kF4E2M1FN,
                   given + " y = u16[] bitcast-convert(x)\n"
                           " ROOT z = @[4] bitcast-convert(y)\n"),
            (V{-1.5, 0.5, 2, -4}));
  EXPECT_EQ(values(PrimitiveType::kU8,
                   given + " w = s2[2,4] bitcast-convert(x)\n"
                           " v = s2[2,2,2] reshape(w)\n"
                           " z = s4[2,2] bitcast-convert(v)\n"
                           " ROOT r = u8[2] bitcast-convert(z)\n"),
            (V{0x1b, 0xe4}));
}

}  // namespace
}  // namespace reprise
