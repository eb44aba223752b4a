// Arguments are found by one walk over them, by name; only events whose name
// tells something are read at all. Where PyTorch abbreviates a long list of
// ranks ("[0, 1, …, 127]"), first rank, stride and size stand in for it, or
// what another event said of the same group. Source: ParamCommsUtils.hpp of
// PyTorch and output_json.cpp of Kineto, from 1.8 to 2.8.
#include "data/formats/kineto/kineto_details.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/collective/collective_names.h"
#include "data/formats/synchronization_name.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Members of groups that all collectives of a file may hold together.
constexpr size_t kMostMembers = size_t{1} << 24;
constexpr int64_t kLargestGroup = int64_t{1} << 20;
/// Groups are counted from 0; a number above is an address.
/// Source: ProcessGroupNCCL.cpp of PyTorch 1.12 to 2.1 records
/// reinterpret_cast<std::intptr_t>(this).
constexpr int64_t kLeastAddress = int64_t{1} << 32;
/// A longer argument is not kept as attribute.
constexpr size_t kLongestAttribute = 4096;

struct ArgumentName {
  std::string_view name;
  std::string_view KinetoDetails::*field;
};

constexpr ArgumentName kArguments[] = {
    {"Collective name", &KinetoDetails::collective},
    {"dtype", &KinetoDetails::data_type},
    {"In msg nelems", &KinetoDetails::input_elements},
    {"Out msg nelems", &KinetoDetails::output_elements},
    {"Group size", &KinetoDetails::group_size},
    {"Process Group Name", &KinetoDetails::group_name},
    {"Process Group ID", &KinetoDetails::group_id},
    {"Process Group Ranks", &KinetoDetails::group_ranks},
    {"Global rank start", &KinetoDetails::rank_start},
    {"Global rank stride", &KinetoDetails::rank_stride},
    {"Seq", &KinetoDetails::sequence},
    {"Src Rank", &KinetoDetails::source_rank},
    {"Dst Rank", &KinetoDetails::destination_rank},
    {"Input Dims", &KinetoDetails::input_dims},
    {"Input dims", &KinetoDetails::input_dims},
    {"Input Strides", &KinetoDetails::input_strides},
    {"Input type", &KinetoDetails::input_types},
    {"Concrete Inputs", &KinetoDetails::concrete_inputs},
    {"Sequence number", &KinetoDetails::autograd_sequence},
    {"Fwd thread id", &KinetoDetails::forward_thread},
    {"cuda_sync_kind", &KinetoDetails::sync_kind},
    {"stream", &KinetoDetails::stream},
    {"wait_on_stream", &KinetoDetails::waited_stream},
    {"wait_on_cuda_event_record_corr_id", &KinetoDetails::waited_correlation},
};

int64_t number_or(std::string_view text, int64_t otherwise) {
  return parse_integer(text).value_or(otherwise);
}

/// Ranks of "[0, 1]"; nothing if the list is abbreviated or no list.
std::vector<uint32_t> listed_ranks(std::string_view text) {
  std::vector<uint32_t> ranks;
  const std::string list = json_unescaped(text);
  JsonScanner scanner(list);
  while (scanner.next()) {
    const int64_t rank = number_or(scanner.value(), -1);
    if (rank < 0 || rank > kLargestGroup) return {};
    ranks.push_back(static_cast<uint32_t>(rank));
  }
  if (scanner.broken()) return {};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<uint32_t> strided_ranks(const KinetoDetails& details) {
  const int64_t start = number_or(details.rank_start, -1);
  const int64_t stride = number_or(details.rank_stride, -1);
  const int64_t size = number_or(details.group_size, -1);
  if (start < 0 || stride <= 0 || size <= 0 || start > kLargestGroup ||
      size > kLargestGroup || stride > kLargestGroup / size) {
    return {};
  }
  std::vector<uint32_t> ranks;
  for (int64_t i = 0; i < size; ++i) {
    ranks.push_back(static_cast<uint32_t>(start + i * stride));
  }
  return ranks;
}

/// Elements of a tensor of these dimensions, -1 if they are none; of a list of
/// tensors together.
int64_t elements_of(std::string_view dims) {
  JsonScanner scanner(dims);
  int64_t product = 1, sum = 0;
  bool tensors = false, any = false;
  while (scanner.next()) {
    any = true;
    int64_t elements = 0;
    if (scanner.value()[0] == '[') {
      tensors = true;
      // One level deeper and no further: nothing is nested more.
      JsonScanner inner(scanner.value());
      elements = 1;
      while (inner.next()) {
        const int64_t extent = number_or(inner.value(), -1);
        if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) {
          return -1;
        }
      }
      if (__builtin_add_overflow(sum, elements, &sum)) return -1;
      continue;
    }
    const int64_t extent = number_or(scanner.value(), -1);
    if (extent < 0 || __builtin_mul_overflow(product, extent, &product)) {
      return -1;
    }
  }
  return !any ? -1 : tensors ? sum : product;
}

std::string_view first_of(std::string_view list) {
  JsonScanner scanner(list);
  return scanner.next() ? scanner.value() : std::string_view();
}

std::vector<std::string_view> all_of(std::string_view list) {
  std::vector<std::string_view> values;
  JsonScanner scanner(list);
  while (scanner.next()) values.push_back(scanner.value());
  return values;
}

/// The arguments of record_param_comms itself, recorded with shapes before it
/// described itself: [tensors, seq, group, rank, op, in splits, out splits,
/// world size] and later [… start, stride, world size].
void take_concrete_inputs(const KinetoDetails& details,
                          KinetoCollective& collective) {
  const std::vector<std::string_view> inputs = all_of(details.concrete_inputs);
  if (inputs.size() != 8 && inputs.size() != 10) return;
  CollectiveInfo& info = collective.info;
  if (collective.sequence < 0) collective.sequence = number_or(inputs[1], -1);
  if (info.communicator.empty()) info.communicator = json_unescaped(inputs[2]);
  if (info.kind == CollectiveKind::kUnknown) {
    info.kind = collective_named(inputs[4]);
  }
  if (info.group_size < 0) info.group_size = number_or(inputs.back(), -1);
}

/// A tensor has a type where a scalar, as anything that is no tensor, has no
/// dimensions.
void take_shapes(const KinetoDetails& details, CollectiveInfo& info) {
  const std::string_view dims = first_of(details.input_dims);
  const auto type =
      element_type_named(json_unescaped(first_of(details.input_types)));
  if (info.input_elements < 0) {
    const bool is_scalar =
        type && dims.starts_with('[') && !JsonScanner(dims).next();
    info.input_elements = is_scalar ? 1 : elements_of(dims);
  }
  if (!info.type) info.type = type;
}

int64_t payload_bytes(const CollectiveInfo& info) {
  const int64_t elements = std::max(info.input_elements, info.output_elements);
  int64_t bytes = 0;
  if (elements <= 0 ||
      __builtin_mul_overflow(elements, element_bytes(info.type), &bytes)) {
    return 0;
  }
  return bytes;
}

/// Of all ranks, also where the group is of a few (PyTorch's saveNcclMeta).
int32_t peer_of(const KinetoDetails& details, CollectiveKind kind) {
  std::string_view text;
  if (kind == CollectiveKind::kSend) text = details.destination_rank;
  if (kind == CollectiveKind::kReceive) text = details.source_rank;
  const int64_t rank = number_or(text, -1);
  if (rank < 0 || rank > kLargestGroup) return -1;
  return static_cast<int32_t>(rank);
}

void append_member(std::string& object, std::string_view name,
                   std::string_view value) {
  if (value.empty() || value.size() > kLongestAttribute ||
      !nlohmann::json::accept(value)) {
    return;
  }
  object += object.empty() ? "{\"" : ",\"";
  object.append(name).append("\":");
  bool in_string = false;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c == '"') in_string = !in_string;
    if (in_string || !is_json_space(c)) object += c;
    if (c == '\\') object += value[++i];
  }
}

/// An entry of pg_config.
std::pair<std::string, std::vector<uint32_t>> named_group(
    std::string_view object) {
  std::pair<std::string, std::vector<uint32_t>> found;
  JsonScanner group(object);
  while (group.next()) {
    if (group.key() == "pg_name") found.first = json_unescaped(group.value());
    if (group.key() == "ranks") found.second = listed_ranks(group.value());
  }
  return found;
}

/// "94187305713168" or "0x55a9d3f2b8d0": a hash, which all ranks know, is
/// longer.
bool is_address(std::string_view name) {
  if (!name.starts_with("0x")) return number_or(name, 0) >= kLeastAddress;
  int64_t address = 0;
  const auto [end, error] =
      std::from_chars(name.data() + 2, name.data() + name.size(), address, 16);
  return error == std::errc() && end == name.data() + name.size() &&
         address >= kLeastAddress;
}

}  // namespace

KinetoDetails kineto_details(std::string_view arguments) {
  KinetoDetails details;
  JsonScanner members(arguments);
  while (members.next()) {
    for (const ArgumentName& one : kArguments) {
      if (one.name == members.key()) details.*one.field = members.value();
    }
  }
  return details;
}

bool tell_collective(std::string_view arguments) {
  const std::string name = json_unescaped(kineto_details(arguments).collective);
  return collective_named(name) != CollectiveKind::kUnknown;
}

void KinetoGroups::learn(std::string_view distributed_info) {
  JsonScanner members(distributed_info);
  while (members.next()) {
    const std::string_view key = members.key(), value = members.value();
    if (key == "rank") rank_ = number_or(value, -1);
    if (key == "world_size") world_size_ = number_or(value, -1);
    if (key == "backend") backend_ = json_unescaped(value);
    if (key != "pg_config") continue;
    JsonScanner groups(value);
    while (groups.next()) {
      auto [name, ranks] = named_group(groups.value());
      if (!ranks.empty()) named_[name] = std::move(ranks);
    }
  }
  if (rank_ > kLargestGroup) rank_ = -1;
}

/// A file of lists must not grow in memory beyond its own size.
std::vector<uint32_t> KinetoGroups::limited(std::vector<uint32_t> ranks) {
  if (ranks.size() > kMostMembers - handed_out_) return {};
  handed_out_ += ranks.size();
  return ranks;
}

std::vector<uint32_t> KinetoGroups::members(const KinetoDetails& details) {
  const std::string name = json_unescaped(details.group_name);
  std::vector<uint32_t> ranks = listed_ranks(details.group_ranks);
  const int64_t size = number_or(details.group_size, -1);
  const bool whole = !ranks.empty() &&
                     (size <= 0 || static_cast<int64_t>(ranks.size()) == size);
  if (whole) return limited(std::move(ranks));
  ranks = strided_ranks(details);
  if (ranks.empty()) {
    if (const auto known = named_.find(name); known != named_.end()) {
      ranks = known->second;
    }
  }
  return limited(std::move(ranks));
}

std::optional<KinetoCollective> kineto_collective(const KinetoDetails& details,
                                                  CollectiveKind kind,
                                                  KinetoGroups& groups) {
  KinetoCollective collective;
  CollectiveInfo& info = collective.info;
  info.kind = kind;
  bool own_barrier = false;
  if (!details.collective.empty()) {
    constexpr CollectiveKind kUnknown = CollectiveKind::kUnknown;
    const CollectiveKind told =
        collective_named(json_unescaped(details.collective));
    // A kernel says more by its name than by "coalesced"; a wait is none.
    if (told == kUnknown && kind == kUnknown) return std::nullopt;
    own_barrier = kind == CollectiveKind::kBarrier && told != kUnknown;
    if (told != kUnknown && !own_barrier) info.kind = told;
  }
  info.communicator = json_unescaped(
      details.group_name.empty() ? details.group_id : details.group_name);
  info.type = element_type_named(json_unescaped(details.data_type));
  info.input_elements = number_or(details.input_elements, -1);
  info.output_elements = number_or(details.output_elements, -1);
  info.group_size = number_or(details.group_size, -1);
  info.group = groups.members(details);
  if (info.group_size < 0 && !info.group.empty()) {
    info.group_size = static_cast<int64_t>(info.group.size());
  }
  collective.sequence = number_or(details.sequence, -1);
  take_concrete_inputs(details, collective);
  if (is_address(info.communicator)) {
    info.communicator.clear();
    collective.group_is_address = true;
  }
  // oneCCL's kernels within a call: what that moves is another one's.
  if (own_barrier) {
    info.input_elements = info.output_elements = -1;
    collective.sequence = -1;
    return collective;
  }
  take_shapes(details, info);
  info.peer = peer_of(details, info.kind);
  collective.bytes = payload_bytes(info);
  return collective;
}

SynchronizationInfo kineto_synchronization(const KinetoDetails& details) {
  constexpr int64_t kInvalidStream = std::numeric_limits<uint32_t>::max();
  const auto known = [](std::string_view text) {
    const int64_t number = number_or(text, -1);
    return number == kInvalidStream ? -1 : number;
  };
  SynchronizationInfo info;
  info.kind = synchronization_of_name(json_unescaped(details.sync_kind));
  info.stream = known(details.stream);
  info.waited_stream = known(details.waited_stream);
  info.waited_correlation = known(details.waited_correlation);
  return info;
}

std::string kineto_attributes(const KinetoDetails& details) {
  std::string object;
  append_member(object, "input_dims", details.input_dims);
  append_member(object, "input_types", details.input_types);
  append_member(object, "concrete_inputs", details.concrete_inputs);
  append_member(object, "sequence_number", details.autograd_sequence);
  append_member(object, "forward_thread_id", details.forward_thread);
  if (!object.empty()) object += '}';
  return object;
}

std::string kineto_shapes(const KinetoDetails& details) {
  std::string object;
  append_member(object, "input_dims", details.input_dims);
  append_member(object, "input_strides", details.input_strides);
  append_member(object, "input_types", details.input_types);
  if (!object.empty()) object += '}';
  return object;
}

}  // namespace reprise
