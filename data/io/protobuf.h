// The wire format of Protocol Buffers, read in place: a cursor over one
// message that copies nothing, allocates nothing and recurses nowhere. Who
// knows the message's fields opens a cursor of its own on a nested one.
// Unknown fields cost a look at their length. Groups (wire types 3 and 4,
// dropped from the format in 2008) count as damage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  ///< A string, a nested message or packed numbers.
  kFixed32 = 5,
};

/// One field as it stands on the wire. The getters read what the schema says
/// the field is; on another wire type numbers are 0 and bytes are empty.
struct ProtoField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      ///< Of a varint, fixed32 or fixed64.
  std::string_view bytes;  ///< Of kBytes; within the message.

  uint64_t as_uint64() const { return value; }
  int64_t as_int64() const { return static_cast<int64_t>(value); }
  /// The low 32 bits, as protobuf reads an int32 or enum.
  int32_t as_int32() const;
  bool as_bool() const { return value != 0; }
  int64_t as_zigzag() const;  ///< sint32, sint64.
  double as_double() const;   ///< double (fixed64) or float (fixed32).
  std::string as_string() const { return std::string(bytes); }
};

/// Walks the fields of one message:
///
///   ProtoCursor cursor(bytes);
///   while (const ProtoField* field = cursor.next()) {
///     switch (field->number) { case 2: name = field->as_string(); break; }
///   }
///   if (cursor.damaged()) …
class ProtoCursor {
 public:
  /// `message` must outlive the cursor and what its fields point at.
  explicit ProtoCursor(std::string_view message) : message_(message) {}

  /// The next field, which the following call overwrites; null at the end and
  /// at the first byte that cannot be (what came before it is sound).
  const ProtoField* next();

  bool damaged() const { return !damage_.empty(); }
  /// What is wrong, "byte 22: no such wire type"; empty if nothing is. Bytes
  /// count from the start of this message.
  std::string damage() const;
  /// Where the next field starts, or where the damaged one does.
  size_t offset() const { return at_; }

 private:
  const ProtoField* fail(std::string_view what);
  bool read_value(size_t& at);

  std::string_view message_;
  size_t at_ = 0;
  ProtoField field_;
  std::string_view damage_;
};

/// All fields of one message, for messages of many kinds of fields, each asked
/// for by its number. Of a field that occurs several times the last counts,
/// unless all are asked for.
class ProtoMessage {
 public:
  ProtoMessage() = default;
  explicit ProtoMessage(std::string_view message);

  bool damaged() const { return damaged_; }
  bool has(uint32_t number) const { return find(number) != nullptr; }
  uint32_t largest_field() const;  ///< Its number; 0 without a field.
  int64_t integer(uint32_t number, int64_t fallback = 0) const;
  bool flag(uint32_t number) const { return integer(number) != 0; }
  double real(uint32_t number) const;
  std::string_view bytes(uint32_t number) const;
  /// Of a repeated integer field, packed or not.
  std::vector<int64_t> integers(uint32_t number) const;
  /// Of a repeated string or message.
  std::vector<std::string_view> all_bytes(uint32_t number) const;

 private:
  const ProtoField* find(uint32_t number) const;

  std::vector<ProtoField> fields_;
  bool damaged_ = false;
};

/// Reads one varint at `at` and moves `at` behind it; empty when the bytes end
/// within it or it is longer than ten bytes (`at` stays).
std::optional<uint64_t> read_varint(std::string_view bytes, size_t& at);

/// Appends the numbers of a repeated integer field, packed or one by one.
/// Returns whether they were sound.
bool append_integers(const ProtoField& field, std::vector<int64_t>& values);

}  // namespace reprise
