#include "data/formats/chakra/chakra_node.h"

#include <fmt/format.h>

#include <array>

#include "data/io/json_text.h"
#include "data/io/protobuf.h"

namespace reprise {
namespace {

enum class Wire : uint8_t { kReal, kPlain, kZigzag, kBool, kText };

/// How the members of AttributeProto's oneof hold their values: a scalar at
/// the number, a list message (values = 1) at the next one.
struct Holder {
  uint32_t number;
  Wire wire;
};
constexpr std::array<Holder, 15> kHolders = {{
    {3, Wire::kReal},     // double
    {5, Wire::kReal},     // float
    {7, Wire::kPlain},    // int32
    {9, Wire::kPlain},    // int64
    {11, Wire::kPlain},   // uint32
    {13, Wire::kPlain},   // uint64
    {15, Wire::kZigzag},  // sint32
    {17, Wire::kZigzag},  // sint64
    {19, Wire::kPlain},   // fixed32
    {21, Wire::kPlain},   // fixed64
    {23, Wire::kPlain},   // sfixed32
    {25, Wire::kPlain},   // sfixed64
    {27, Wire::kBool},    // bool
    {29, Wire::kText},    // string
    {31, Wire::kText},    // bytes
}};

/// A list longer than that is no attribute of a node.
constexpr size_t kLongestList = 4096;

ChakraValue integer_value(int64_t value) {
  return {.integer = value, .text = {}, .json = fmt::format("{}", value)};
}

ChakraValue scalar(const ProtoField& field, Wire wire) {
  switch (wire) {
    case Wire::kReal: {
      ChakraValue value{
          .integer = {}, .text = {}, .json = json_number(field.as_double())};
      return value;
    }
    case Wire::kPlain:
      return integer_value(field.as_int64());
    case Wire::kZigzag:
      return integer_value(field.as_zigzag());
    case Wire::kBool:
      return {.integer = field.as_bool(),
              .text = {},
              .json = field.as_bool() ? "true" : "false"};
    case Wire::kText:
      break;
  }
  return {.integer = {},
          .text = field.as_string(),
          .json = json_quoted(field.bytes)};
}

/// The values of a list message as a JSON array.
ChakraValue list(const ProtoField& field, Wire wire) {
  std::string json = "[";
  size_t count = 0;
  const auto append = [&](std::string_view text) {
    if (count++ < kLongestList) json.append(count > 1 ? ", " : "").append(text);
  };
  ProtoCursor cursor(field.bytes);
  while (const ProtoField* value = cursor.next()) {
    if (value->number != 1) continue;
    const bool packed = value->type == WireType::kBytes && wire != Wire::kText;
    if (!packed) {
      append(scalar(*value, wire).json);
      continue;
    }
    size_t at = 0;
    while (wire != Wire::kReal && at < value->bytes.size()) {
      const std::optional<uint64_t> number = read_varint(value->bytes, at);
      if (!number) break;
      append(scalar({.number = 1, .value = *number, .bytes = {}}, wire).json);
    }
  }
  return {.integer = {}, .text = {}, .json = json + "]"};
}

bool decode_attribute(std::string_view message, std::string& name,
                      ChakraValue& value) {
  name.clear();
  value = {};
  ProtoCursor cursor(message);
  while (const ProtoField* field = cursor.next()) {
    if (field->number == 1) name = field->as_string();
    for (const Holder& holder : kHolders) {
      if (field->number == holder.number) value = scalar(*field, holder.wire);
      if (field->number == holder.number + 1) value = list(*field, holder.wire);
    }
  }
  return !cursor.damaged();
}

/// IOInfo: shapes and types, printed as Python prints lists.
void take_proto_inputs(std::string_view message, ChakraNode& node) {
  ProtoCursor cursor(message);
  while (const ProtoField* field = cursor.next()) {
    ChakraValue value{
        .integer = {}, .text = {}, .json = json_quoted(field->bytes)};
    if (field->bytes.empty() || field->bytes == "[]") continue;
    if (field->number == 2) take_attribute("input_dims", value, node);
    if (field->number == 3) take_attribute("input_types", value, node);
  }
}

/// Whether an attribute tells nothing: PyTorch writes all of them always.
bool is_default(std::string_view name, const ChakraValue& value) {
  if (name == "op_schema" || name == "kernel_file") return true;
  if (value.json.empty() || value.json == "\"\"") return true;
  if (name == "seq_id") return value.integer == -1;
  return (name == "fw_parent" || name == "fw_tid" || name == "scope" ||
          name == "rf_id") &&
         value.integer == 0;
}

}  // namespace

void take_attribute(std::string_view name, const ChakraValue& value,
                    ChakraNode& node) {
  const int64_t integer = value.integer.value_or(-1);
  if (name == "is_cpu_op") {
    node.on_cpu = integer > 0;
  } else if (name == "tid" || name == "stream") {
    node.thread = integer;
  } else if (name == "comm_type") {
    node.collective = integer;
  } else if (name == "comm_size") {
    node.comm_bytes = integer;
  } else if (name == "comm_src") {
    node.source = integer;
  } else if (name == "comm_dst") {
    node.destination = integer;
  } else if (name == "pg_name" || name == "comm_group") {
    node.communicator = value.text.empty() ? value.json : value.text;
    if (node.communicator == "\"\"") node.communicator.clear();
  } else if (!is_default(name, value)) {
    if (name == "tensor_size") node.tensor_bytes = integer;
    if (!node.attributes.empty()) node.attributes += ", ";
    node.attributes += json_quoted(name) + ": " + value.json;
  }
}

bool decode_chakra_node(std::string_view message, ChakraNode& node) {
  node.clear();
  bool sound = true;
  std::string name;
  ChakraValue value;
  ProtoCursor cursor(message);
  std::vector<int64_t> data_dependencies;
  while (const ProtoField* field = cursor.next()) {
    switch (field->number) {
      case 1:
        node.id = field->as_int64();
        break;
      case 2:
        node.name = field->as_string();
        break;
      case 3:
        node.type = field->as_int32();
        break;
      case 4:
        sound &= append_integers(*field, node.dependencies);
        break;
      case 5:
        sound &= append_integers(*field, data_dependencies);
        break;
      case 6:
        node.start_us = field->as_int64();
        break;
      case 7:
        node.duration_us = field->as_int64();
        break;
      case 8:
        take_proto_inputs(field->bytes, node);
        break;
      case 10:
        sound &= decode_attribute(field->bytes, name, value);
        take_attribute(name, value, node);
        break;
      default:
        break;
    }
  }
  node.dependencies.insert(node.dependencies.end(), data_dependencies.begin(),
                           data_dependencies.end());
  return sound && !cursor.damaged();
}

bool decode_chakra_metadata(std::string_view message,
                            ChakraMetadata& metadata) {
  std::string name;
  ChakraValue value;
  ProtoCursor cursor(message);
  while (const ProtoField* field = cursor.next()) {
    if (field->type != WireType::kBytes) return false;
    if (field->number == 1) {
      metadata.version = field->as_string();
    } else if (field->number == 2) {
      if (!decode_attribute(field->bytes, name, value)) return false;
      if (name == "schema") metadata.schema = value.text;
      if (name == "pid") metadata.process = value.integer.value_or(0);
    } else {
      return false;
    }
  }
  return !cursor.damaged();
}

}  // namespace reprise
