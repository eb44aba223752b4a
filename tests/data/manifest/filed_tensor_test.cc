#include "data/manifest/filed_tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace reprise {
namespace {

TensorEntry entry(std::optional<PrimitiveType> type, std::string_view bytes) {
  TensorEntry tensor;
  tensor.type = type;
  tensor.element_bytes = 1;
  tensor.dimensions = {static_cast<int64_t>(bytes.size())};
  tensor.bytes = bytes;
  return tensor;
}

std::string complaint(std::optional<PrimitiveType> type, PrimitiveType wanted) {
  return tensor_complaint(entry(type, "\x07\xf8"), wanted, {2});
}

TEST(FiledTensor, HoldsNarrowTypesByTheirNamesOrAsRawBytes) {
  for (const PrimitiveType type :
       {PrimitiveType::kF8E4M3FN, PrimitiveType::kF8E5M2}) {
    EXPECT_EQ(complaint(type, type), "");
    EXPECT_EQ(complaint(std::nullopt, type), "");
    EXPECT_NE(complaint(PrimitiveType::kU8, type), "");
  }
  EXPECT_EQ(complaint(PrimitiveType::kF8E5M2, PrimitiveType::kF8E4M3FN),
            " is f8e5m2[2], the program's is f8e4m3fn[2]");
  EXPECT_EQ(complaint(PrimitiveType::kS8, PrimitiveType::kS4), "");
  EXPECT_EQ(complaint(std::nullopt, PrimitiveType::kU4), "");
  EXPECT_EQ(complaint(PrimitiveType::kU8, PrimitiveType::kS4),
            " is u8[2], the program's is s4[2], as s8");
  EXPECT_EQ(complaint(PrimitiveType::kU8, PrimitiveType::kF8E8M0FNU), "");
  EXPECT_EQ(complaint(PrimitiveType::kF8E4M3FN, PrimitiveType::kF8E4M3),
            " is f8e4m3fn[2], the program's is f8e4m3[2], as u8");
  EXPECT_NE(tensor_complaint(entry(PrimitiveType::kS8, "\x01"),
                             PrimitiveType::kS4, {2}),
            "");
}

TEST(FiledTensor, NamesWhatIsBeyondItsBits) {
  EXPECT_EQ(complaint(PrimitiveType::kU8, PrimitiveType::kU4),
            " has 248 as element 1, which no u4 is");
  EXPECT_EQ(tensor_complaint(entry(PrimitiveType::kS8, "\xf8\x08"),
                             PrimitiveType::kS4, {2}),
            " has 8 as element 1, which no s4 is");
  EXPECT_EQ(tensor_complaint(entry(PrimitiveType::kS8, "\xfe\x02"),
                             PrimitiveType::kS2, {2}),
            " has 2 as element 1, which no s2 is");
  EXPECT_EQ(complaint(PrimitiveType::kU8, PrimitiveType::kF4E2M1FN),
            " has 248 as element 1, which no f4e2m1fn is");
}

// Raw bytes of ml_dtypes, where -8 is 8: what a program has are signed bytes.
TEST(FiledTensor, GivesRawIntegersTheirSigns) {
  const TensorEntry tensor = entry(std::nullopt, "\x07\x08\xf8\x0f");
  std::array<std::byte, 3> out{};
  copy_elements(tensor, PrimitiveType::kS4, 1, out);
  EXPECT_EQ(std::to_integer<int>(out[0]), 0xf8);
  EXPECT_EQ(std::to_integer<int>(out[1]), 0xf8);
  EXPECT_EQ(std::to_integer<int>(out[2]), 0xff);
  copy_elements(tensor, PrimitiveType::kU4, 1, out);
  EXPECT_EQ(std::to_integer<int>(out[1]), 8);
  copy_elements(tensor, PrimitiveType::kF8E5M2, 1, out);
  EXPECT_EQ(std::to_integer<int>(out[1]), 0xf8);
}

}  // namespace
}  // namespace reprise
