// Attributes of an instruction of an HLO proto, spelled and ordered as XLA
// prints them: the operation's own, called computations, sharding, frontend
// attributes, control predecessors, metadata, backend configuration.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/formats/hlo_proto_text.h"

namespace reprise {
namespace {

/// Writes `, name=value`; one instruction's attributes.
class Attributes {
 public:
  Attributes(const ProtoMessage& proto, const HloProtoNames& names,
             int64_t operand_type, std::string& out)
      : proto_(proto),
        names_(names),
        opcode_(proto.bytes(2)),
        operand_type_(operand_type),
        out_(out) {}

  Status write();

 private:
  bool is(std::string_view opcode) const { return opcode_ == opcode; }
  void add(std::string_view name, std::string_view value) {
    out_ += fmt::format(", {}={}", name, value);
  }
  void add_list(std::string_view name, const std::vector<int64_t>& values) {
    add(name, fmt::format("{{{}}}", fmt::join(values, ",")));
  }
  void add_number(std::string_view name, int64_t value) {
    add(name, std::to_string(value));
  }
  void add_flag(std::string_view name, uint32_t field) {
    if (proto_.flag(field)) add(name, "true");
  }

  void write_own();
  void write_collective();
  void write_replica_groups();
  void write_indexed();
  void write_gather();
  void write_scatter();
  void write_random();
  void write_batch_norm();
  void write_window();
  void write_convolution();
  void write_dot();
  void write_precision();
  void write_slice();
  void write_padding();
  void write_fft();
  void write_triangular();
  Status write_host_transfer();
  Status write_custom_call();
  void write_aliasing();
  void write_async();
  void write_called();
  void write_common();
  void write_metadata();
  void write_backend_config();
  void add_computation(std::string_view name, int64_t id);

  const ProtoMessage& proto_;
  const HloProtoNames& names_;
  std::string_view opcode_;
  int64_t operand_type_;
  std::string& out_;
  std::string wrong_;
};

Status Attributes::write() {
  write_own();
  if (const Status written = write_host_transfer(); !written) return written;
  if (is("custom-call")) {
    if (const Status written = write_custom_call(); !written) return written;
  }
  write_called();
  write_common();
  write_metadata();
  write_backend_config();
  if (!wrong_.empty()) return fail(ErrorKind::kParse, "{}", wrong_);
  return {};
}

/// Operations whose `dimensions` are printed.
bool has_dimensions(std::string_view opcode) {
  constexpr std::array<std::string_view, 14> kOpcodes = {
      "reverse",    "concatenate",        "reduce",
      "transpose",  "broadcast",          "map",
      "sort",       "get-dimension-size", "set-dimension-size",
      "all-gather", "all-gather-start",   "reduce-scatter",
      "all-to-all", "ragged-all-to-all"};
  return std::find(kOpcodes.begin(), kOpcodes.end(), opcode) != kOpcodes.end();
}

void Attributes::write_own() {
  write_async();
  write_collective();
  if (is("compare")) {
    add("direction", hlo_name(proto_.bytes(63)));
    // The type goes without saying unless it is a float's total order.
    const std::string type = hlo_name(proto_.bytes(72));
    if (type == "TOTALORDER") add("type", type);
  }
  if (has_dimensions(opcode_)) {
    const std::vector<int64_t> dimensions = proto_.integers(14);
    // An all-to-all of tuples has none.
    if (!dimensions.empty() || !is("all-to-all")) {
      add_list("dimensions", dimensions);
    }
  }
  if (is("all-gather") || is("all-gather-start") || is("reduce-scatter")) {
    add_flag("use_global_device_ids", 71);
  }
  add_flag("is_stable", 60);
  write_indexed();
  write_random();
  write_batch_norm();
  write_fft();
  write_triangular();
  if (!is("custom-call")) {
    write_window();
    write_convolution();
  }
  write_dot();
  write_slice();
  write_padding();
  if (is("fusion")) {
    add("kind", hlo_name(proto_.bytes(11)));
    write_aliasing();
  }
}

void Attributes::write_indexed() {
  if (is("get-tuple-element")) add_number("index", proto_.integer(13));
  const std::vector<int64_t> dimensions = proto_.integers(14);
  if (is("iota") && !dimensions.empty()) {
    add_number("iota_dimension", dimensions[0]);
  }
  if (is("reshape") && !dimensions.empty() && dimensions[0] >= 0) {
    add_number("inferred_dimension", dimensions[0]);
  }
  if (is("dynamic-slice")) add_list("dynamic_slice_sizes", proto_.integers(20));
  if (is("gather")) write_gather();
  if (is("scatter")) write_scatter();
  if (is("reduce-precision")) {
    add_number("exponent_bits", proto_.integer(18));
    add_number("mantissa_bits", proto_.integer(19));
  }
  if (is("topk")) {
    add_number("k", proto_.integer(81));
    add("largest", proto_.flag(85) ? "true" : "false");
  }
  if (is("copy-start") && proto_.has(80)) {
    add_number("cross_program_prefetch_index", proto_.integer(80));
  }
  if (is("parameter") && proto_.has(61)) {
    std::vector<std::string_view> words;
    for (const int64_t flag : ProtoMessage(proto_.bytes(61)).integers(1)) {
      words.push_back(flag != 0 ? "true" : "false");
    }
    if (!words.empty()) {
      add("parameter_replication",
          fmt::format("{{{}}}", fmt::join(words, ",")));
    }
  }
}

void Attributes::write_gather() {
  const ProtoMessage numbers(proto_.bytes(33));
  add_list("offset_dims", numbers.integers(1));
  add_list("collapsed_slice_dims", numbers.integers(2));
  add_list("start_index_map", numbers.integers(3));
  if (numbers.has(5)) {
    add_list("operand_batching_dims", numbers.integers(5));
    add_list("start_indices_batching_dims", numbers.integers(6));
  }
  add_number("index_vector_dim", numbers.integer(4));
  add_list("slice_sizes", proto_.integers(34));
  add_flag("indices_are_sorted", 67);
}

void Attributes::write_scatter() {
  const ProtoMessage numbers(proto_.bytes(48));
  add_list("update_window_dims", numbers.integers(1));
  add_list("inserted_window_dims", numbers.integers(2));
  add_list("scatter_dims_to_operand_dims", numbers.integers(3));
  if (numbers.has(5)) {
    add_list("input_batching_dims", numbers.integers(5));
    add_list("scatter_indices_batching_dims", numbers.integers(6));
  }
  add_number("index_vector_dim", numbers.integer(4));
  add_flag("indices_are_sorted", 67);
  add_flag("unique_indices", 69);
}

void Attributes::write_random() {
  if (is("rng")) {
    add("distribution", proto_.integer(23) == 2 ? "rng_normal" : "rng_uniform");
  }
  if (is("rng-bit-generator")) {
    constexpr std::array<std::string_view, 3> kAlgorithms = {
        "rng_default", "rng_three_fry", "rng_philox"};
    const auto at = static_cast<uint64_t>(proto_.integer(70));
    add("algorithm", kAlgorithms[at < kAlgorithms.size() ? at : 0]);
  }
  if (is("rng-get-and-update-state")) add_number("delta", proto_.integer(66));
}

void Attributes::write_batch_norm() {
  if (!opcode_.starts_with("batch-norm-")) return;
  add("epsilon", fmt::format("{:.6g}", proto_.real(24)));
  add_number("feature_index", proto_.integer(25));
}

void Attributes::write_fft() {
  if (!is("fft")) return;
  constexpr std::array<std::string_view, 4> kTypes = {"FFT", "IFFT", "RFFT",
                                                      "IRFFT"};
  const auto type = static_cast<uint64_t>(proto_.integer(31));
  add("fft_type", kTypes[type < kTypes.size() ? type : 0]);
  add_list("fft_length", proto_.integers(32));
}

void Attributes::write_triangular() {
  const ProtoMessage options(proto_.bytes(is("cholesky") ? 62 : 59));
  if (is("cholesky") && options.flag(1)) add("lower", "true");
  if (!is("triangular-solve")) return;
  constexpr std::array<std::string_view, 4> kTranspose = {
      "TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  if (options.flag(1)) add("left_side", "true");
  if (options.flag(2)) add("lower", "true");
  if (options.flag(3)) add("unit_diagonal", "true");
  const auto transpose = static_cast<uint64_t>(options.integer(4));
  if (transpose > 0 && transpose < kTranspose.size()) {
    add("transpose_a", kTranspose[transpose]);
  }
}

bool is_channel_collective(std::string_view opcode) {
  constexpr std::array<std::string_view, 9> kOpcodes = {
      "all-gather",        "all-gather-start",     "all-reduce",
      "all-reduce-start",  "all-to-all",           "reduce-scatter",
      "ragged-all-to-all", "collective-broadcast", "collective-permute"};
  return std::find(kOpcodes.begin(), kOpcodes.end(), opcode) !=
             kOpcodes.end() ||
         opcode == "collective-permute-start";
}

void Attributes::write_collective() {
  if (!is_channel_collective(opcode_)) return;
  const int64_t channel = std::max(proto_.integer(26), proto_.integer(45));
  if (channel > 0) add_number("channel_id", channel);
  if (!opcode_.starts_with("collective-permute")) {
    write_replica_groups();
    add_flag("constrain_layout", 56);
    if (opcode_.starts_with("all-reduce"))
      add_flag("use_global_device_ids", 71);
    return;
  }
  std::vector<std::string> pairs;
  for (const std::string_view pair : proto_.all_bytes(52)) {
    const ProtoMessage ends(pair);
    pairs.push_back(fmt::format("{{{},{}}}", ends.integer(1), ends.integer(2)));
  }
  add("source_target_pairs", fmt::format("{{{}}}", fmt::join(pairs, ",")));
}

/// Either list of groups, wherever this version keeps it: 87 since 2024, 92
/// since 2025, 49 before.
void Attributes::write_replica_groups() {
  const ProtoMessage devices(proto_.bytes(87));
  const std::string_view iota_bytes =
      proto_.has(92) ? proto_.bytes(92) : devices.bytes(2);
  if (!iota_bytes.empty()) {
    const ProtoMessage iota(iota_bytes);
    std::string text =
        fmt::format("[{},{}]<=[{}]", iota.integer(1), iota.integer(2),
                    fmt::join(iota.integers(3), ","));
    const std::vector<int64_t> order = iota.integers(4);
    if (!std::is_sorted(order.begin(), order.end())) {
      text += fmt::format("T({})", fmt::join(order, ","));
    }
    return add("replica_groups", text);
  }
  std::vector<std::string_view> protos = devices.all_bytes(1);
  if (protos.empty()) protos = proto_.all_bytes(49);
  std::vector<std::string> groups;
  for (const std::string_view group : protos) {
    groups.push_back(
        fmt::format("{{{}}}", fmt::join(ProtoMessage(group).integers(1), ",")));
  }
  add("replica_groups", fmt::format("{{{}}}", fmt::join(groups, ",")));
}

/// `AxBxC` of one number a dimension; left out where all are `usual`.
void add_crossed(const std::vector<ProtoMessage>& window, uint32_t field,
                 int64_t usual, std::string_view name, std::string& out) {
  std::vector<int64_t> values;
  bool said = false;
  for (const ProtoMessage& dimension : window) {
    values.push_back(dimension.integer(field));
    said = said || values.back() != usual;
  }
  if (said) out += fmt::format(" {}={}", name, fmt::join(values, "x"));
}

void Attributes::write_window() {
  std::vector<ProtoMessage> window;
  for (const std::string_view dimension :
       ProtoMessage(proto_.bytes(15)).all_bytes(1)) {
    window.emplace_back(dimension);
  }
  if (window.empty()) return;
  std::string text;
  add_crossed(window, 1, -1, "size", text);
  add_crossed(window, 2, 1, "stride", text);
  std::vector<std::string> padding;
  bool padded = false;
  for (const ProtoMessage& dimension : window) {
    const int64_t low = dimension.integer(3);
    const int64_t high = dimension.integer(4);
    padded = padded || low != 0 || high != 0;
    padding.push_back(fmt::format("{}_{}", low, high));
  }
  if (padded) text += fmt::format(" pad={}", fmt::join(padding, "x"));
  add_crossed(window, 6, 1, "lhs_dilate", text);
  add_crossed(window, 5, 1, "rhs_dilate", text);
  add_crossed(window, 7, 0, "rhs_reversal", text);
  add("window", fmt::format("{{{}}}", text.substr(1)));
}

/// One operand's dimensions: 'b', 'f' and digits at their places.
std::string dimension_labels(int64_t first, char first_label, int64_t second,
                             char second_label,
                             const std::vector<int64_t>& spatial) {
  std::string labels(spatial.size() + 2, '?');
  const auto put = [&](int64_t place, char label) {
    if (place >= 0 && static_cast<size_t>(place) < labels.size()) {
      labels[static_cast<size_t>(place)] = label;
    }
  };
  for (size_t i = 0; i < spatial.size() && i < 10; ++i) {
    put(spatial[i], static_cast<char>('0' + i));
  }
  put(first, first_label);
  put(second, second_label);
  return labels;
}

void Attributes::write_convolution() {
  if (proto_.has(16)) {
    const ProtoMessage numbers(proto_.bytes(16));
    add("dim_labels",
        fmt::format(
            "{}_{}->{}",
            dimension_labels(numbers.integer(7), 'b', numbers.integer(8), 'f',
                             numbers.integers(11)),
            dimension_labels(numbers.integer(3), 'i', numbers.integer(4), 'o',
                             numbers.integers(6)),
            dimension_labels(numbers.integer(9), 'b', numbers.integer(10), 'f',
                             numbers.integers(12))));
  }
  if (proto_.integer(50) > 1) {
    add_number("feature_group_count", proto_.integer(50));
  }
  if (proto_.integer(58) > 1) {
    add_number("batch_group_count", proto_.integer(58));
  }
  if (is("convolution") || is("custom-call")) write_precision();
}

void Attributes::write_dot() {
  if (!is("dot") && !is("ragged-dot")) return;
  const ProtoMessage ragged(proto_.bytes(90));
  const ProtoMessage numbers(is("dot") ? proto_.bytes(30) : ragged.bytes(1));
  // (name, field) in the order of XLA's text.
  constexpr std::array<std::pair<std::string_view, uint32_t>, 4> kLists = {
      {{"lhs_batch_dims", 3},
       {"lhs_contracting_dims", 1},
       {"rhs_batch_dims", 4},
       {"rhs_contracting_dims", 2}}};
  for (const auto& [name, field] : kLists) {
    const std::vector<int64_t> list = numbers.integers(field);
    const bool batch = field >= 3;
    if (!batch || !list.empty()) add_list(name, list);
  }
  if (is("ragged-dot")) {
    add_list("lhs_ragged_dims", ragged.integers(2));
    const std::vector<int64_t> group = ragged.integers(3);
    if (!group.empty()) add_list("rhs_group_dims", group);
  }
  write_precision();
}

void Attributes::write_precision() {
  const ProtoMessage config(proto_.bytes(51));
  constexpr std::array<std::string_view, 4> kWords = {
      "default", "high", "highest", "packed_nibble"};
  std::vector<std::string_view> words;
  bool said = false;
  for (const int64_t precision : config.integers(1)) {
    const auto at = static_cast<uint64_t>(precision);
    words.push_back(kWords[at < kWords.size() ? at : 0]);
    said = said || precision != 0;
  }
  if (said) {
    add("operand_precision", fmt::format("{{{}}}", fmt::join(words, ",")));
  }
  constexpr std::array<std::string_view, 14> kAlgorithms = {
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
  const auto algorithm = static_cast<uint64_t>(config.integer(2));
  if (algorithm > 0 && algorithm < kAlgorithms.size()) {
    add("algorithm", kAlgorithms[algorithm]);
  }
}

void Attributes::write_slice() {
  if (!is("slice")) return;
  const std::vector<std::string_view> dimensions = proto_.all_bytes(17);
  const bool strided = std::any_of(
      dimensions.begin(), dimensions.end(),
      [](std::string_view d) { return ProtoMessage(d).integer(3) != 1; });
  std::vector<std::string> bounds;
  for (const std::string_view dimension : dimensions) {
    const ProtoMessage slice(dimension);
    std::string text =
        fmt::format("[{}:{}", slice.integer(1), slice.integer(2));
    if (strided) text += fmt::format(":{}", slice.integer(3));
    bounds.push_back(text + "]");
  }
  add("slice", fmt::format("{{{}}}", fmt::join(bounds, ", ")));
}

void Attributes::write_padding() {
  if (!is("pad")) return;
  std::vector<std::string> dimensions;
  bool interior = false;
  for (const std::string_view proto :
       ProtoMessage(proto_.bytes(21)).all_bytes(1)) {
    interior = interior || ProtoMessage(proto).integer(3) != 0;
  }
  for (const std::string_view proto :
       ProtoMessage(proto_.bytes(21)).all_bytes(1)) {
    const ProtoMessage padding(proto);
    dimensions.push_back(
        fmt::format("{}_{}", padding.integer(1), padding.integer(2)));
    if (interior) dimensions.back() += fmt::format("_{}", padding.integer(3));
  }
  if (!dimensions.empty()) {
    add("padding", fmt::format("{}", fmt::join(dimensions, "x")));
  }
}

Status Attributes::write_host_transfer() {
  const bool sends =
      is("send") || is("send-done") || is("recv") || is("recv-done");
  if (sends) {
    if (proto_.integer(26) > 0) add_number("channel_id", proto_.integer(26));
    add_flag("is_host_transfer", 47);
  }
  if (is("infeed") && !proto_.bytes(27).empty()) {
    add("infeed_config", quoted(proto_.bytes(27)));
  }
  if (!is("outfeed")) return {};
  std::string shape;
  if (const Status written = append_shape_text(proto_.bytes(29), true, shape);
      !written) {
    return written;
  }
  add("outfeed_shape", shape);
  if (!proto_.bytes(22).empty()) {
    add("outfeed_config", quoted(proto_.bytes(22)));
  }
  return {};
}

Status Attributes::write_custom_call() {
  write_window();
  write_convolution();
  if (proto_.integer(75) == 1) add("padding_type", "PADDING_VALID");
  if (proto_.integer(75) == 2) add("padding_type", "PADDING_SAME");
  add("custom_call_target", quoted(proto_.bytes(28)));
  if (proto_.flag(56)) {
    std::string shapes;
    for (const std::string_view shape : proto_.all_bytes(57)) {
      if (!shapes.empty()) shapes += ", ";
      if (const Status written = append_shape_text(shape, true, shapes);
          !written) {
        return written;
      }
    }
    add("operand_layout_constraints", "{" + shapes + "}");
  }
  add_flag("custom_call_has_side_effect", 65);
  write_aliasing();
  constexpr std::array<std::string_view, 3> kSchedules = {"", "SCHEDULE_LATEST",
                                                          "SCHEDULE_EARLIEST"};
  const auto schedule = static_cast<uint64_t>(proto_.integer(76));
  if (schedule > 0 && schedule < kSchedules.size()) {
    add("schedule", kSchedules[schedule]);
  }
  constexpr std::array<std::string_view, 5> kVersions = {
      "", "", "API_VERSION_STATUS_RETURNING",
      "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
  const auto version = static_cast<uint64_t>(proto_.integer(77));
  if (version >= 2 && version < kVersions.size()) {
    add("api_version", kVersions[version]);
  }
  return {};
}

void Attributes::write_aliasing() {
  std::vector<std::string> pairs;
  for (const std::string_view proto : proto_.all_bytes(74)) {
    const ProtoMessage pair(proto);
    pairs.push_back(
        fmt::format("{{{}}}: ({}, {{{}}})", fmt::join(pair.integers(1), ", "),
                    pair.integer(2), fmt::join(pair.integers(3), ", ")));
  }
  if (pairs.empty()) return;
  add("output_to_operand_aliasing",
      fmt::format("{{{}}}", fmt::join(pairs, ", ")));
}

void Attributes::write_async() {
  const std::string_view thread = proto_.bytes(79);
  if (opcode_.starts_with("async-") && !thread.empty() && thread != "main") {
    add("async_execution_thread", quoted(thread));
  }
}

void Attributes::add_computation(std::string_view name, int64_t id) {
  const std::string_view called = names_.computation(id);
  if (called.empty()) {
    wrong_ =
        fmt::format("calls computation {}, which is not in the module", id);
    return;
  }
  add(name, fmt::format("%{}", called));
}

void Attributes::write_called() {
  const std::vector<int64_t> called = proto_.integers(38);
  if (called.empty()) return;
  if (is("while") && called.size() == 2) {
    // The proto keeps the body first.
    add_computation("condition", called[1]);
    add_computation("body", called[0]);
  } else if (is("select-and-scatter") && called.size() == 2) {
    add_computation("select", called[0]);
    add_computation("scatter", called[1]);
  } else if (is("conditional") && called.size() == 2 && operand_type_ == 1) {
    add_computation("true_computation", called[0]);
    add_computation("false_computation", called[1]);
  } else if (is("conditional") || is("custom-call")) {
    std::string text;
    for (const int64_t id : called) {
      const std::string_view name = names_.computation(id);
      if (name.empty()) return add_computation("", id);
      text += fmt::format("{}%{}", text.empty() ? "" : ", ", name);
    }
    add(is("conditional") ? "branch_computations" : "called_computations",
        "{" + text + "}");
  } else {
    const bool calls = is("fusion") || opcode_.starts_with("async-");
    add_computation(calls ? "calls" : "to_apply", called[0]);
  }
}

void Attributes::write_common() {
  if (proto_.has(40)) {
    const std::string sharding = sharding_text(proto_.bytes(40));
    if (!sharding.empty()) add("sharding", sharding);
  }
  const std::string frontend = frontend_attributes_text(proto_.bytes(68));
  if (!frontend.empty()) add("frontend_attributes", frontend);
  std::string text;
  for (const int64_t id : proto_.integers(37)) {
    const std::string_view name = names_.instruction(id);
    if (name.empty()) {
      wrong_ =
          fmt::format("control predecessor {} is not in its computation", id);
      return;
    }
    text += fmt::format("{}%{}", text.empty() ? "" : ", ", name);
  }
  if (!text.empty()) add("control-predecessors", "{" + text + "}");
}

void Attributes::write_metadata() {
  const ProtoMessage metadata(proto_.bytes(7));
  std::string text;
  const auto string = [&](std::string_view name, uint32_t field) {
    const std::string_view value = metadata.bytes(field);
    if (!value.empty()) text += fmt::format(" {}={}", name, quoted(value));
  };
  string("op_type", 1);
  string("op_name", 2);
  string("source_file", 3);
  if (metadata.integer(4) != 0) {
    text += fmt::format(" source_line={}", metadata.integer(4));
  }
  string("deduplicated_name", 12);
  if (metadata.flag(13)) text += " preserve_layout=true";
  if (metadata.integer(15) != 0) {
    text += fmt::format(" stack_frame_id={}", metadata.integer(15));
  }
  if (!text.empty()) add("metadata", fmt::format("{{{}}}", text.substr(1)));
}

/// Whether XLA's lexer takes the text unquoted: a JSON object by its brackets
/// and strings.
bool is_json_object(std::string_view text) {
  if (text.size() < 2 || text.front() != '{') return false;
  int64_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      do {
        if (++i >= text.size()) return false;
        if (text[i] == '\\') ++i;
      } while (i < text.size() && text[i] != '"');
      if (i >= text.size()) return false;
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

void Attributes::write_backend_config() {
  const std::string_view config = proto_.bytes(43);
  if (config.empty()) return;
  if (is_json_object(config)) {
    add("backend_config", config);
  } else {
    add("backend_config", quoted(config));
  }
}

}  // namespace

Status append_attributes(const ProtoMessage& instruction,
                         const HloProtoNames& names, int64_t operand_type,
                         std::string& out) {
  return Attributes(instruction, names, operand_type, out).write();
}

}  // namespace reprise
