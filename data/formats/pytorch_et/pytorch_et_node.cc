// The schema has changed every year: members flat or in `attrs`, inputs as
// objects or as bare values, tensors of five or six numbers. All of them are
// told by what stands there, not by the version that the file claims. Source:
// execution_trace_observer.cpp of PyTorch, schemas from 1.0.1 on, and "ET+" of
// Chakra's converter.
#include "data/formats/pytorch_et/pytorch_et_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/collective/collective_names.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"
#include "data/trace/trace_spool.h"

namespace reprise {
namespace {

int64_t integer(std::string_view value, int64_t otherwise) {
  return parse_integer(value).value_or(otherwise);
}

/// Members that are the same whether flat or in `attrs`.
void take_member(std::string_view key, std::string_view value, EtNode& node) {
  if (key == "rf_id") {
    node.record_function = integer(value, 0);
  } else if (key == "fw_parent") {
    node.forward_parent = integer(value, 0);
  } else if (key == "seq_id") {
    node.sequence = integer(value, -1);
  } else if (key == "scope") {
    node.scope = integer(value, 0);
  } else if (key == "tid") {
    node.thread = integer(value, 0);
  } else if (key == "collective_name") {
    node.collective = json_unescaped(value);
  } else if (key == "dtype") {
    node.data_type = json_unescaped(value);
  } else if (key == "in_msg_nelems") {
    node.input_elements = integer(value, -1);
  } else if (key == "out_msg_nelems") {
    node.output_elements = integer(value, -1);
  } else if (key == "pg_size") {
    node.group_size = integer(value, -1);
  } else if (key == "pg_name") {
    node.group_name = json_unescaped(value);
  } else if (key == "global_rank_start") {
    node.rank_start = integer(value, -1);
  } else if (key == "global_rank_stride") {
    node.rank_stride = integer(value, -1);
  }
}

void take_attrs(std::string_view array, EtNode& node) {
  JsonScanner attrs(array);
  while (attrs.next()) {
    std::string_view name, value;
    JsonScanner members(attrs.value());
    while (members.next()) {
      if (members.key() == "name") name = members.value();
      if (members.key() == "value") value = members.value();
    }
    if (name.size() > 2)
      take_member(name.substr(1, name.size() - 2), value, node);
  }
}

/// {"values": […], "shapes": […], "types": […]}, or the values alone (1.0.1).
void take_inputs(std::string_view value, EtNode& node) {
  if (!value.starts_with('{')) {
    node.inputs = value;
    return;
  }
  JsonScanner members(value);
  while (members.next()) {
    if (members.key() == "values") node.inputs = members.value();
    if (members.key() == "shapes") node.input_shapes = members.value();
    if (members.key() == "types") node.input_types = members.value();
  }
}

void take_outputs(std::string_view value, EtNode& node) {
  node.outputs = value;
  if (!value.starts_with('{')) return;
  JsonScanner members(value);
  while (members.next()) {
    if (members.key() == "values") node.outputs = members.value();
  }
}

/// Kineto's args of device work.
void take_args(std::string_view object, EtNode& node) {
  JsonScanner members(object);
  while (members.next()) {
    const std::string_view key = members.key();
    if (key == "stream") node.stream = integer(members.value(), -1);
    if (key == "device") node.device = integer(members.value(), -1);
    if (key == "correlation") node.correlation = integer(members.value(), -1);
    if (key == "bytes") node.device_bytes = integer(members.value(), -1);
  }
}

/// ctrl_deps is the parent; in "ET+" it may be a list of ids.
void take_parent(std::string_view value, EtNode& node) {
  if (!value.starts_with('[')) {
    node.parent = integer(value, -1);
    return;
  }
  JsonScanner ids(value);
  while (ids.next()) node.dependencies.push_back(integer(ids.value(), -1));
}

void take_dependency(std::string_view value, EtNode& node) {
  const auto id = parse_integer(value);
  if (id && *id > 0) node.dependencies.push_back(*id);
}

/// Tensors of a value: [id, storage, offset, elements, element bytes, device].
struct Tensors {
  int64_t elements = 0, bytes = 0;
};

/// Whether the list is a tensor; adds it then.
bool add_tensor(std::string_view list, Tensors& sum) {
  constexpr size_t kNumbers = 5;
  constexpr int64_t kLargest = int64_t{1} << 48;
  constexpr int64_t kLargestElement = 64;
  std::array<int64_t, kNumbers> numbers{};
  size_t at = 0;
  JsonScanner scanner(list);
  while (at < kNumbers && scanner.next()) {
    const auto number = parse_integer(scanner.value());
    if (!number || scanner.value().starts_with('"')) return false;
    numbers[at++] = *number;
  }
  if (at < kNumbers || !scanner.next()) return false;
  if (!scanner.value().starts_with('"')) return false;
  const int64_t elements = numbers[3], size = numbers[4];
  if (elements < 0 || elements > kLargest || size < 0 ||
      size > kLargestElement || sum.elements > kLargest) {
    return true;
  }
  sum.elements += elements;
  sum.bytes += elements * size;
  return true;
}

/// Lists of lists of tensors are three deep in real files; what is nested
/// deeper is not looked at.
Tensors tensors_in(std::string_view value) {
  constexpr int kDeepest = 5;
  Tensors sum;
  std::vector<std::pair<std::string_view, int>> lists = {{value, 0}};
  while (!lists.empty()) {
    const auto [list, depth] = lists.back();
    lists.pop_back();
    if (add_tensor(list, sum) || depth == kDeepest) continue;
    JsonScanner items(list);
    while (items.next()) {
      if (items.value().starts_with('[')) {
        lists.emplace_back(items.value(), depth + 1);
      }
    }
  }
  return sum;
}

/// What record_param_comms was given, by place.
struct Call {
  std::string name;
  Tensors tensors;
  int64_t sequence = -1, rank = -1;
  std::string group, group_description;  ///< A pointer's digits, or names.
  int64_t start = -1, stride = -1, size = -1;
};

/// [tensors, sequence, group, rank, name, input splits, output splits, start,
/// stride, size]; the last three are missing or only the size is there, and
/// "wait" and the like have no tensors.
std::optional<Call> call_in(std::string_view inputs) {
  constexpr size_t kMostItems = 16;
  std::vector<std::string_view> items;
  JsonScanner scanner(inputs);
  while (items.size() < kMostItems && scanner.next()) {
    items.push_back(scanner.value());
  }
  const auto name =
      std::find_if(items.begin(), items.end(),
                   [](std::string_view i) { return i.starts_with('"'); });
  if (name == items.end() || name - items.begin() < 3) return std::nullopt;
  Call call;
  call.name = json_unescaped(*name);
  call.rank = integer(name[-1], -1);
  call.group = name[-2];
  if (call.group.starts_with('[')) {
    JsonScanner names(name[-2]);
    call.group = names.next() ? json_unescaped(names.value()) : "";
    if (names.next()) call.group_description = json_unescaped(names.value());
  }
  call.sequence = integer(name[-3], -1);
  if (name - items.begin() >= 4) call.tensors = tensors_in(name[-4]);
  const auto after = items.end() - name;
  if (after == 4) call.size = integer(name[3], -1);
  if (after >= 6) {
    call.start = integer(name[3], -1);
    call.stride = integer(name[4], -1);
    call.size = integer(name[5], -1);
  }
  return call;
}

/// "Tensor(float)" within "GenericList[Tensor(float)]".
std::string_view tensor_type(std::string_view types) {
  constexpr std::string_view kTensor = "Tensor(";
  const size_t at = types.find(kTensor);
  if (at == std::string_view::npos) return {};
  const size_t end = types.find(')', at);
  if (end == std::string_view::npos) return {};
  return types.substr(at + kTensor.size(), end - at - kTensor.size());
}

std::vector<uint32_t> members_of(const Call& call, const EtGroups& groups) {
  constexpr int64_t kLargestGroup = 1 << 17;
  const auto listed = groups.find(call.group);
  if (listed != groups.end() && !listed->second.ranks.empty()) {
    return listed->second.ranks;
  }
  std::vector<uint32_t> ranks;
  if (call.start < 0 || call.stride < 1 || call.size < 1 ||
      call.size > kLargestGroup || call.start > kLargestGroup ||
      call.stride > kLargestGroup) {
    return ranks;
  }
  for (int64_t i = 0; i < call.size; ++i) {
    ranks.push_back(static_cast<uint32_t>(call.start + i * call.stride));
  }
  return ranks;
}

int32_t peer_of(const Call& call, const std::vector<uint32_t>& group) {
  if (call.rank < 0 || call.rank > INT32_MAX) return -1;
  const auto place = static_cast<size_t>(call.rank);
  if (place < group.size()) return static_cast<int32_t>(group[place]);
  return static_cast<int32_t>(call.rank);
}

/// Whether anybody may parse it, recursively too.
bool is_shallow(std::string_view json) {
  constexpr int kDeepest = 16;
  int depth = 0, deepest = 0;
  for (const char c : json) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    deepest = std::max(deepest, depth);
  }
  return deepest <= kDeepest;
}

void append_json(std::string_view key, std::string_view value,
                 std::string& text) {
  constexpr size_t kLongest = 64 << 10;
  if (value.empty() || value == "[]" || value == "{}") return;
  if (value.size() > kLongest || !is_shallow(value)) return;
  if (!nlohmann::json::accept(value)) return;
  text += text.empty() ? "{" : ", ";
  text.append("\"").append(key).append("\": ").append(value);
}

void append_number(std::string_view key, int64_t value, int64_t unknown,
                   std::string& text) {
  if (value != unknown) append_json(key, fmt::format("{}", value), text);
}

}  // namespace

bool read_et_node(std::string_view record, EtNode& node) {
  node.clear();
  JsonScanner members(record);
  while (members.next()) {
    const std::string_view key = members.key(), value = members.value();
    if (key == "id") {
      node.id = integer(value, -1);
    } else if (key == "name") {
      node.name = json_unescaped(value);
    } else if (key == "parent" || key == "ctrl_deps") {
      take_parent(value, node);
    } else if (key == "inputs") {
      take_inputs(value, node);
    } else if (key == "outputs") {
      take_outputs(value, node);
    } else if (key == "input_shapes") {
      node.input_shapes = value;
    } else if (key == "input_types") {
      node.input_types = value;
    } else if (key == "attrs") {
      take_attrs(value, node);
    } else if (key == "args") {
      take_args(value, node);
    } else if (key == "ts") {
      node.start_ns = parse_microseconds(value);
    } else if (key == "dur" || key == "inclusive_dur") {
      node.duration_ns = parse_microseconds(value);
    } else if (key == "cat") {
      node.category = json_unescaped(value);
    } else if (key == "stream") {
      node.stream = integer(value, -1);
    } else if (key == "inter_thread_dep" || key == "sync_dep") {
      take_dependency(value, node);
    } else {
      take_member(key, value, node);
    }
  }
  return node.id >= 0;
}

std::optional<EtCollective> collective_of(const EtNode& node,
                                          const EtGroups& groups) {
  if (node.name != "record_param_comms") return std::nullopt;
  const std::optional<Call> call = call_in(node.inputs);
  if (!call) return std::nullopt;
  const CollectiveKind kind = collective_named(call->name);
  if (kind == CollectiveKind::kUnknown || call->name == "wait") {
    return std::nullopt;
  }
  EtCollective result;
  CollectiveInfo& info = result.info;
  info.kind = kind;
  info.communicator = node.group_name.empty() ? call->group : node.group_name;
  info.type = element_type_named(
      node.data_type.empty() ? tensor_type(node.input_types) : node.data_type);
  info.group = members_of(*call, groups);
  info.group_size = node.group_size >= 0 ? node.group_size : call->size;
  const Tensors outputs = tensors_in(node.outputs);
  const bool counted = node.input_elements >= 0;
  info.input_elements = counted ? node.input_elements : call->tensors.elements;
  info.output_elements = counted ? node.output_elements : outputs.elements;
  if (is_message(kind)) info.peer = peer_of(*call, info.group);
  result.bytes = std::max(call->tensors.bytes, outputs.bytes);
  result.sequence = call->sequence;
  // Where others have this rank, the root's or the peer's stands.
  if (!facts_of(kind).names_rank) result.group_rank = call->rank;
  result.default_group =
      call->group_description == "default_pg" || call->group == "0";
  return result;
}

void take_groups(const EtNode& node, EtGroups& groups) {
  JsonScanner values(node.inputs);
  if (!values.next()) return;
  const std::string list = json_unescaped(values.value());
  JsonScanner entries(list);
  while (entries.next()) {
    std::string name;
    EtGroup group;
    JsonScanner members(entries.value());
    while (members.next()) {
      if (members.key() == "pg_name") name = json_unescaped(members.value());
      if (members.key() == "group_size") {
        group.size = integer(members.value(), -1);
      }
      if (members.key() != "ranks") continue;
      JsonScanner ranks(members.value());
      while (ranks.next()) {
        const int64_t rank = integer(ranks.value(), -1);
        if (rank >= 0 && rank < kUnknownRank) {
          group.ranks.push_back(static_cast<uint32_t>(rank));
        }
      }
    }
    std::sort(group.ranks.begin(), group.ranks.end());
    group.ranks.erase(std::unique(group.ranks.begin(), group.ranks.end()),
                      group.ranks.end());
    groups[name] = std::move(group);
  }
}

std::string attributes_of(const EtNode& node) {
  std::string text;
  append_number("rf_id", node.record_function, 0, text);
  append_number("seq_id", node.sequence, -1, text);
  append_number("fw_parent", node.forward_parent, 0, text);
  append_json("input_dims", node.input_shapes, text);
  append_json("input_types", node.input_types, text);
  if (!text.empty()) text += "}";
  return text;
}

}  // namespace reprise
