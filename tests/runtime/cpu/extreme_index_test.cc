// argmax and argmin as JAX writes them, against the reducer applied to one
// element after the other: ties, zeros of both signs, infinities and NaN, along
// every dimension, with indices in any order, by one thread and by two.
#include <fmt/format.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace reprise
