// Writes Protocol Buffers messages, field by field, in any order.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

class ProtoWriter {
 public:
  ProtoWriter& varint(uint32_t number, uint64_t value) {
    key(number, 0);
    raw_varint(value);
    return *this;
  }
  ProtoWriter& fixed64(uint32_t number, uint64_t value) {
    key(number, 1);
    raw_fixed(value, 8);
    return *this;
  }
  ProtoWriter& real(uint32_t number, double value) {
    return fixed64(number, std::bit_cast<uint64_t>(value));
  }
  ProtoWriter& fixed32(uint32_t number, uint32_t value) {
    key(number, 5);
    raw_fixed(value, 4);
    return *this;
  }
  ProtoWriter& bytes(uint32_t number, std::string_view value) {
    key(number, 2);
    raw_varint(value.size());
    text_ += value;
    return *this;
  }
  ProtoWriter& message(uint32_t number, const ProtoWriter& value) {
    return bytes(number, value.text_);
  }
  /// A varint or bytes without a key.
  ProtoWriter& raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      text_ += static_cast<char>(value | 0x80);
    }
    text_ += static_cast<char>(value);
    return *this;
  }

  /// Fields of another message of the same type.
  ProtoWriter& raw_bytes(std::string_view fields) {
    text_ += fields;
    return *this;
  }

  const std::string& text() const { return text_; }

 private:
  void key(uint32_t number, uint32_t type) { raw_varint(number << 3 | type); }
  void raw_fixed(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      text_ += static_cast<char>(value >> (8 * i));
    }
  }

  std::string text_;
};

}  // namespace reprise
