#include "data/io/decimal.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(Decimal, MicrosecondsAreNotRoundedThroughADouble) {
  EXPECT_EQ(parse_microseconds("1606910596297023"), 1606910596297023000);
  // 2^53 us is 9.0e15: here doubles are 0.25 us apart.
  EXPECT_EQ(parse_microseconds("1712195495505583.123"), 1712195495505583123);
  EXPECT_EQ(parse_microseconds("4458676522879.660"), 4458676522879660);
  EXPECT_EQ(parse_microseconds("0.02"), 20);
  EXPECT_EQ(parse_microseconds("68.0"), 68000);
  EXPECT_EQ(parse_microseconds("0"), 0);
  EXPECT_EQ(parse_microseconds("-1.5"), -1500);
}

TEST(Decimal, HalfANanosecondIsRoundedAwayFromZero) {
  EXPECT_EQ(parse_microseconds("0.0004999"), 0);
  EXPECT_EQ(parse_microseconds("0.0005"), 1);
  EXPECT_EQ(parse_microseconds("-0.0005"), -1);
  EXPECT_EQ(parse_microseconds("7.1234"), 7123);
  EXPECT_EQ(parse_microseconds("7.9995"), 8000);
  // 16 digits before the point: the one that decides is the 20th.
  EXPECT_EQ(parse_microseconds("1712195495505583.1236"), 1712195495505583124);
  EXPECT_FALSE(parse_microseconds("1.23x"));
  EXPECT_FALSE(parse_microseconds("1.2345x"));
  // As Python prints 0.1 + 0.2.
  EXPECT_EQ(parse_microseconds("0.30000000000000004"), 300);
}

TEST(Decimal, ExponentsAndQuotesAreRead) {
  EXPECT_EQ(parse_microseconds("1.7e15"), 1700000000000000000);
  EXPECT_EQ(parse_microseconds("25E-1"), 2500);
  EXPECT_EQ(parse_microseconds("\"12.5\""), 12500);
  EXPECT_EQ(parse_microseconds("1e-999999999999"), 0);
}

TEST(Decimal, WhatIsNoTimeIsRefused) {
  for (const char* text :
       {"", "-", ".", "inf", "-nan", "N/A", "null", "1x", "1e", "1.2.3", "0x10",
        "1e99", "4000000000000001", "99999999999999999999999",
        "1e999999999999999999999", "[1]"}) {
    EXPECT_FALSE(parse_microseconds(text)) << text;
  }
}

TEST(Decimal, IntegersBeyondInt64AreRefused) {
  EXPECT_EQ(parse_integer("42"), 42);
  EXPECT_EQ(parse_integer("\"4093687616\""), 4093687616);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const char* text : {"9223372036854775808", "10159970886766084423", "",
                           "-", "1.0", "0x0", "stream 7", "\"\""}) {
    EXPECT_FALSE(parse_integer(text)) << text;
  }
}

}  // namespace
}  // namespace reprise
