// Sorts by keys against the same sorts by comparisons: each comparator is also
// written so that no key is found in it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "data/element.h"
#include "runtime/cpu/row_order.h"
#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

/// Two arrays, compared by the one of number `keyed`.
struct SortText {
  std::string type = "f32";
  std::string direction = "LT", order = ", type=TOTALORDER";
  int dimension = 1, keyed = 0;
  std::string x = "x", y = "y";  ///< What is compared.
  std::string ops = {};          ///< That make them.
  bool plain = false;            ///< Through a select, which hides the key.
  bool nans = true;              ///< Some of the elements.
  std::string extents = "6,37";

  std::string text() const {
    const std::string array = type + "[" + extents + "]";
    const std::string result = fmt::format("({0}, {0})", array);
    const int first = 2 * keyed, other = 2 - first;
    return fmt::format(
        R"(HloModule m
less {{
  x = {type}[] parameter({first})
  y = {type}[] parameter({second})
  u = {type}[] parameter({third})
  v = {type}[] parameter({fourth})
{ops}  less = pred[] compare({x}, {y}), direction={direction}{order}
  no = pred[] constant(false)
  yes = pred[] constant(true)
  hidden = pred[] select(less, yes, no)
  ROOT r = pred[] copy({root})
}}
ENTRY main {{
  a = {array} parameter(0)
  b = {array} parameter(1)
  sorted = {result} sort(a, b), dimensions={{{dimension}}}, to_apply=less
  p = {array} get-tuple-element(sorted), index=0
  q = {array} get-tuple-element(sorted), index=1
  ROOT t = {result} tuple(p, q)
}}
)",
        fmt::arg("type", type), fmt::arg("array", array),
        fmt::arg("result", result), fmt::arg("first", first),
        fmt::arg("second", first + 1), fmt::arg("third", other),
        fmt::arg("fourth", other + 1), fmt::arg("ops", ops), fmt::arg("x", x),
        fmt::arg("y", y), fmt::arg("direction", direction),
        fmt::arg("order", order), fmt::arg("dimension", dimension),
        fmt::arg("root", plain ? "hidden" : "less"));
  }
};

struct Sorted {
  size_t callees = 0;
  std::vector<std::string> arrays;
};

/// Elements drawn from few values, so that many are equal, zeros of both signs
/// and NaNs of both among those of floats.
void fill(PrimitiveType type, uint32_t seed, bool nans,
          std::span<std::byte> bytes) {
  std::mt19937 random(seed);
  const auto width = static_cast<size_t>(primitive_type_bits(type)) / 8;
  const std::array<uint64_t, 12> tops = {0x0000, 0x8000, 0x3F80, 0xBF80,
                                         0x7FC0, 0xFFC0, 0x7F80, 0xFF80,
                                         0x0001, 0x4000, 0xC000, 0x4100};
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    uint64_t top = tops.at(random() % tops.size());
    if (!nans && (top & 0x7FC0) == 0x7FC0) top = 0x3FC0;
    const uint64_t element = top << (width > 2 ? 8 * (width - 2) : 0);
    std::memcpy(bytes.data() + at, &element, width);
  }
}

Sorted run(const SortText& sort, size_t threads) {
  TextProgram program(sort.text(), threads);
  Executor& executor = program.executor();
  Sorted sorted;
  for (const Unit& unit : program.schedule().units)
    sorted.callees = std::max(sorted.callees, unit.routine.callees.size());
  const PrimitiveType type = *primitive_type_from_name(sort.type);
  for (uint32_t n = 0; n < 2; ++n)
    fill(type, n + 1, sort.nans, executor.parameter(n));
  EXPECT_TRUE(executor.run_step(0));
  for (int64_t k = 0; k < 2; ++k) {
    const auto bytes = executor.output(k);
    sorted.arrays.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                               bytes.size());
  }
  return sorted;
}

void expect_same(SortText sort) {
  SCOPED_TRACE(fmt::format("nans {} {}", sort.nans, sort.text()));
  sort.plain = true;
  const Sorted compared = run(sort, 1);
  sort.plain = false;
  const Sorted keyed = run(sort, 1), shared = run(sort, 3);
  EXPECT_EQ(compared.callees, 1U);
  EXPECT_EQ(keyed.callees, 2U);
  EXPECT_EQ(keyed.arrays, compared.arrays);
  EXPECT_EQ(shared.arrays, compared.arrays);
}

// Rows of two calls of 64 keys and some more, side by side and apart.
TEST(SortByKeys, IsTheSortByComparisons) {
  for (const char* type : {"f32", "bf16", "f16", "f64", "s32", "u32", "s8",
                           "u8", "s16", "u16", "s64", "u64"}) {
    for (const char* direction : {"LT", "GT"}) {
      for (const int dimension : {0, 1}) {
        const std::string order =
            std::string(type).find('f') == std::string::npos
                ? ""
                : ", type=TOTALORDER";
        expect_same({.type = type,
                     .direction = direction,
                     .order = order,
                     .dimension = dimension,
                     .keyed = dimension,
                     .extents = dimension == 0 ? "133,5" : "5,133"});
      }
    }
  }
}

/// Zeros of both signs are equal then, and rows with a NaN have no order.
TEST(SortByKeys, ComparesFloatsAsTheyAreWrittenInPrograms) {
  for (const char* type : {"f32", "bf16", "f16", "f64"}) {
    for (const char* direction : {"LT", "GT"}) {
      for (const bool nans : {false, true}) {
        expect_same(
            {.type = type, .direction = direction, .order = "", .nans = nans});
      }
    }
  }
}

/// As XLA expands a total order that takes zeros for one and NaNs for one.
TEST(SortByKeys, ComparesWhatAFunctionMakesOfAnElement) {
  std::string ops = "  nan = f32[] constant(nan)\n  zero = f32[] constant(0)\n";
  for (const std::string side : {"x", "y"}) {
    ops += fmt::format(
        R"(  is_nan.{0} = pred[] compare({0}, {0}), direction=NE
  is_zero.{0} = pred[] compare({0}, zero), direction=EQ
  no_sign.{0} = f32[] select(is_zero.{0}, zero, {0})
  plain.{0} = f32[] select(is_nan.{0}, nan, no_sign.{0})
  bits.{0} = s32[] bitcast-convert(plain.{0})
  none.{0} = s32[] constant(0)
  below.{0} = pred[] compare(bits.{0}, none.{0}), direction=LT
  most.{0} = s32[] constant(2147483647)
  turned.{0} = s32[] xor(most.{0}, bits.{0})
  key.{0} = s32[] select(below.{0}, turned.{0}, bits.{0})
)",
        side);
  }
  for (const char* direction : {"LT", "GT"}) {
    expect_same({.direction = direction,
                 .order = "",
                 .x = "key.x",
                 .y = "key.y",
                 .ops = ops});
  }
}

// A top-k as JAX writes it. Of rows with a NaN all are sorted.
TEST(SortByKeys, PutsInPlaceWhatIsRead) {
  for (const bool nans : {false, true}) {
    SortText sort{.order = "", .nans = nans};
    const Sorted whole = run(sort, 1);
    std::string text = sort.text();
    text.replace(text.find("  ROOT t ="), std::string::npos,
                 R"(  x = f32[6,5] slice(p), slice={[0:6], [0:5]}
  y = f32[6,3] slice(q), slice={[0:6], [0:3]}
  ROOT t = (f32[6,5], f32[6,3]) tuple(x, y)
}
)");
    TextProgram program(text, 1);
    Executor& executor = program.executor();
    for (const Unit& unit : program.schedule().units) {
      if (unit.routine.callees.empty()) continue;
      EXPECT_EQ(unit.routine.first_read, 5);
    }
    for (uint32_t n = 0; n < 2; ++n)
      fill(PrimitiveType::kF32, n + 1, nans, executor.parameter(n));
    ASSERT_TRUE(executor.run_step(0));
    for (size_t k = 0; k < 2; ++k) {
      const size_t bytes = (k == 0 ? 5 : 3) * sizeof(float);
      const auto output = executor.output(static_cast<int64_t>(k));
      for (size_t row = 0; row < 6; ++row) {
        EXPECT_EQ(std::memcmp(output.data() + row * bytes,
                              whole.arrays[k].data() + row * 37 * sizeof(float),
                              bytes),
                  0);
      }
    }
  }
}

// What is sliced is a view of another shape: rows of it lie far apart.
TEST(SortByKeys, PutsAllInPlaceWhereViewsAreSliced) {
  SortText sort{.order = "", .dimension = 0, .nans = false};
  const Sorted whole = run(sort, 1);
  std::string text = sort.text();
  text.replace(text.find("  ROOT t ="), std::string::npos,
               R"(  v = f32[2,3,37] reshape(p)
  ROOT x = f32[1,3,37] slice(v), slice={[1:2], [0:3], [0:37]}
}
)");
  TextProgram program(text, 1);
  Executor& executor = program.executor();
  for (uint32_t n = 0; n < 2; ++n)
    fill(PrimitiveType::kF32, n + 1, false, executor.parameter(n));
  ASSERT_TRUE(executor.run_step(0));
  constexpr size_t kBytes = sizeof(float) * 3 * 37;
  EXPECT_EQ(std::memcmp(executor.output(0).data(),
                        whole.arrays[0].data() + kBytes, kBytes),
            0);
}

// Of many, a few: random, all alike, and the worst order, each better than
// those before.
TEST(RowOrder, PutsTheFirstOfManyInOrder) {
  std::mt19937 random(11);
  for (const PrimitiveType type : {PrimitiveType::kF32, PrimitiveType::kBF16,
                                   PrimitiveType::kS8, PrimitiveType::kF64}) {
    const size_t bytes = static_cast<size_t>(primitive_type_bits(type)) / 8;
    for (const size_t count : {100, 555, 4096}) {
      for (const char* kind : {"random", "alike", "falling"}) {
        std::vector<std::byte> keys(count * bytes);
        for (size_t i = 0; i < count; ++i) {
          const double value =
              kind[0] == 'r'   ? static_cast<double>(random() % 90)
              : kind[0] == 'a' ? 7.0
                               : 50.0 - 0.02 * static_cast<double>(i);
          store_element(type, value, keys.data() + i * bytes);
        }
        for (const bool is_descending : {false, true}) {
          RowOrder whole(count, type, {.is_descending = is_descending});
          ASSERT_TRUE(whole.set_keys(keys.data()));
          whole.sort(count);
          for (const size_t first : {0, 1, 2, 9, 64}) {
            RowOrder part(count, type, {.is_descending = is_descending});
            ASSERT_TRUE(part.set_keys(keys.data()));
            part.sort(first);
            for (size_t i = 0; i < first; ++i)
              ASSERT_EQ(part[i], whole[i]) << kind << " " << count << " " << i;
          }
        }
      }
    }
  }
}

TEST(SortByKeys, OtherComparatorsHaveNone) {
  EXPECT_EQ(run({.direction = "LE"}, 1).callees, 1U);
  // What is compared is not one function of both.
  EXPECT_EQ(
      run({.x = "other", .ops = "  other = f32[] negate(x)\n"}, 1).callees, 1U);
  // Of the other element, or of two arrays.
  EXPECT_EQ(run({.x = "y", .y = "x"}, 1).callees, 1U);
  EXPECT_EQ(run({.x = "xu",
                 .y = "yv",
                 .ops = "  xu = f32[] add(x, u)\n  yv = f32[] add(y, v)\n"},
                1)
                .callees,
            1U);
  EXPECT_EQ(run({.y = "v"}, 1).callees, 1U);
}

}  // namespace
}  // namespace reprise
