#include "data/io/printable_text.h"

#include <gtest/gtest.h>

#include "data/io/json_tree.h"

namespace reprise {
namespace {

TEST(PrintableText, EscapesWhatActsOnATerminal) {
  EXPECT_EQ(printable_text("a\x1b[2J\x7f\n\tb"), R"(a\x1b[2J\x7f\n\tb)");
  // U+009B, CSI of C1; U+202E, right to left; U+2067, an isolate.
  EXPECT_EQ(printable_text("\xc2\x9b \xe2\x80\xae \xe2\x81\xa7"),
            R"(\x9b \u202e \u2067)");
  EXPECT_EQ(printable_text("\xff\xc2"), R"(\xff\xc2)");
  EXPECT_EQ(printable_text("größer → \\n"), "größer → \\n");
  EXPECT_EQ(printable_lines("a\nb\x07"), "a\nb\\x07");
  EXPECT_EQ(printable_json("{\"a\": \"\xc2\x85\x7f\"}\n"),
            "{\"a\": \"\\u0085\\u007f\"}\n");
}

TEST(CsvField, IsNoFormula) {
  EXPECT_EQ(csv_field("=1+1"), "'=1+1");
  EXPECT_EQ(csv_field("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0");
  EXPECT_EQ(csv_field("-1+2"), "'-1+2");
  EXPECT_EQ(csv_field("@SUM(A1,A2)"), "\"'@SUM(A1,A2)\"");
  EXPECT_EQ(csv_field("\t=1"), "'\t=1");
  EXPECT_EQ(csv_field("\r=1"), "\\x0d=1");
}

TEST(CsvField, LeavesNumbersAndText) {
  for (const char* text : {"-1", "+1.5e-3", "-12.5 ms", "+4.0 %", "-1.2e3 B/s",
                           "-", "void gemm<=1>", "a=b", ""}) {
    EXPECT_EQ(csv_field(text), text);
  }
  EXPECT_EQ(csv_field("say \"hi\"\nb"), "\"say \"\"hi\"\"\nb\"");
}

TEST(JsonTree, IsBoundedInDepthOutsideOfStrings) {
  const std::string deep(100, '[');
  const auto refused = parse_json(deep, "f");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "f: nests deeper than 64 levels at byte 64");
  const auto text = parse_json("[\"\\\"" + deep + "\"]", "f");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ((*text)[0], "\"" + deep);
  EXPECT_TRUE(parse_json_or_discard(deep).is_discarded());
}

TEST(JsonTree, NamesFileAndLine) {
  const auto cut = parse_json("{\n\"a\": ]", "f");
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().message, "f:2: not JSON at byte 8");
}

}  // namespace
}  // namespace reprise
