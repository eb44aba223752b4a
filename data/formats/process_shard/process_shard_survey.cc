// One walk that keeps what later records may refer to although it stands behind
// them in the file: launches by correlation, creations of graph nodes, calls of
// NCCL with their network steps and channels.
#include "data/formats/process_shard/process_shard_survey.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "data/collective/collective_names.h"
#include "data/formats/nccl_names.h"
#include "data/formats/nccl_profiler/nccl_profiler_calls.h"
#include "data/formats/ranks.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// Clones of clones are never so deep.
constexpr int kMostClones = 64;

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return json_text(value);
}

int64_t number_of(const Json& value, int64_t limit) {
  return value.is_number_integer() || value.is_string()
             ? number_within(text_of(value), limit, -1)
             : -1;
}

/// Takes a member into its field; false when there is none for it.
bool take_member(std::string_view key, const Json& value, NcclCallInfo& call) {
  if (key == "op") {
    call.kind = collective_named(text_of(value));
  } else if (key == "communicator") {
    call.communicator = text_of(value);
  } else if (key == "data_type") {
    call.type = element_type_named(text_of(value));
  } else if (key == "count") {
    call.count = number_of(value, kLargestCount);
  } else if (key == "rank") {
    call.rank = number_of(value, kLargestRank - 1);
  } else if (key == "ranks") {
    call.ranks = number_of(value, kLargestRank);
  } else if (key == "peer") {
    call.peer = number_of(value, kLargestRank - 1);
  } else {
    return false;
  }
  return true;
}

class Survey {
 public:
  explicit Survey(const ProcessShardContents& shard)
      : shard_(shard), is_of_nccl_(shard.identity().source == "nccl") {}

  Result<ShardSurvey> run() {
    Status read = shard_.each_segment([this](auto records) {
      for (const ProcessRecord& record : records) take(record);
    });
    if (!read) return pass(read.error());
    read = find_launches();
    if (!read) return pass(read.error());
    join_parts();
    return std::move(result_);
  }

 private:
  void take(const ProcessRecord& record);
  void take_kernel(const ProcessRecord& record);
  void take_graph_node(const ProcessRecord& record);
  void take_call(const ProcessRecord& record);
  void take_nccl_range(const ProcessRecord& record);
  void take_timer(const ProcessRecord& record);
  Status find_launches();
  void join_parts();
  bool is_nccl(uint32_t name);
  NcclCall& part(int64_t id) {
    NcclCall& call = parts_[id];
    call.id = id;
    return call;
  }

  const ProcessShardContents& shard_;
  bool is_of_nccl_;
  ShardSurvey result_;
  std::unordered_map<uint32_t, bool> nccl_names_;
  std::unordered_map<int64_t, NcclCall> parts_;  ///< Timers, network; by id.
};

bool Survey::is_nccl(uint32_t name) {
  const auto [place, is_new] = nccl_names_.try_emplace(name, false);
  if (is_new) place->second = is_nccl_kernel(shard_.text(name));
  return place->second;
}

void Survey::take_kernel(const ProcessRecord& record) {
  ++result_.kernels[record.device];
  if (!is_nccl(record.name)) return;
  result_.nccl_kernels.push_back({.correlation = record.correlation,
                                  .start_ns = record.start_ns,
                                  .end_ns = record.end_ns,
                                  .stream = record.stream,
                                  .device = record.device,
                                  .graph_node = record.graph_node,
                                  .name = record.name,
                                  .call_start_ns = record.start_ns,
                                  .call_end_ns = record.start_ns});
}

void Survey::take_graph_node(const ProcessRecord& record) {
  if (record.graph_node < 0) return;
  if (record.sequence >= 0) {
    result_.original_of_node[record.graph_node] = record.sequence;
    return;
  }
  result_.created_nodes[record.graph_node] = {record.stream, record.start_ns,
                                              record.end_ns};
  if (record.external_id >= 0) {
    result_.external_of_node[record.graph_node] = record.external_id;
  }
  if (record.name != 0) {
    result_.range_of_node[record.graph_node] = record.name;
  }
}

void Survey::take_call(const ProcessRecord& record) {
  ++result_.collectives;
  result_.nccl_calls.push_back(
      {.id = record.correlation,
       .group = record.graph_node,
       .api = record.external_id,
       .thread = record.stream,
       .start_ns = record.start_ns,
       .end_ns = record.end_ns,
       .bytes = std::max<int64_t>(0, record.bytes),
       .sequence = record.sequence,
       .is_outside_window = (record.flags & kOutsideWindow) != 0,
       .name = record.name,
       .info = record.info});
  const auto [info, is_new] = result_.call_infos.try_emplace(
      ShardSurvey::info_key(record.info, record.name));
  if (!is_new) return;
  info->second =
      parse_nccl_call(shard_.text(record.info), shard_.text(record.name));
  const NcclCallInfo& call = info->second;
  if (!call.communicator.empty() && call.rank >= 0 && call.rank < call.ranks) {
    result_.communicators[call.communicator] = {call.rank, call.ranks};
  }
}

/// Of NCCL's own ranges: groups of calls, and calls that graphs captured.
void Survey::take_nccl_range(const ProcessRecord& record) {
  if (!is_of_nccl_ || record.correlation < 0) return;
  if (shard_.text(record.name) == "ncclGroup") {
    result_.group_ends[record.correlation] = record.end_ns;
  } else if (shard_.text(record.info).find("\"graph_captured\":1") !=
             std::string_view::npos) {
    result_.captured_apis[record.correlation] = {record.stream, record.start_ns,
                                                 record.end_ns};
  }
}

/// A missing stop is -1; when the host saw the end bounds the GPU's clock.
void Survey::take_timer(const ProcessRecord& record) {
  if (record.start_ns <= 0 || record.end_ns < record.start_ns) return;
  NcclCall& call = part(record.correlation);
  call.timer.extend(record.start_ns, record.end_ns);
  int64_t ahead_ns = 0;
  if (record.sequence <= 0 ||
      __builtin_sub_overflow(record.end_ns, record.sequence, &ahead_ns)) {
    return;
  }
  call.timer_ahead_ns =
      std::max(call.timer_ahead_ns.value_or(ahead_ns), ahead_ns);
}

void Survey::take(const ProcessRecord& record) {
  const bool has_launch = record.kind <= RecordKind::kSynchronization ||
                          record.kind == RecordKind::kExternal;
  if (has_launch) {
    result_.largest_correlation =
        std::max(result_.largest_correlation, record.correlation);
  }
  switch (record.kind) {
    case RecordKind::kKernel:
      take_kernel(record);
      break;
    case RecordKind::kCopy:
    case RecordKind::kMemset:
      ++result_.device_work;
      break;
    case RecordKind::kCall:
    case RecordKind::kGraphLaunch:
      ++result_.calls;
      break;
    case RecordKind::kRange:
      take_nccl_range(record);
      ++result_.ranges;
      break;
    case RecordKind::kMark:
      ++result_.ranges;
      break;
    case RecordKind::kExternal:
      result_.external_of_correlation[record.correlation] = record.external_id;
      break;
    case RecordKind::kGraphNode:
      take_graph_node(record);
      break;
    case RecordKind::kCollective:
      take_call(record);
      break;
    case RecordKind::kNetworkStep: {
      NcclCall& call = part(record.correlation);
      if (record.flags != kNetworkTransfer) break;
      if (record.start_ns <= record.end_ns) {
        call.network.extend(record.start_ns, record.end_ns);
      }
      ++call.network_steps;
      const int64_t more = std::max<int64_t>(0, record.bytes);
      if (__builtin_add_overflow(call.network_bytes, more,
                                 &call.network_bytes)) {
        call.network_bytes = 0;
      }
      break;
    }
    case RecordKind::kDeviceTimer:
      take_timer(record);
      break;
    case RecordKind::kStep:
      ++result_.steps;
      break;
    case RecordKind::kSynchronization:
    case RecordKind::kOverhead:
      break;
  }
}

/// When and where NCCL's kernels were launched.
Status Survey::find_launches() {
  if (result_.nccl_kernels.empty()) return {};
  std::unordered_multimap<int64_t, size_t> wanted;
  for (size_t i = 0; i < result_.nccl_kernels.size(); ++i) {
    const int64_t correlation = result_.nccl_kernels[i].correlation;
    if (correlation >= 0) wanted.emplace(correlation, i);
  }
  Status read = shard_.each_segment([&](auto records) {
    for (const ProcessRecord& record : records) {
      const bool of_graph = record.kind == RecordKind::kGraphLaunch;
      if ((record.kind != RecordKind::kCall && !of_graph) ||
          record.end_ns < record.start_ns) {
        continue;
      }
      const auto [first, last] = wanted.equal_range(record.correlation);
      for (auto at = first; at != last; ++at) {
        NcclKernel& kernel = result_.nccl_kernels[at->second];
        kernel.call_start_ns = record.start_ns;
        kernel.call_end_ns = record.end_ns;
        if (!of_graph) kernel.thread = record.stream;
      }
    }
  });
  std::stable_sort(result_.nccl_kernels.begin(), result_.nccl_kernels.end(),
                   [](const NcclKernel& a, const NcclKernel& b) {
                     return std::tie(a.call_start_ns, a.correlation) <
                            std::tie(b.call_start_ns, b.correlation);
                   });
  return read;
}

void Survey::join_parts() {
  for (NcclCall& call : result_.nccl_calls) {
    const auto found = parts_.find(call.id);
    if (call.id < 0 || found == parts_.end()) continue;
    const NcclCall& rest = found->second;
    call.timer = rest.timer;
    call.timer_ahead_ns = rest.timer_ahead_ns;
    call.network = rest.network;
    call.network_bytes = rest.network_bytes;
    call.network_steps = rest.network_steps;
  }
  std::stable_sort(result_.nccl_calls.begin(), result_.nccl_calls.end(),
                   [](const NcclCall& a, const NcclCall& b) {
                     return std::tie(a.start_ns, a.id) <
                            std::tie(b.start_ns, b.id);
                   });
}

}  // namespace

int64_t ShardSurvey::original_of(int64_t graph_node) const {
  for (int depth = 0; depth < kMostClones; ++depth) {
    const auto original = original_of_node.find(graph_node);
    if (original == original_of_node.end()) break;
    graph_node = original->second;
  }
  return graph_node;
}

int64_t ShardSurvey::external_of(int64_t graph_node) const {
  const auto found = external_of_node.find(original_of(graph_node));
  return found == external_of_node.end() ? -1 : found->second;
}

uint32_t ShardSurvey::range_of(int64_t graph_node) const {
  const auto found = range_of_node.find(original_of(graph_node));
  return found == range_of_node.end() ? 0 : found->second;
}

NcclCallInfo parse_nccl_call(std::string_view info, std::string_view name) {
  NcclCallInfo call;
  const Json members = parse_json_or_discard<Json>(info);
  Json rest = Json::object();
  if (members.is_object()) {
    for (const auto& [key, value] : members.items()) {
      if (!take_member(key, value, call)) rest[key] = value;
    }
  }
  if (call.kind == CollectiveKind::kUnknown) {
    call.kind = collective_named(name);
  }
  if (!rest.empty()) {
    call.attributes = json_text(rest);
  }
  return call;
}

Result<ShardSurvey> survey_shard(const ProcessShardContents& shard) {
  return Survey(shard).run();
}

}  // namespace reprise
