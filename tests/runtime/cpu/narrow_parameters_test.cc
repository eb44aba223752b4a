// Floats of 8 bits and integers of 4 as parameters and results of a step.
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

constexpr PrimitiveType kNarrow[] = {PrimitiveType::kF8E4M3FN,
                                     PrimitiveType::kF8E5M2, PrimitiveType::kS4,
                                     PrimitiveType::kU4};

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
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<std::byte>(i);
    std::byte same{};
    store_element(type, load_element(type, &byte), &same);
    if (narrow_type(type)->format.largest > 0 || same == byte)
      bytes.push_back(byte);
  }
  return bytes;
}

std::string extents(const Elements& bytes) {
  return "[" + std::to_string(bytes.size()) + "]";
}

TEST(NarrowParameters, AreReadAsWhatTheyAre) {
  for (const PrimitiveType type : kNarrow) {
    for (const bool interpret : {true, false}) {
      const Elements bytes = every(type);
      const std::string n = extents(bytes);
      const Elements wide = output_of(
          " x = @" + n + " parameter(0)\n ROOT y = f32" + n + " convert(x)\n",
          type, bytes, interpret);
      for (size_t i = 0; i < bytes.size(); ++i) {
        const double expected = load_element(type, &bytes[i]);
        const double got = load_element(PrimitiveType::kF32, &wide[4 * i]);
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

}  // namespace
}  // namespace reprise
