#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

Result<Module> parse(const std::string& shape, const std::string& literal) {
  return parse_hlo("HloModule m\n\nENTRY e {\n  ROOT k = " + shape +
                   " constant(" + literal + ")\n}\n");
}

double value(const std::string& shape, const std::string& literal) {
  const Result<Module> module = parse(shape, literal);
  EXPECT_TRUE(module) << module.error().message;
  if (!module) return 0;
  return literal_values(module->entry_computation().instructions[0])->at(0);
}

TEST(Literal, HoldsWhatItsTypeHolds) {
  struct Case {
    const char* shape;
    const char* least;
    const char* greatest;
    const char* too_small;
    const char* too_great;
  };
  for (const Case& one :
       {Case{"pred[]", "false", "1", "-1", "2"},
        Case{"s4[]", "-8", "7", "-9", "8"},
        Case{"u8[]", "0", "255", "-1", "256"},
        Case{"s32[]", "-2147483648", "2147483647", "-2147483649", "2147483648"},
        Case{"u32[]", "0", "4294967295", "-1", "4294967296"},
        Case{"s64[]", "-9223372036854775808", "9223372036854775807",
             "-9223372036854775809", "9223372036854775808"},
        Case{"u64[]", "0", "18446744073709551615", "-1",
             "18446744073709551616"}}) {
    EXPECT_TRUE(parse(one.shape, one.least)) << one.shape;
    EXPECT_TRUE(parse(one.shape, one.greatest)) << one.shape;
    for (const char* wrong : {one.too_small, one.too_great, "nan", "1e0", ""}) {
      EXPECT_FALSE(parse(one.shape, wrong)) << one.shape << " " << wrong;
    }
  }
  const Result<Module> refused = parse("s32[]", "1e3");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(
                "constant `k`: expected a number of type s32, found `1e3`"),
            std::string::npos)
      << refused.error().message;
}

TEST(Literal, KeepsIntegersBeyondADouble) {
  const Result<Module> module =
      parse("u64[2]", "{9007199254740993, 18446744073709551615}");
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(*literal_words(module->entry_computation().instructions[0]),
            (std::vector<std::string_view>{"9007199254740993",
                                           "18446744073709551615"}));
}

TEST(Literal, RoundsFloatsBeyondItsRange) {
  EXPECT_EQ(value("f64[]", "1e999"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value("f64[]", "-1e999"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(value("f64[]", "5e-324"),
            std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(value("f32[]", "-1e-400"), 0);
}

}  // namespace
}  // namespace reprise
