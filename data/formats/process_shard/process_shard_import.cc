// A second walk over the shard, which meets every record with what the survey
// knows: a kernel with the calls of NCCL that it ran, a launch with the rank
// whose device it fed, a node of a graph with the range in which it was
// created. Cost: linear in the records.
#include "data/formats/process_shard/process_shard_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/formats/nccl_names.h"
#include "data/formats/ranks.h"
#include "data/formats/synchronization_name.h"
#include "data/io/json_text.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using nlohmann::json;

SynchronizationKind synchronization_kind(std::string_view word) {
  if (word == "event") return SynchronizationKind::kEvent;
  if (word == "stream-wait") return SynchronizationKind::kStreamWait;
  if (word == "stream") return SynchronizationKind::kStream;
  if (word == "device") return SynchronizationKind::kDevice;
  return SynchronizationKind::kUnknown;
}

int64_t member(const json& object, const char* key) {
  if (!object.is_object()) return -1;
  const auto found = object.find(key);
  const bool is_number = found != object.end() && found->is_number_integer();
  return is_number ? std::max<int64_t>(-1, found->get<int64_t>()) : -1;
}

}  // namespace

ProcessShardImport::ProcessShardImport(const std::vector<SurveyedShard>& shards,
                                       size_t place,
                                       const RecordedProcess& process,
                                       const NcclPairing& nccl,
                                       const CommunicatorMembers& members,
                                       RankImport& rank, TraceSpool& spool,
                                       FileReport& report)
    : shards_(shards),
      place_(place),
      shard_(shards[place]),
      process_(process),
      nccl_(nccl),
      members_(members),
      rank_(rank),
      spool_(spool),
      report_(report),
      strings_(shard_.contents.string_count()),
      has_string_(shard_.contents.string_count()) {}

Status ProcessShardImport::run() {
  if (Status learned = learn_devices(); !learned) return learned;
  Status read = shard_.contents.each_segment([this](auto records) {
    for (const ProcessRecord& record : records) take(record);
  });
  if (!read) return read;
  add_calls();
  rank_.take_correlations(shard_.survey.largest_correlation);
  if (graph_collectives_ > 0) {
    report_.missing.push_back(fmt::format(
        "{} collectives ran in CUDA graphs of which NCCL's calls are not "
        "known: their sizes and communicators are unknown.",
        graph_collectives_));
  }
  if (calls_alone_ > 0) {
    report_.missing.push_back(fmt::format(
        "Of {} NCCL calls only the host's part was recorded: neither a kernel "
        "nor a device timer tells when they ran.",
        calls_alone_));
  }
  return {};
}

/// Of a process that is several ranks, a host call is its who runs the work.
Status ProcessShardImport::learn_devices() {
  if (rank_.local_count() < 2) return {};
  return shard_.contents.each_segment([this](auto records) {
    for (const ProcessRecord& record : records) {
      const bool is_work = record.kind == RecordKind::kKernel ||
                           record.kind == RecordKind::kCopy ||
                           record.kind == RecordKind::kMemset;
      if (!is_work || record.correlation < 0) continue;
      local_of_correlation_.try_emplace(record.correlation,
                                        rank_.local_of_device(record.device));
    }
  });
}

uint32_t ProcessShardImport::local_of_correlation(int64_t correlation) const {
  const auto found = local_of_correlation_.find(correlation);
  return found == local_of_correlation_.end() ? rank_.first_local()
                                              : found->second;
}

int64_t ProcessShardImport::correlation_of(int64_t recorded) const {
  int64_t correlation = -1;
  if (recorded < 0 || __builtin_add_overflow(recorded, rank_.correlation_base(),
                                             &correlation)) {
    return -1;
  }
  return correlation;
}

int64_t ProcessShardImport::external_of(const ProcessRecord& record) const {
  if (record.external_id >= 0) return record.external_id;
  const ShardSurvey& survey = shard_.survey;
  if (record.graph_node >= 0) {
    const int64_t of_node = survey.external_of(record.graph_node);
    if (of_node >= 0) return of_node;
  }
  const auto found = survey.external_of_correlation.find(record.correlation);
  return found == survey.external_of_correlation.end()
             ? -1
             : std::max<int64_t>(-1, found->second);
}

StringId ProcessShardImport::string_of(uint32_t id, std::string_view fallback) {
  const std::string_view text = shard_.contents.text(id);
  if (text.empty()) {
    if (id != 0) ++report_.repaired["name lost with its segment"];
    return spool_.intern(fallback);
  }
  if (has_string_[id] == 0) {
    has_string_[id] = 1;
    strings_[id] = spool_.intern(text);
  }
  return strings_[id];
}

int32_t ProcessShardImport::text_attribute(uint32_t id) {
  const std::string_view text = shard_.contents.text(id);
  if (!text.starts_with('{')) return -1;
  return static_cast<int32_t>(index_of(string_of(id, "{}")));
}

/// Of a graph's node: the range in which it was created, and PyTorch's operator
/// where that is one.
void ProcessShardImport::set_origin(const ProcessRecord& record, Event& event) {
  const uint32_t range = shard_.survey.range_of(record.graph_node);
  const std::string_view name = shard_.contents.text(range);
  if (range == 0 || name.empty()) return;
  const auto torch = torch_range(name);
  if (torch && event.external_id < 0) event.external_id = torch->id;
  std::string attributes(shard_.contents.text(record.info));
  const bool is_object = attributes.size() > 2 && attributes.ends_with('}');
  attributes.erase(is_object ? attributes.size() - 1 : 0);
  attributes += fmt::format("{}\"created_in\":{}}}", is_object ? "," : "{",
                            json_quoted(torch ? torch->name : name));
  event.attributes = static_cast<int32_t>(index_of(spool_.intern(attributes)));
}

bool ProcessShardImport::start_event(const ProcessRecord& record,
                                     Event& event) {
  if (record.end_ns < record.start_ns) {
    ++report_.dropped["end before start"];
    return false;
  }
  event.enqueue_ns = event.start_ns = record.start_ns;
  event.end_ns = record.end_ns;
  event.correlation = correlation_of(record.correlation);
  event.bytes = std::max<int64_t>(0, record.bytes);
  return true;
}

void ProcessShardImport::add(const Event& event) {
  spool_.add(event);
  ++report_.events;
}

void ProcessShardImport::take(const ProcessRecord& record) {
  switch (record.kind) {
    case RecordKind::kKernel:
      return add_kernel(record);
    case RecordKind::kCopy:
      return add_device_work(record, EventKind::kCopy);
    case RecordKind::kMemset:
      return add_device_work(record, EventKind::kMemset);
    case RecordKind::kCall:
    case RecordKind::kGraphLaunch:
      return add_host(record, EventKind::kRuntime);
    case RecordKind::kSynchronization:
      return add_synchronization(record);
    case RecordKind::kRange:
    case RecordKind::kMark:
      return add_range(record);
    case RecordKind::kOverhead:
      return add_host(record, EventKind::kOverhead);
    case RecordKind::kExternal:
      ++report_.ignored["external correlation"];
      return;
    case RecordKind::kGraphNode:
      ++report_.ignored["graph node"];
      return;
    case RecordKind::kCollective:
      return;  // All calls at the end.
    case RecordKind::kNetworkStep:
      ++report_.ignored["network step (summed up in its call)"];
      return;
    case RecordKind::kDeviceTimer:
      ++report_.ignored["device timer (summed up in its call)"];
      return;
    case RecordKind::kStep:
      return add_step(record);
  }
  ++report_.dropped["record of an unknown kind"];
}

void ProcessShardImport::add_device_work(const ProcessRecord& record,
                                         EventKind kind) {
  Event event;
  if (!start_event(record, event)) return;
  event.rank = rank_.local_of_device(record.device);
  event.stream =
      rank_.device_stream(event.rank, process_, record.device, record.stream);
  event.kind = kind;
  event.name = string_of(record.name, kind == EventKind::kCopy     ? "Memcpy"
                                      : kind == EventKind::kMemset ? "Memset"
                                                                   : "kernel");
  event.external_id = external_of(record);
  event.graph_node = std::max<int64_t>(-1, record.graph_node);
  event.attributes = text_attribute(record.info);
  if (record.graph_node >= 0) set_origin(record, event);
  if (kind == EventKind::kCompute) {
    const KernelName& name = kernel_name(record.name);
    if (name.is_collective) {
      event.kind = EventKind::kCollective;
      event.detail = name.detail;
      const NcclKernelRun* run =
          nccl_.run_of(place_, record.correlation, record.graph_node);
      if (run != nullptr) {
        set_work(describe_calls(shards_, *run, members_), event);
      } else if (record.graph_node >= 0) {
        ++graph_collectives_;
      }
    }
  }
  add(event);
}

void ProcessShardImport::add_kernel(const ProcessRecord& record) {
  ++report_.kernels;
  if (kernel_name(record.name).is_collective) ++report_.collectives;
  add_device_work(record, EventKind::kCompute);
}

const ProcessShardImport::KernelName& ProcessShardImport::kernel_name(
    uint32_t id) {
  const auto [place, is_new] = kernel_names_.try_emplace(id);
  if (is_new) {
    const std::string_view text = shard_.contents.text(id);
    const auto collective = describe_collective_kernel(text);
    place->second.is_collective = collective.has_value();
    if (collective) place->second.detail = spool_.add_collective(*collective);
  }
  return place->second;
}

void ProcessShardImport::set_work(const NcclWork& work, Event& event) {
  event.bytes = work.bytes;
  event.sequence = work.sequence;
  event.detail = spool_.add_collective(work.info);
  if (!work.attributes.empty()) {
    event.attributes =
        static_cast<int32_t>(index_of(spool_.intern(work.attributes)));
  }
}

void ProcessShardImport::add_host(const ProcessRecord& record, EventKind kind) {
  Event event;
  if (!start_event(record, event)) return;
  const bool is_call = kind == EventKind::kRuntime;
  event.rank = local_of_correlation(record.correlation);
  event.stream = rank_.host_stream(event.rank, process_, record.stream);
  event.kind = kind;
  event.name = string_of(record.name, is_call ? "CUDA call" : "profiler");
  event.attributes = text_attribute(record.info);
  if (!is_call) event.correlation = -1;
  add(event);
}

const ProcessShardImport::RangeName& ProcessShardImport::range_name(
    const ProcessRecord& record) {
  const auto [place, is_new] =
      range_names_.try_emplace(ShardSurvey::info_key(record.info, record.name));
  RangeName& range = place->second;
  if (!is_new) return range;
  std::string_view text = shard_.contents.text(record.name);
  if (text.empty()) text = "(unnamed)";
  range.attributes = text_attribute(record.info);
  if (const auto torch = torch_range(text)) {
    range.kind = EventKind::kHostOp;
    range.external_id = torch->id;
    if (!torch->sizes.empty()) {
      const std::string sizes =
          fmt::format("{{\"sizes\":{}}}", json_quoted(torch->sizes));
      range.attributes = static_cast<int32_t>(index_of(spool_.intern(sizes)));
    }
    text = torch->name;
  }
  const CollectiveKind kind = kind_of_nccl_call(text);
  if (kind != CollectiveKind::kUnknown) {
    range.kind = EventKind::kHostOp;
    range.detail = spool_.add_collective({.kind = kind});
  }
  if (record.kind == RecordKind::kRange) range.step = step_range(text);
  range.name = spool_.intern(text);
  return range;
}

void ProcessShardImport::add_range(const ProcessRecord& record) {
  if ((record.flags & kOutsideWindow) != 0) {
    ++report_.ignored["call outside the window, captured into a graph"];
    return;
  }
  Event event;
  if (!start_event(record, event)) return;
  const RangeName& range = range_name(record);
  const bool nests =
      record.kind == RecordKind::kMark || (record.flags & 1) == 0;
  event.rank = rank_.first_local();
  event.stream = nests ? rank_.host_stream(event.rank, process_, record.stream)
                       : rank_.range_stream(event.rank, process_);
  event.kind = range.kind;
  event.name = range.name;
  event.correlation = -1;
  event.external_id = range.external_id;
  event.detail = range.detail;
  event.attributes = range.attributes;
  add(event);
  if (!range.step) return;
  StepRange step = *range.step;
  step.start_ns = event.start_ns;
  step.end_ns = event.end_ns;
  rank_.add_step_range(std::move(step));
}

void ProcessShardImport::add_synchronization(const ProcessRecord& record) {
  Event event;
  if (!start_event(record, event)) return;
  const json info =
      parse_json_or_discard<json>(shard_.contents.text(record.info));
  SynchronizationInfo waited;
  if (info.is_object() && info.contains("kind") && info["kind"].is_string()) {
    waited.kind = synchronization_kind(info["kind"].get<std::string>());
  }
  waited.waited_stream = member(info, "waited_stream");
  waited.waited_correlation =
      correlation_of(member(info, "waited_correlation"));
  event.kind = EventKind::kSynchronization;
  event.name = string_of(record.name, synchronization_name(waited.kind));
  // CUPTI names the context, of which it need not have told the device.
  const int32_t device =
      record.device < 0 ? rank_.first_device() : record.device;
  waited.stream = std::max<int64_t>(-1, record.stream);
  event.rank = rank_.local_of_device(device);
  event.stream =
      rank_.device_stream(event.rank, process_, device, waited.stream);
  event.detail = spool_.add_synchronization(waited);
  add(event);
}

void ProcessShardImport::add_step(const ProcessRecord& record) {
  constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();
  if (record.end_ns < record.start_ns || record.sequence < 0 ||
      record.sequence > kMostSteps) {
    ++report_.dropped["step without a number or an end"];
    return;
  }
  ++report_.ignored["step mark"];
  rank_.add_step({.step = static_cast<int32_t>(record.sequence),
                  .start_ns = record.start_ns,
                  .end_ns = record.end_ns,
                  .warmup = (record.flags & 1) != 0});
}

void ProcessShardImport::add_calls() {
  for (size_t i = 0; i < shard_.survey.nccl_calls.size(); ++i) {
    add_call({place_, i});
  }
}

/// The host's part of a call as an op; and where no kernel is known to have
/// run it, its time on the device by the device's own timer.
void ProcessShardImport::add_call(NcclCallPlace place) {
  const NcclCall& call = shard_.survey.nccl_calls[place.call];
  if (call.is_outside_window) {
    ++report_.ignored["call outside the window, captured into a graph"];
    return;
  }
  if (call.end_ns < call.start_ns) {
    ++report_.dropped["end before start"];
    return;
  }
  const NcclWork work = describe_calls(shards_, {.calls = {place}}, members_);
  Event event;
  event.rank = rank_.first_local();
  event.stream = rank_.host_stream(event.rank, process_, call.thread);
  event.kind = EventKind::kHostOp;
  event.name = string_of(call.name, "NCCL call");
  event.enqueue_ns = event.start_ns = call.start_ns;
  event.end_ns = call.end_ns;
  set_work(work, event);
  add(event);
  if (nccl_.has_kernel(place)) return;
  if (call.timer.is_set() && nccl_.timer().is_known()) {
    add_timed_call(place, work);
  } else {
    ++calls_alone_;
  }
}

void ProcessShardImport::add_timed_call(NcclCallPlace place,
                                        const NcclWork& work) {
  const NcclCall& call = shard_.survey.nccl_calls[place.call];
  Event event;
  event.rank = rank_.first_local();
  event.stream = rank_.communication_stream(event.rank);
  event.kind = EventKind::kCollective;
  event.name = string_of(call.name, "NCCL call");
  event.start_ns = nccl_.timer().host_ns(call.timer.start_ns);
  event.end_ns =
      std::max(event.start_ns, nccl_.timer().host_ns(call.timer.end_ns));
  event.enqueue_ns = std::min(call.start_ns, event.start_ns);
  set_work(work, event);
  spool_.add(event);
  ++report_.collectives;
}

}  // namespace reprise
