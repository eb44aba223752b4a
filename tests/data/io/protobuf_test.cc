#include "data/io/protobuf.h"

#include <gtest/gtest.h>

#include <limits>

#include "data/io/proto_writer.h"

namespace reprise {
namespace {

TEST(Protobuf, ReadsEveryWireTypeInOrder) {
  const std::string text = ProtoWriter()
                               .varint(1, 300)
                               .bytes(2, "name")
                               .real(3, -2.5)
                               .fixed32(4, 0x40200000)  // 2.5f
                               .varint(1000, ~uint64_t{0})
                               .text();
  ProtoCursor cursor(text);
  const ProtoField* field = cursor.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->number, 1u);
  EXPECT_EQ(field->as_uint64(), 300u);
  EXPECT_TRUE(field->bytes.empty());
  field = cursor.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->bytes, "name");
  EXPECT_EQ(field->value, 0u);
  field = cursor.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->as_double(), -2.5);
  field = cursor.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->as_double(), 2.5);
  field = cursor.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->number, 1000u);
  EXPECT_EQ(field->as_int64(), -1);
  EXPECT_EQ(field->as_int32(), -1);
  EXPECT_EQ(field->as_zigzag(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(cursor.next(), nullptr);
  EXPECT_FALSE(cursor.damaged());
}

TEST(Protobuf, EveryPrefixEndsOrIsDamagedButNeverReadsBeyond) {
  const std::string text = ProtoWriter()
                               .varint(1, 1 << 20)
                               .bytes(2, std::string(200, 'x'))
                               .fixed64(3, 7)
                               .fixed32(4, 7)
                               .text();
  // Whole fields end at 0, 4, 4 + 203, 207 + 9 and 216 + 5 bytes.
  for (size_t size = 0; size <= text.size(); ++size) {
    ProtoCursor cursor(std::string_view(text).substr(0, size));
    size_t end = 0;
    while (cursor.next()) end = cursor.offset();
    const bool whole =
        size == 0 || size == 4 || size == 207 || size == 216 || size == 221;
    EXPECT_EQ(cursor.damaged(), !whole) << size;
    EXPECT_EQ(cursor.offset(), end) << size;
  }
}

TEST(Protobuf, NamesTheDamagedByte) {
  const std::string sound = ProtoWriter().varint(1, 1).text();
  const auto damage = [&](std::string_view tail) {
    const std::string text = sound + std::string(tail);
    ProtoCursor cursor(text);
    while (cursor.next()) {
    }
    return cursor.damage();
  };
  EXPECT_EQ(damage("\x0f"), "byte 2: no such wire type");     // 7
  EXPECT_EQ(damage("\x0b"), "byte 2: no such wire type");     // a group
  EXPECT_EQ(damage("\x05"), "byte 2: no such field number");  // 0
  EXPECT_EQ(damage("\xff"), "byte 2: no field key");          // cut varint
  EXPECT_EQ(damage("\x12\x7f"),
            "byte 2: the field does not end in its message");
  // A length of 2^63 or so must not wrap around.
  EXPECT_EQ(damage("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "byte 2: the field does not end in its message");
  // Eleven bytes of varint.
  EXPECT_EQ(damage(std::string("\x08") + std::string(10, '\x80') + '\x01'),
            "byte 2: the field does not end in its message");
}

TEST(Protobuf, RepeatedNumbersComePackedOrOneByOne) {
  const std::string text = ProtoWriter()
                               .bytes(1, ProtoWriter()
                                             .raw_varint(1)
                                             .raw_varint(300)
                                             .raw_varint(~uint64_t{0})
                                             .text())
                               .varint(1, 5)
                               .bytes(1, "\x80")  // cut
                               .text();
  ProtoCursor cursor(text);
  std::vector<int64_t> values;
  EXPECT_TRUE(append_integers(*cursor.next(), values));
  EXPECT_TRUE(append_integers(*cursor.next(), values));
  EXPECT_EQ(values, (std::vector<int64_t>{1, 300, -1, 5}));
  EXPECT_FALSE(append_integers(*cursor.next(), values));
}

}  // namespace
}  // namespace reprise
