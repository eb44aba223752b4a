// Attributes of an instruction of an HLO proto, spelled and ordered as XLA
// prints them: one table of which opcode has which attribute, and how its
// value stands in the proto.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "data/hlo/proto/hlo_proto_text.h"
#include "data/hlo/proto/hlo_proto_values.h"

namespace reprise {
namespace {

/// How a value stands at the end of its path of fields, and when it is printed.
enum class Form {
  kNumber,
  kPositive,  ///< A number above 0.
  kAboveOne,
  kPresent,   ///< A number, where the field is there.
  kFirst,     ///< The first number of a list, unless negative.
  kList,      ///< `{0,1}`
  kSomeList,  ///< The same, unless empty.
  kFlag,      ///< `true`, or nothing.
  kBool,
  kReal,
  kWord,
  kQuoted,  ///< A string, unless empty.
  kChoice,  ///< One of `words`; nothing for an empty one.
  kOwn,     ///< `value` knows.
};

using Words = std::span<const std::string_view>;
/// A field, or a field of the message in a field, …; 0 ends it.
using Path = std::array<uint32_t, 3>;

struct ProtoAttribute {
  constexpr ProtoAttribute(std::string_view opcode_words, std::string_view text,
                           Form plain_form, Path fields, Words choices = {})
      : opcodes(opcode_words),
        name(text),
        form(plain_form),
        path(fields),
        words(choices) {}
  constexpr ProtoAttribute(std::string_view opcode_words, std::string_view text,
                           HloProtoValue* own)
      : opcodes(opcode_words), name(text), value(own) {}

  std::string_view opcodes;  ///< "dot ragged-dot", "async-*"; empty: all.
  std::string_view name;
  Form form = Form::kOwn;
  Path path{};
  Words words{};
  HloProtoValue* value = nullptr;
};

constexpr std::string_view kRngWords[] = {"rng_uniform", "rng_uniform",
                                          "rng_normal"};
constexpr std::string_view kAlgorithmWords[] = {"rng_default", "rng_three_fry",
                                                "rng_philox"};
constexpr std::string_view kFftWords[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
constexpr std::string_view kTransposeWords[] = {"", "NO_TRANSPOSE", "TRANSPOSE",
                                                "ADJOINT"};
constexpr std::string_view kPerhapsWords[] = {"", "true", "false"};
constexpr std::string_view kPaddingWords[] = {"", "PADDING_VALID",
                                              "PADDING_SAME"};
constexpr std::string_view kScheduleWords[] = {"", "SCHEDULE_LATEST",
                                               "SCHEDULE_EARLIEST"};
constexpr std::string_view kApiWords[] = {
    "", "", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
constexpr std::string_view kDotAlgorithmWords[] = {
    "",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9"};

constexpr std::string_view kChanneled =
    "all-gather all-gather-start all-reduce all-reduce-start all-to-all "
    "reduce-scatter ragged-all-to-all collective-broadcast collective-permute "
    "collective-permute-start";
constexpr std::string_view kGrouped =
    "all-gather all-gather-start all-reduce all-reduce-start all-to-all "
    "reduce-scatter ragged-all-to-all collective-broadcast";
constexpr std::string_view kWithDimensions =
    "reverse concatenate reduce transpose broadcast map sort "
    "get-dimension-size set-dimension-size all-gather all-gather-start "
    "reduce-scatter all-to-all ragged-all-to-all scan";
constexpr std::string_view kMultiplying =
    "dot ragged-dot convolution custom-call";

/// Fields are those of HloInstructionProto (xla/service/hlo.proto) and of the
/// messages in it (xla/xla_data.proto); the order is that of XLA's text.
constexpr ProtoAttribute kAttributes[] = {
    {"async-*", "async_execution_thread", async_thread_value},
    {kChanneled, "channel_id", channel_value},
    {kGrouped, "replica_groups", replica_groups_value},
    {kGrouped, "constrain_layout", Form::kFlag, {56}},
    {"all-reduce all-reduce-start", "use_global_device_ids", Form::kFlag, {71}},
    {"collective-permute collective-permute-start", "source_target_pairs",
     source_target_value},
    {"compare", "direction", Form::kWord, {63}},
    {"compare", "type", comparison_type_value},
    {kWithDimensions, "dimensions", dimensions_value},
    {"all-gather all-gather-start reduce-scatter",
     "use_global_device_ids",
     Form::kFlag,
     {71}},
    {"scan", "num_carries", Form::kNumber, {95}},
    {"scan", "is_reverse", Form::kFlag, {94}},
    {"scan", "is_associative", Form::kChoice, {96}, kPerhapsWords},
    {"", "is_stable", Form::kFlag, {60}},
    {"get-tuple-element", "index", Form::kNumber, {13}},
    {"iota", "iota_dimension", Form::kFirst, {14}},
    {"reshape", "inferred_dimension", Form::kFirst, {14}},
    {"dynamic-slice", "dynamic_slice_sizes", Form::kList, {20}},
    {"gather", "offset_dims", Form::kList, {33, 1}},
    {"gather", "collapsed_slice_dims", Form::kList, {33, 2}},
    {"gather", "start_index_map", Form::kList, {33, 3}},
    {"gather", "operand_batching_dims", Form::kSomeList, {33, 5}},
    {"gather", "start_indices_batching_dims", Form::kSomeList, {33, 6}},
    {"gather", "index_vector_dim", Form::kNumber, {33, 4}},
    {"gather", "slice_sizes", Form::kList, {34}},
    {"scatter", "update_window_dims", Form::kList, {48, 1}},
    {"scatter", "inserted_window_dims", Form::kList, {48, 2}},
    {"scatter", "scatter_dims_to_operand_dims", Form::kList, {48, 3}},
    {"scatter", "input_batching_dims", Form::kSomeList, {48, 5}},
    {"scatter", "scatter_indices_batching_dims", Form::kSomeList, {48, 6}},
    {"scatter", "index_vector_dim", Form::kNumber, {48, 4}},
    {"gather scatter", "indices_are_sorted", Form::kFlag, {67}},
    {"scatter", "unique_indices", Form::kFlag, {69}},
    {"reduce-precision", "exponent_bits", Form::kNumber, {18}},
    {"reduce-precision", "mantissa_bits", Form::kNumber, {19}},
    {"topk", "k", Form::kNumber, {81}},
    {"topk", "largest", Form::kBool, {85}},
    {"copy-start", "cross_program_prefetch_index", Form::kPresent, {80}},
    {"parameter", "parameter_replication", replication_value},
    {"rng", "distribution", Form::kChoice, {23}, kRngWords},
    {"rng-bit-generator", "algorithm", Form::kChoice, {70}, kAlgorithmWords},
    {"rng-get-and-update-state", "delta", Form::kNumber, {66}},
    {"batch-norm-*", "epsilon", Form::kReal, {24}},
    {"batch-norm-*", "feature_index", Form::kNumber, {25}},
    {"fft", "fft_type", Form::kChoice, {31}, kFftWords},
    {"fft", "fft_length", Form::kList, {32}},
    {"cholesky", "lower", Form::kFlag, {62, 1}},
    {"triangular-solve", "left_side", Form::kFlag, {59, 1}},
    {"triangular-solve", "lower", Form::kFlag, {59, 2}},
    {"triangular-solve", "unit_diagonal", Form::kFlag, {59, 3}},
    {"triangular-solve",
     "transpose_a",
     Form::kChoice,
     {59, 4},
     kTransposeWords},
    {"", "window", window_value},
    {"", "dim_labels", dimension_labels_value},
    {"", "feature_group_count", Form::kAboveOne, {50}},
    {"", "batch_group_count", Form::kAboveOne, {58}},
    {"dot", "lhs_batch_dims", Form::kSomeList, {30, 3}},
    {"dot", "lhs_contracting_dims", Form::kList, {30, 1}},
    {"dot", "rhs_batch_dims", Form::kSomeList, {30, 4}},
    {"dot", "rhs_contracting_dims", Form::kList, {30, 2}},
    {"ragged-dot", "lhs_batch_dims", Form::kSomeList, {90, 1, 3}},
    {"ragged-dot", "lhs_contracting_dims", Form::kList, {90, 1, 1}},
    {"ragged-dot", "rhs_batch_dims", Form::kSomeList, {90, 1, 4}},
    {"ragged-dot", "rhs_contracting_dims", Form::kList, {90, 1, 2}},
    {"ragged-dot", "lhs_ragged_dims", Form::kList, {90, 2}},
    {"ragged-dot", "rhs_group_dims", Form::kSomeList, {90, 3}},
    {kMultiplying, "operand_precision", precision_value},
    {kMultiplying, "algorithm", Form::kChoice, {51, 2}, kDotAlgorithmWords},
    {"slice", "slice", slice_value},
    {"pad", "padding", padding_value},
    {"fusion", "kind", Form::kWord, {11}},
    {"send send-done recv recv-done", "channel_id", Form::kPositive, {26}},
    {"send send-done recv recv-done", "is_host_transfer", Form::kFlag, {47}},
    {"infeed", "infeed_config", Form::kQuoted, {27}},
    {"outfeed", "outfeed_shape", outfeed_shape_value},
    {"outfeed", "outfeed_config", Form::kQuoted, {22}},
    {"custom-call", "padding_type", Form::kChoice, {75}, kPaddingWords},
    {"custom-call", "custom_call_target", Form::kQuoted, {28}},
    {"custom-call", "operand_layout_constraints", operand_layouts_value},
    {"custom-call", "custom_call_has_side_effect", Form::kFlag, {65}},
    {"custom-call fusion", "output_to_operand_aliasing", aliasing_value},
    {"custom-call", "schedule", Form::kChoice, {76}, kScheduleWords},
    {"custom-call", "api_version", Form::kChoice, {77}, kApiWords},
    {"while", "condition", while_condition_value},
    {"while", "body", while_body_value},
    {"select-and-scatter", "select", select_value},
    {"select-and-scatter", "scatter", scatter_value},
    {"conditional", "true_computation", true_computation_value},
    {"conditional", "false_computation", false_computation_value},
    {"conditional", "branch_computations", computation_list_value},
    {"custom-call", "called_computations", computation_list_value},
    {"fusion async-*", "calls", called_value},
    {"call map reduce reduce-scatter reduce-window scatter sort all-reduce "
     "all-reduce-start topk scan",
     "to_apply", called_value},
    {"", "sharding", sharding_value},
    {"", "frontend_attributes", frontend_attributes_value},
    {"", "control-predecessors", control_predecessors_value},
    {"", "metadata", metadata_value},
    {"", "backend_config", backend_config_value},
};

/// Whether the opcode is one of the words, of which a '*' ends a prefix.
bool covers(std::string_view opcodes, std::string_view opcode) {
  if (opcodes.empty()) return true;
  while (!opcodes.empty()) {
    const size_t end = std::min(opcodes.find(' '), opcodes.size());
    const std::string_view word = opcodes.substr(0, end);
    if (word.ends_with('*')
            ? opcode.starts_with(word.substr(0, word.size() - 1))
            : opcode == word) {
      return true;
    }
    opcodes.remove_prefix(std::min(end + 1, opcodes.size()));
  }
  return false;
}

std::string list_text(const std::vector<int64_t>& values) {
  return fmt::format("{{{}}}", fmt::join(values, ","));
}

std::string number_if(bool said, int64_t number) {
  return said ? std::to_string(number) : std::string();
}

/// The value in the field of the message that holds it.
std::string plain_value(const ProtoMessage& message, uint32_t field,
                        const ProtoAttribute& attribute) {
  const int64_t number = message.integer(field);
  switch (attribute.form) {
    case Form::kNumber:
      return std::to_string(number);
    case Form::kPositive:
      return number_if(number > 0, number);
    case Form::kAboveOne:
      return number_if(number > 1, number);
    case Form::kPresent:
      return number_if(message.has(field), number);
    case Form::kFirst: {
      const std::vector<int64_t> list = message.integers(field);
      return number_if(!list.empty() && list[0] >= 0,
                       list.empty() ? 0 : list[0]);
    }
    case Form::kList:
      return list_text(message.integers(field));
    case Form::kSomeList: {
      const std::vector<int64_t> list = message.integers(field);
      return list.empty() ? std::string() : list_text(list);
    }
    case Form::kFlag:
      return number != 0 ? "true" : "";
    case Form::kBool:
      return number != 0 ? "true" : "false";
    case Form::kReal:
      return fmt::format("{:.6g}", message.real(field));
    case Form::kWord:
      return hlo_name(message.bytes(field));
    case Form::kQuoted: {
      const std::string_view text = message.bytes(field);
      return text.empty() ? std::string() : quoted(text);
    }
    case Form::kChoice: {
      const auto place = static_cast<uint64_t>(number);
      const bool known = place < attribute.words.size();
      return std::string(attribute.words[known ? place : 0]);
    }
    case Form::kOwn:
      break;
  }
  return {};
}

std::string value_at(const ProtoMessage& proto,
                     const ProtoAttribute& attribute) {
  const Path& path = attribute.path;
  if (path[1] == 0) return plain_value(proto, path[0], attribute);
  ProtoMessage inner(proto.bytes(path[0]));
  if (path[2] == 0) return plain_value(inner, path[1], attribute);
  inner = ProtoMessage(inner.bytes(path[1]));
  return plain_value(inner, path[2], attribute);
}

}  // namespace

Status append_attributes(const HloProtoInstruction& instruction,
                         std::string& out) {
  for (const ProtoAttribute& attribute : kAttributes) {
    if (!covers(attribute.opcodes, instruction.opcode())) continue;
    Result<std::string> value = attribute.form == Form::kOwn
                                    ? attribute.value(instruction)
                                    : value_at(instruction.proto, attribute);
    if (!value) return pass(value.error());
    if (value->empty()) continue;
    out += fmt::format(", {}={}", attribute.name, *value);
  }
  return {};
}

}  // namespace reprise
