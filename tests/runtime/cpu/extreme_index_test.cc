// argmax and argmin as JAX writes them, against the reducer applied to one
// element after the other: ties, zeros of both signs, infinities and NaN, along
// every dimension, with indices in any order, by one thread and by two.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

constexpr int64_t kReducedExtents[] = {3, 70, 5};

std::string program_text(int dimension, bool most, bool reads_values) {
  std::vector<int64_t> left;
  for (int d = 0; d < 3; ++d) {
    if (d != dimension) left.push_back(kReducedExtents[d]);
  }
  const std::string out = fmt::format("{},{}", left[0], left[1]);
  return fmt::format(
      R"(HloModule m
pick {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  before = pred[] compare(a, b), direction={1}
  nan = pred[] compare(a, a), direction=NE
  keeps = pred[] or(before, nan)
  value = f32[] select(keeps, a, b)
  same = pred[] compare(a, b), direction=EQ
  less = pred[] compare(i, j), direction=LT
  ties = pred[] and(same, less)
  first = pred[] or(keeps, ties)
  index = s32[] select(first, i, j)
  ROOT pair = (f32[], s32[]) tuple(value, index)
}}
ENTRY main {{
  x = f32[3,70,5] parameter(0)
  n = s32[3,70,5] parameter(1)
  start = f32[] constant({2})
  zero = s32[] constant(0)
  r = (f32[{0}], s32[{0}]) reduce(x, n, start, zero), dimensions={{{3}}}, to_apply=pick
  index = s32[{0}] get-tuple-element(r), index=1
{4}}}
)",
      out, most ? "GT" : "LT", most ? "-inf" : "inf", dimension,
      reads_values
          ? fmt::format("  value = f32[{0}] get-tuple-element(r), index=0\n"
                        "  ROOT t = (s32[{0}], f32[{0}]) tuple(index, value)\n",
                        out)
          : fmt::format("  ROOT t = (s32[{0}]) tuple(index)\n", out));
}

struct PickedPair {
  float value;
  int32_t index;
};

/// The reducer of the text.
PickedPair picked(PickedPair a, PickedPair b, bool most) {
  const bool keeps =
      (most ? a.value > b.value : a.value < b.value) || std::isnan(a.value);
  const bool ties = a.value == b.value && a.index < b.index;
  return {keeps ? a.value : b.value, keeps || ties ? a.index : b.index};
}

TEST(ExtremeIndex, IsWhatTheReducerMakesOfOneAfterTheOther) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  for (int round = 0; round < 48; ++round) {
    const int dimension = round % 3;
    const bool most = round % 2 == 0, reads_values = round % 4 < 2;
    TextProgram program(program_text(dimension, most, reads_values),
                        round % 5 == 0 ? 2 : 1);
    std::vector<float> x(3 * 70 * 5);
    std::vector<int32_t> n(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      // Few values, so that many are equal; now and then all the special ones.
      const auto draw = static_cast<int>(random() % 16);
      x[i] = static_cast<float>(draw % 8 - (round % 3) * 4);
      if (round % 6 >= 3 && draw == 8) x[i] = -0.0F;
      if (round % 7 == 1 && draw == 9) x[i] = kInf;
      if (round % 7 == 2) x[i] = most ? -kInf : kInf;
      if (round % 8 == 3 && random() % 40 == 0) x[i] = std::nanf("");
      n[i] = static_cast<int32_t>(random() % 100);
    }
    std::memcpy(program.executor().parameter(0).data(), x.data(), x.size() * 4);
    std::memcpy(program.executor().parameter(1).data(), n.data(), n.size() * 4);
    ASSERT_TRUE(program.executor().run_step(0));
    const int64_t inner = dimension == 0 ? 350 : dimension == 1 ? 5 : 1;
    const int64_t extent = kReducedExtents[dimension];
    const auto rows = static_cast<int64_t>(x.size()) / extent;
    for (int64_t row = 0; row < rows; ++row) {
      PickedPair want{most ? -kInf : kInf, 0};
      for (int64_t j = 0; j < extent; ++j) {
        const auto at = static_cast<size_t>((row / inner * extent + j) * inner +
                                            row % inner);
        want = picked(want, {x[at], n[at]}, most);
      }
      int32_t index = 0;
      std::memcpy(&index, program.executor().output(0).data() + row * 4, 4);
      ASSERT_EQ(index, want.index) << "round " << round << " row " << row;
      if (!reads_values) continue;
      float value = 0;
      std::memcpy(&value, program.executor().output(1).data() + row * 4, 4);
      ASSERT_EQ(std::memcmp(&value, &want.value, 4), 0)
          << "round " << round << " row " << row << ": " << value << ", not "
          << want.value;
    }
  }
}

/// An element of a type from a small number, and back.
std::vector<std::byte> element(const std::string& type, double value) {
  std::vector<std::byte> bytes(type == "f64"                    ? 8
                               : type == "f32" || type == "s32" ? 4
                                                                : 2);
  const auto single = static_cast<float>(value);
  const auto whole = std::isnan(value) ? 0 : static_cast<int32_t>(value);
  const auto bits = std::bit_cast<uint32_t>(single);
  // Exact: few bits. Of f16 the exponent is counted from another place.
  const auto half = static_cast<uint16_t>(
      type == "bf16" ? bits >> 16
      : std::isnan(value)
          ? 0x7e00
          : (bits >> 16 & 0x8000) |
                (value == 0 ? 0 : (bits >> 13 & 0x3ffff) - (112 << 10)));
  const void* from = type == "f64"   ? static_cast<const void*>(&value)
                     : type == "f32" ? static_cast<const void*>(&single)
                     : type == "s32" ? static_cast<const void*>(&whole)
                                     : static_cast<const void*>(&half);
  std::memcpy(bytes.data(), from, bytes.size());
  return bytes;
}

TEST(ExtremeIndex, IsFoundAmongValuesOfAnyType) {
  std::mt19937 random(9);
  for (const std::string type : {"f32", "f64", "s32", "bf16", "f16"}) {
    for (int round = 0; round < 12; ++round) {
      const int dimension = round % 3;
      const bool most = round % 2 == 0;
      std::string text = program_text(dimension, most, true);
      for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos;
           at += type.size())
        text.replace(at, 3, type);
      const std::string least = most ? "constant(-inf)" : "constant(inf)";
      text.replace(text.find(least), least.size(),
                   most ? "constant(-100)" : "constant(100)");
      TextProgram program(text, round % 5 == 0 ? 2 : 1);
      std::vector<double> x(3 * 70 * 5);
      const size_t bytes = element(type, 0).size();
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<double>(random() % 16) - 7;
        if (round % 4 == 3 && type != "s32" && random() % 60 == 0)
          x[i] = std::nan("");
        std::memcpy(program.executor().parameter(0).data() + i * bytes,
                    element(type, x[i]).data(), bytes);
        const auto index = static_cast<int32_t>(i % 90);
        std::memcpy(program.executor().parameter(1).data() + i * 4, &index, 4);
      }
      ASSERT_TRUE(program.executor().run_step(0));
      const int64_t inner = dimension == 0 ? 350 : dimension == 1 ? 5 : 1;
      const int64_t extent = kReducedExtents[dimension];
      for (int64_t row = 0; row < std::ssize(x) / extent; ++row) {
        PickedPair want{most ? -100.0F : 100.0F, 0};
        for (int64_t j = 0; j < extent; ++j) {
          const auto at = static_cast<size_t>(
              (row / inner * extent + j) * inner + row % inner);
          want = picked(
              want, {static_cast<float>(x[at]), static_cast<int32_t>(at % 90)},
              most);
        }
        const std::byte* index = program.executor().output(0).data() + row * 4;
        const std::byte* value = program.executor().output(1).data() +
                                 static_cast<size_t>(row) * bytes;
        EXPECT_EQ(std::memcmp(index, &want.index, 4), 0) << type << row;
        if (std::isnan(want.value)) continue;
        EXPECT_EQ(std::memcmp(value, element(type, want.value).data(), bytes),
                  0)
            << type << " row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace reprise
