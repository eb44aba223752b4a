// Each function reads the sub-message of one attribute and writes it the way
// XLA prints it, defaults left out where XLA leaves them out.
#include "data/hlo/proto/hlo_proto_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/hlo/proto/hlo_proto_text.h"

namespace reprise {
namespace {

constexpr int64_t kPredType = 1;  ///< PrimitiveType of xla_data.proto.

std::string braced(const std::vector<std::string>& items,
                   std::string_view between = ",") {
  return fmt::format("{{{}}}", fmt::join(items, between));
}

std::vector<ProtoMessage> messages(std::string_view proto, uint32_t field) {
  std::vector<ProtoMessage> found;
  for (const std::string_view bytes : ProtoMessage(proto).all_bytes(field)) {
    found.emplace_back(bytes);
  }
  return found;
}

/// ` name=AxBxC` of one number a dimension; left out where all are `usual`.
void append_crossed(const std::vector<ProtoMessage>& window, uint32_t field,
                    int64_t usual, std::string_view name, std::string& out) {
  std::vector<int64_t> values;
  bool said = false;
  for (const ProtoMessage& dimension : window) {
    values.push_back(dimension.integer(field));
    said = said || values.back() != usual;
  }
  if (said) out += fmt::format(" {}={}", name, fmt::join(values, "x"));
}

/// One operand's dimensions: two letters and digits at their places.
std::string labels_of(const ProtoMessage& numbers, uint32_t first,
                      std::string_view letters, uint32_t spatial_field) {
  const std::vector<int64_t> spatial = numbers.integers(spatial_field);
  std::string labels(spatial.size() + 2, '?');
  const auto put = [&](int64_t place, char label) {
    if (place >= 0 && static_cast<size_t>(place) < labels.size()) {
      labels[static_cast<size_t>(place)] = label;
    }
  };
  for (size_t i = 0; i < spatial.size() && i < 10; ++i) {
    put(spatial[i], static_cast<char>('0' + i));
  }
  put(numbers.integer(first), letters[0]);
  put(numbers.integer(first + 1), letters[1]);
  return labels;
}

Result<std::string> computation_text(const HloProtoInstruction& instruction,
                                     int64_t id) {
  const std::string_view name = instruction.names.computation(id);
  if (name.empty()) {
    return fail(ErrorKind::kParse,
                "calls computation {}, which is not in the module", id);
  }
  return fmt::format("%{}", name);
}

/// Of an operation that calls exactly two.
Result<std::string> one_of_two(const HloProtoInstruction& instruction,
                               size_t place) {
  const std::vector<int64_t> called = instruction.proto.integers(38);
  if (called.size() != 2) {
    return fail(ErrorKind::kParse, "calls {} computations instead of 2",
                called.size());
  }
  return computation_text(instruction, called[place]);
}

/// A conditional on a predicate, as opposed to one on a branch's number.
bool is_two_way(const HloProtoInstruction& instruction) {
  return instruction.opcode() == "conditional" &&
         instruction.operand_type == kPredType &&
         instruction.proto.integers(38).size() == 2;
}

/// The place of the quote that closes the string opened at `at`, or the text's
/// size.
size_t closing_quote(std::string_view text, size_t at) {
  while (++at < text.size() && text[at] != '"') {
    if (text[at] == '\\') ++at;
  }
  return std::min(at, text.size());
}

/// Whether XLA's lexer takes the text unquoted: a JSON object by its brackets
/// and strings.
bool is_json_object(std::string_view text) {
  if (text.size() < 2 || text.front() != '{') return false;
  int64_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      i = closing_quote(text, i);
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}') {
      if (--depth == 0) return i + 1 == text.size();
    } else if (text[i] == '(' || text[i] == ')' || text[i] == '/') {
      return false;
    }
  }
  return false;
}

}  // namespace

Result<std::string> async_thread_value(const HloProtoInstruction& instruction) {
  const std::string_view thread = instruction.proto.bytes(79);
  return thread.empty() || thread == "main" ? std::string() : quoted(thread);
}

/// 45 is the number's old place.
Result<std::string> channel_value(const HloProtoInstruction& instruction) {
  const int64_t channel =
      std::max(instruction.proto.integer(26), instruction.proto.integer(45));
  return channel > 0 ? std::to_string(channel) : std::string();
}

Result<std::string> source_target_value(
    const HloProtoInstruction& instruction) {
  std::vector<std::string> pairs;
  for (const std::string_view pair : instruction.proto.all_bytes(52)) {
    const ProtoMessage ends(pair);
    pairs.push_back(fmt::format("{{{},{}}}", ends.integer(1), ends.integer(2)));
  }
  return braced(pairs);
}

/// Goes without saying unless it is a float's total order.
Result<std::string> comparison_type_value(
    const HloProtoInstruction& instruction) {
  const std::string_view type = instruction.proto.bytes(72);
  return std::string(type == "TOTALORDER" ? type : std::string_view());
}

/// An all-to-all of tuples has none.
Result<std::string> dimensions_value(const HloProtoInstruction& instruction) {
  const std::vector<int64_t> dimensions = instruction.proto.integers(14);
  if (dimensions.empty() && instruction.opcode() == "all-to-all") return "";
  return fmt::format("{{{}}}", fmt::join(dimensions, ","));
}

Result<std::string> replication_value(const HloProtoInstruction& instruction) {
  std::vector<std::string> words;
  for (const int64_t flag :
       ProtoMessage(instruction.proto.bytes(61)).integers(1)) {
    words.emplace_back(flag != 0 ? "true" : "false");
  }
  return words.empty() ? std::string() : braced(words);
}

Result<std::string> window_value(const HloProtoInstruction& instruction) {
  const std::vector<ProtoMessage> window =
      messages(instruction.proto.bytes(15), 1);
  if (window.empty()) return "";
  std::string text;
  append_crossed(window, 1, -1, "size", text);
  append_crossed(window, 2, 1, "stride", text);
  std::vector<std::string> padding;
  bool padded = false;
  for (const ProtoMessage& dimension : window) {
    const int64_t low = dimension.integer(3), high = dimension.integer(4);
    padded = padded || low != 0 || high != 0;
    padding.push_back(fmt::format("{}_{}", low, high));
  }
  if (padded) text += fmt::format(" pad={}", fmt::join(padding, "x"));
  append_crossed(window, 6, 1, "lhs_dilate", text);
  append_crossed(window, 5, 1, "rhs_dilate", text);
  append_crossed(window, 7, 0, "rhs_reversal", text);
  if (text.empty()) return "";
  return fmt::format("{{{}}}", text.substr(1));
}

Result<std::string> dimension_labels_value(
    const HloProtoInstruction& instruction) {
  if (!instruction.proto.has(16)) return "";
  const ProtoMessage numbers(instruction.proto.bytes(16));
  return fmt::format("{}_{}->{}", labels_of(numbers, 7, "bf", 11),
                     labels_of(numbers, 3, "io", 6),
                     labels_of(numbers, 9, "bf", 12));
}

Result<std::string> precision_value(const HloProtoInstruction& instruction) {
  constexpr std::array<std::string_view, 4> kWords = {
      "default", "high", "highest", "packed_nibble"};
  std::vector<std::string> words;
  bool said = false;
  for (const int64_t precision :
       ProtoMessage(instruction.proto.bytes(51)).integers(1)) {
    const auto at = static_cast<uint64_t>(precision);
    words.emplace_back(kWords[at < kWords.size() ? at : 0]);
    said = said || precision != 0;
  }
  return said ? braced(words) : std::string();
}

Result<std::string> slice_value(const HloProtoInstruction& instruction) {
  std::vector<ProtoMessage> dimensions;
  bool strided = false;
  for (const std::string_view bytes : instruction.proto.all_bytes(17)) {
    strided = dimensions.emplace_back(bytes).integer(3) != 1 || strided;
  }
  std::vector<std::string> bounds;
  for (const ProtoMessage& slice : dimensions) {
    std::string text =
        fmt::format("[{}:{}", slice.integer(1), slice.integer(2));
    if (strided) text += fmt::format(":{}", slice.integer(3));
    bounds.push_back(text + "]");
  }
  return braced(bounds, ", ");
}

Result<std::string> padding_value(const HloProtoInstruction& instruction) {
  const std::vector<ProtoMessage> dimensions =
      messages(instruction.proto.bytes(21), 1);
  const bool interior =
      std::any_of(dimensions.begin(), dimensions.end(),
                  [](const ProtoMessage& d) { return d.integer(3) != 0; });
  std::vector<std::string> texts;
  for (const ProtoMessage& padding : dimensions) {
    texts.push_back(
        fmt::format("{}_{}", padding.integer(1), padding.integer(2)));
    if (interior) texts.back() += fmt::format("_{}", padding.integer(3));
  }
  return fmt::format("{}", fmt::join(texts, "x"));
}

Result<std::string> outfeed_shape_value(
    const HloProtoInstruction& instruction) {
  std::string shape;
  const Status written =
      append_shape_text(instruction.proto.bytes(29), true, shape);
  if (!written) return pass(written.error());
  return shape;
}

Result<std::string> operand_layouts_value(
    const HloProtoInstruction& instruction) {
  if (!instruction.proto.flag(56)) return "";
  std::string shapes;
  for (const std::string_view shape : instruction.proto.all_bytes(57)) {
    if (!shapes.empty()) shapes += ", ";
    const Status written = append_shape_text(shape, true, shapes);
    if (!written) return pass(written.error());
  }
  return "{" + shapes + "}";
}

Result<std::string> aliasing_value(const HloProtoInstruction& instruction) {
  std::vector<std::string> pairs;
  for (const std::string_view bytes : instruction.proto.all_bytes(74)) {
    const ProtoMessage pair(bytes);
    pairs.push_back(
        fmt::format("{{{}}}: ({}, {{{}}})", fmt::join(pair.integers(1), ", "),
                    pair.integer(2), fmt::join(pair.integers(3), ", ")));
  }
  return pairs.empty() ? std::string() : braced(pairs, ", ");
}

/// The proto keeps the body first.
Result<std::string> while_condition_value(
    const HloProtoInstruction& instruction) {
  return one_of_two(instruction, 1);
}

Result<std::string> while_body_value(const HloProtoInstruction& instruction) {
  return one_of_two(instruction, 0);
}

Result<std::string> select_value(const HloProtoInstruction& instruction) {
  return one_of_two(instruction, 0);
}

Result<std::string> scatter_value(const HloProtoInstruction& instruction) {
  return one_of_two(instruction, 1);
}

Result<std::string> true_computation_value(
    const HloProtoInstruction& instruction) {
  return is_two_way(instruction) ? one_of_two(instruction, 0) : "";
}

Result<std::string> false_computation_value(
    const HloProtoInstruction& instruction) {
  return is_two_way(instruction) ? one_of_two(instruction, 1) : "";
}

Result<std::string> computation_list_value(
    const HloProtoInstruction& instruction) {
  if (is_two_way(instruction)) return "";
  std::vector<std::string> names;
  for (const int64_t id : instruction.proto.integers(38)) {
    auto name = computation_text(instruction, id);
    if (!name) return name;
    names.push_back(std::move(*name));
  }
  return names.empty() ? std::string() : braced(names, ", ");
}

Result<std::string> called_value(const HloProtoInstruction& instruction) {
  const std::vector<int64_t> called = instruction.proto.integers(38);
  return called.empty() ? "" : computation_text(instruction, called[0]);
}

Result<std::string> sharding_value(const HloProtoInstruction& instruction) {
  const ProtoMessage& proto = instruction.proto;
  return proto.has(40) ? sharding_text(proto.bytes(40)) : std::string();
}

Result<std::string> frontend_attributes_value(
    const HloProtoInstruction& instruction) {
  return frontend_attributes_text(instruction.proto.bytes(68));
}

Result<std::string> control_predecessors_value(
    const HloProtoInstruction& instruction) {
  std::vector<std::string> names;
  for (const int64_t id : instruction.proto.integers(37)) {
    const std::string_view name = instruction.names.instruction(id);
    if (name.empty()) {
      return fail(ErrorKind::kParse,
                  "control predecessor {} is not in its computation", id);
    }
    names.push_back(fmt::format("%{}", name));
  }
  return names.empty() ? std::string() : braced(names, ", ");
}

Result<std::string> metadata_value(const HloProtoInstruction& instruction) {
  const ProtoMessage metadata(instruction.proto.bytes(7));
  std::vector<std::string> words;
  const auto string = [&](std::string_view name, uint32_t field) {
    const std::string_view value = metadata.bytes(field);
    if (!value.empty())
      words.push_back(fmt::format("{}={}", name, quoted(value)));
  };
  const auto number = [&](std::string_view name, uint32_t field) {
    const int64_t value = metadata.integer(field);
    if (value != 0) words.push_back(fmt::format("{}={}", name, value));
  };
  string("op_type", 1);
  string("op_name", 2);
  string("source_file", 3);
  number("source_line", 4);
  string("deduplicated_name", 12);
  if (metadata.flag(13)) words.emplace_back("preserve_layout=true");
  number("stack_frame_id", 15);
  return words.empty() ? std::string() : braced(words, " ");
}

Result<std::string> backend_config_value(
    const HloProtoInstruction& instruction) {
  const std::string_view config = instruction.proto.bytes(43);
  if (config.empty()) return "";
  return is_json_object(config) ? std::string(config) : quoted(config);
}

}  // namespace reprise
