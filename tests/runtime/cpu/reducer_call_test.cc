// Reducers of more than one operation, against one element after the other:
// whatever is reduced, however many results there are, by windows inside and
// across borders, along a scan, and with an index beside the value.
#include "runtime/cpu/reducer_call.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

/// In which order it takes its elements shows, and each result is exact.
constexpr const char* kReducer = R"(HloModule m
mix {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  half = f32[] constant(0.5)
  c = f32[] multiply(a, half)
  ROOT r = f32[] add(c, b)
}
)";
float mixed(float a, float b) { return a * 0.5F + b; }

constexpr int64_t kMixedExtents[] = {6, 35, 5};

std::vector<float> drawn() {
  std::mt19937 random(3);
  std::vector<float> values(6 * 35 * 5);
  for (float& value : values) value = static_cast<float>(random() % 64) / 4 - 8;
  return values;
}

std::vector<float> run(const std::string& entry,
                       const std::vector<float>& input, size_t results) {
  TextProgram program(kReducer + entry);
  std::memcpy(program.executor().parameter(0).data(), input.data(),
              input.size() * sizeof(float));
  EXPECT_TRUE(program.executor().run_step(0));
  std::vector<float> made(results);
  std::memcpy(made.data(), program.executor().output(0).data(),
              results * sizeof(float));
  return made;
}

/// Calls `visit(index, place)` with each element, in row-major order.
template <typename Visit>
void each_element(const Visit& visit) {
  size_t place = 0;
  for (int64_t i = 0; i < kMixedExtents[0]; ++i) {
    for (int64_t j = 0; j < kMixedExtents[1]; ++j) {
      for (int64_t k = 0; k < kMixedExtents[2]; ++k)
        visit(std::array<int64_t, 3>{i, j, k}, place++);
    }
  }
}

TEST(ReducerCall, ReducesAlongAnyDimensionsInOrder) {
  const std::vector<float> input = drawn();
  for (unsigned reduced = 1; reduced < 8; ++reduced) {
    std::string dimensions, shape;
    size_t results = 1;
    for (unsigned d = 0; d < 3; ++d) {
      std::string& list = (reduced >> d & 1) != 0 ? dimensions : shape;
      const auto extent = static_cast<size_t>(kMixedExtents[d]);
      list += (list.empty() ? "" : ",") +
              std::to_string(&list == &shape ? extent : d);
      if (&list == &shape) results *= extent;
    }
    const auto made =
        run(fmt::format("ENTRY main {{\n  x = f32[6,35,5] parameter(0)\n"
                        "  one = f32[] constant(1)\n  ROOT r = f32[{}] "
                        "reduce(x, one), dimensions={{{}}}, to_apply=mix\n}}\n",
                        shape, dimensions),
            input, results);
    std::vector<float> want(results, 1);
    each_element([&](const auto& index, size_t place) {
      size_t to = 0;
      for (unsigned d = 0; d < 3; ++d) {
        if ((reduced >> d & 1) == 0)
          to = to * static_cast<size_t>(kMixedExtents[d]) +
               static_cast<size_t>(index[d]);
      }
      want[to] = mixed(want[to], input[place]);
    });
    EXPECT_EQ(made, want) << dimensions;
  }
}

/// Of the middle dimension.
struct TestWindow {
  int64_t size, stride, low, high, dilation, base;
};

TEST(ReducerCall, ReducesWindowsInsideAndAcrossBorders) {
  const std::vector<float> input = drawn();
  for (const TestWindow& w :
       {TestWindow{3, 1, 0, 0, 1, 1}, TestWindow{4, 2, 1, 3, 1, 1},
        TestWindow{3, 1, 2, 2, 4, 1}, TestWindow{3, 2, 1, 1, 1, 2},
        TestWindow{35, 1, 34, 0, 1, 1}}) {
    const int64_t dilated = (kMixedExtents[1] - 1) * w.base + 1;
    const int64_t count =
        (dilated + w.low + w.high - (w.size - 1) * w.dilation - 1) / w.stride +
        1;
    const auto made = run(
        fmt::format("ENTRY main {{\n  x = f32[6,35,5] parameter(0)\n"
                    "  one = f32[] constant(1)\n  ROOT r = f32[6,{},5] "
                    "reduce-window(x, one), window={{size=1x{}x1 "
                    "stride=1x{}x1 pad=0_0x{}_{}x0_0 lhs_dilate=1x{}x1 "
                    "rhs_dilate=1x{}x1}}, to_apply=mix\n}}\n",
                    count, w.size, w.stride, w.low, w.high, w.base, w.dilation),
        input, static_cast<size_t>(6 * count * 5));
    size_t place = 0;
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t at = 0; at < count; ++at) {
        for (int64_t k = 0; k < 5; ++k) {
          float want = 1;
          for (int64_t tap = 0; tap < w.size; ++tap) {
            const int64_t from = at * w.stride + tap * w.dilation - w.low;
            if (from < 0 || from % w.base != 0 ||
                from / w.base >= kMixedExtents[1])
              continue;
            want = mixed(
                want,
                input[static_cast<size_t>((i * 35 + from / w.base) * 5 + k)]);
          }
          ASSERT_EQ(made[place++], want)
              << w.size << ", " << w.stride << " at " << i << ", " << at;
        }
      }
    }
  }
}

// Two arrays of two types, of which the reducer reads both.
constexpr const char* kFarthest = R"(HloModule m
farthest {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  x = f32[] abs(a)
  y = f32[] abs(b)
  keeps = pred[] compare(x, y), direction=GE
  value = f32[] select(keeps, a, b)
  index = s32[] select(keeps, i, j)
  ROOT t = (f32[], s32[]) tuple(value, index)
}}
ENTRY main {{
  x = f32[6,35,5] parameter(0)
  n = s32[6,35,5] iota(), iota_dimension=1
  zero = f32[] constant(0)
  none = s32[] constant(-1)
  {}r = (f32[6,5], s32[6,5]) reduce(x, n, zero, none), dimensions={{1}}, to_apply=farthest
{}}}
)";

void expect_farthest(bool reads_values) {
  const std::vector<float> input = drawn();
  TextProgram program(fmt::format(
      kFarthest, reads_values ? "ROOT " : "",
      reads_values ? ""
                   : "  index = s32[6,5] get-tuple-element(r), index=1\n"
                     "  ROOT t = (s32[6,5]) tuple(index)\n"));
  std::memcpy(program.executor().parameter(0).data(), input.data(),
              input.size() * sizeof(float));
  ASSERT_TRUE(program.executor().run_step(0));
  for (size_t row = 0; row < 30; ++row) {
    float want = 0;
    int32_t index = -1;
    for (size_t j = 0; j < 35; ++j) {
      const float value = input[(row / 5 * 35 + j) * 5 + row % 5];
      if (std::fabs(want) >= std::fabs(value)) continue;
      want = value;
      index = static_cast<int32_t>(j);
    }
    float value = want;
    int32_t at = 0;
    const size_t place = row * 4;
    if (reads_values)
      std::memcpy(&value, program.executor().output(0).data() + place, 4);
    std::memcpy(
        &at, program.executor().output(reads_values ? 1 : 0).data() + place, 4);
    EXPECT_EQ(value, want) << row;
    EXPECT_EQ(at, index) << row;
  }
}

TEST(ReducerCall, ReducesPairs) { expect_farthest(true); }
TEST(ReducerCall, ReducesPairsOfWhichOneIsRead) { expect_farthest(false); }

}  // namespace
}  // namespace reprise
