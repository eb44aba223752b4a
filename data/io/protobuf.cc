// Source: "Encoding" of the Protocol Buffers documentation. A varint is at most
// ten bytes; a length that reaches beyond its message is damage and ends the
// walk, so that no length of a file sizes anything.
#include "data/io/protobuf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace reprise {
namespace {

constexpr int kMaxVarintBytes = 10;

/// `size` little-endian bytes.
uint64_t fixed(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  }
  return value;
}

}  // namespace

int32_t ProtoField::as_int32() const {
  return static_cast<int32_t>(static_cast<uint32_t>(value));
}

int64_t ProtoField::as_zigzag() const {
  return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

double ProtoField::as_double() const {
  if (type == WireType::kFixed64) return std::bit_cast<double>(value);
  if (type != WireType::kFixed32) return 0;
  return static_cast<double>(
      std::bit_cast<float>(static_cast<uint32_t>(value)));
}

std::optional<uint64_t> read_varint(std::string_view bytes, size_t& at) {
  uint64_t value = 0;
  size_t i = at;
  for (int n = 0; n < kMaxVarintBytes && i < bytes.size(); ++n, ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * n);
    if (byte < 0x80) {
      at = i + 1;
      return value;
    }
  }
  return std::nullopt;
}

const ProtoField* ProtoCursor::fail(std::string_view what) {
  damage_ = what;
  return nullptr;
}

bool ProtoCursor::read_value(size_t& at) {
  switch (field_.type) {
    case WireType::kVarint: {
      const std::optional<uint64_t> value = read_varint(message_, at);
      field_.value = value.value_or(0);
      return value.has_value();
    }
    case WireType::kFixed64:
    case WireType::kFixed32: {
      const size_t size = field_.type == WireType::kFixed64 ? 8 : 4;
      if (message_.size() - at < size) return false;
      field_.value = fixed(message_.substr(at, size));
      at += size;
      return true;
    }
    case WireType::kBytes: {
      const std::optional<uint64_t> size = read_varint(message_, at);
      if (!size || *size > message_.size() - at) return false;
      field_.bytes = message_.substr(at, *size);
      at += *size;
      return true;
    }
  }
  return false;
}

const ProtoField* ProtoCursor::next() {
  if (damaged() || at_ == message_.size()) return nullptr;
  size_t at = at_;
  const std::optional<uint64_t> key = read_varint(message_, at);
  if (!key) return fail("no field key");
  const uint64_t number = *key >> 3;
  if (number == 0 || number >= uint64_t{1} << 29) {
    return fail("no such field number");
  }
  const auto type = static_cast<uint8_t>(*key & 7);
  if (type != 0 && type != 1 && type != 2 && type != 5) {
    return fail("no such wire type");
  }
  field_ = {static_cast<uint32_t>(number), static_cast<WireType>(type), 0, {}};
  if (!read_value(at)) return fail("the field does not end in its message");
  at_ = at;
  return &field_;
}

std::string ProtoCursor::damage() const {
  return damaged() ? fmt::format("byte {}: {}", at_, damage_) : std::string();
}

ProtoMessage::ProtoMessage(std::string_view message) {
  ProtoCursor cursor(message);
  while (const ProtoField* field = cursor.next()) fields_.push_back(*field);
  damaged_ = cursor.damaged();
}

const ProtoField* ProtoMessage::find(uint32_t number) const {
  for (auto field = fields_.rbegin(); field != fields_.rend(); ++field) {
    if (field->number == number) return &*field;
  }
  return nullptr;
}

uint32_t ProtoMessage::largest_field() const {
  uint32_t largest = 0;
  for (const ProtoField& field : fields_) {
    largest = std::max(largest, field.number);
  }
  return largest;
}

int64_t ProtoMessage::integer(uint32_t number, int64_t fallback) const {
  const ProtoField* field = find(number);
  return field == nullptr ? fallback : field->as_int64();
}

double ProtoMessage::real(uint32_t number) const {
  const ProtoField* field = find(number);
  return field == nullptr ? 0 : field->as_double();
}

std::string_view ProtoMessage::bytes(uint32_t number) const {
  const ProtoField* field = find(number);
  return field == nullptr ? std::string_view() : field->bytes;
}

std::vector<int64_t> ProtoMessage::integers(uint32_t number) const {
  std::vector<int64_t> values;
  for (const ProtoField& field : fields_) {
    if (field.number == number) append_integers(field, values);
  }
  return values;
}

std::vector<std::string_view> ProtoMessage::all_bytes(uint32_t number) const {
  std::vector<std::string_view> values;
  for (const ProtoField& field : fields_) {
    if (field.number == number) values.push_back(field.bytes);
  }
  return values;
}

bool append_integers(const ProtoField& field, std::vector<int64_t>& values) {
  if (field.type != WireType::kBytes) {
    values.push_back(field.as_int64());
    return true;
  }
  for (size_t at = 0; at < field.bytes.size();) {
    const std::optional<uint64_t> value = read_varint(field.bytes, at);
    if (!value) return false;
    values.push_back(static_cast<int64_t>(*value));
  }
  return true;
}

}  // namespace reprise
