// NCCL's handles become numbers above a fixed start, so that they are never
// taken for CUPTI's correlations; times are those of the host, and what a
// record's fields cannot hold is JSON beside it, made once for equal texts.
#include "profiler/nccl/event_writer.h"

#include <cinttypes>
#include <cstdio>

#include "data/io/json_text.h"

namespace reprise {
namespace {

ProcessRecord record_of(const NcclEvent& event, RecordKind kind) {
  ProcessRecord record;
  record.kind = kind;
  record.start_ns = event.start_ns;
  record.end_ns = event.end_ns;
  record.correlation = nccl_record_id(event.id);
  record.stream = event.thread;
  return record;
}

int64_t bytes_of(const NcclEvent& event) {
  uint64_t bytes = 0;
  const auto element =
      static_cast<uint64_t>(nccl_element_bytes(event.data_type.data()));
  if (__builtin_mul_overflow(event.count, element, &bytes) ||
      bytes > INT64_MAX) {
    return 0;
  }
  return static_cast<int64_t>(bytes);
}

void add_data_type(const NcclEvent& event, InfoText& info) {
  const std::string_view type = event.data_type.data();
  info.add("data_type", type == "Unknown" ? "ncclUint8" : type);
}

// The count of a point-to-point call follows from its bytes; a text for each
// of an all-to-all's many sizes would fill the table of texts.
void write_call(const NcclEvent& event, ProcessRecorder& recorder) {
  const bool is_collective = event.type == kNcclCollective;
  InfoText info;
  info.add("op", event.function.data());
  info.add(*event.communicator);
  add_data_type(event, info);
  if (is_collective) info.add("count", static_cast<int64_t>(event.count));
  info.add(is_collective ? "root" : "peer", event.peer);
  info.add("algorithm", event.algorithm.data());
  info.add("protocol", event.protocol.data());
  info.add("channels", event.channels);
  info.add("warps", event.warps);
  ProcessRecord record = record_of(event, RecordKind::kCollective);
  record.name = recorder.string_id(event.function.data());
  record.info = recorder.string_id(info.take());
  record.bytes = bytes_of(event);
  record.sequence = event.sequence;
  record.external_id = nccl_record_id(event.api);
  record.graph_node = nccl_record_id(event.group);
  record.flags = event.is_outside_window ? kOutsideWindow : 0;
  recorder.record(record);
}

void write_range(const NcclEvent& event, ProcessRecorder& recorder) {
  InfoText info;
  std::string name = "NCCL group";
  if (event.type == kNcclGroupApi) name = "ncclGroup";
  if (event.type == kNcclCollectiveApi || event.type == kNcclPointToPointApi) {
    name = std::string("nccl") + event.function.data();
    info.add("op", event.function.data());
    add_data_type(event, info);
    if (event.type == kNcclCollectiveApi) {
      info.add("count", static_cast<int64_t>(event.count));
      info.add("root", event.peer);
    }
    info.add_address("stream_address", event.stream);
  }
  info.add(*event.communicator);
  if (event.is_captured) info.add("graph_captured", int64_t{1});
  ProcessRecord record = record_of(event, RecordKind::kRange);
  record.name = recorder.string_id(name);
  record.info = recorder.string_id(info.take());
  record.bytes = bytes_of(event);
  record.external_id = nccl_record_id(event.api);
  record.flags = event.is_outside_window ? kOutsideWindow : 0;
  recorder.record(record);
}

std::string network_info(const NcclEvent& event) {
  InfoText info;
  info.add("direction", event.is_send ? "send" : "receive");
  info.add(*event.communicator);
  info.add("channel", event.channel);
  info.add("peer", event.peer);
  info.add("steps", event.steps > 0 ? event.steps : -1);
  info.add("chunk_bytes", event.chunk_bytes > 0 ? event.chunk_bytes : -1);
  info.add("parent_process", event.process > 0 ? event.process : -1);
  return info.take();
}

// A parent in another process has its id in that process's shard.
ProcessRecord network_record(const NcclEvent& event, NetworkStepPart part,
                             ProcessRecorder& recorder) {
  ProcessRecord record = record_of(event, RecordKind::kNetworkStep);
  const int64_t call = nccl_record_id(event.call);
  record.correlation = event.process == 0 ? call : -1;
  record.external_id = event.process == 0 ? -1 : call;
  record.flags = part;
  record.info = recorder.string_id(network_info(event));
  return record;
}

std::string_view name_of_wait(int32_t state) {
  switch (state) {
    case kNcclStepSendGpuWait:
      return "send: wait for the device's data";
    case kNcclStepSendPeerWait:
      return "send: wait for the peer";
    case kNcclStepSendWait:
      return "send: wait for the network";
    case kNcclStepReceiveWait:
      return "receive: wait for the network";
    case kNcclStepReceiveFlushWait:
      return "receive: wait for the flush";
    case kNcclStepReceiveGpuWait:
      return "receive: wait for the device";
    default:
      return "wait";
  }
}

void write_step(const NcclEvent& event, ProcessRecorder& recorder) {
  ProcessRecord record = network_record(event, kNetworkTransfer, recorder);
  record.name = recorder.string_id(event.is_send ? "send" : "receive");
  record.sequence = event.sequence;
  record.bytes = event.transferred_bytes;
  recorder.record(record);
  record.flags = kNetworkWait;
  record.bytes = 0;
  for (size_t i = 0; i < event.waits.size(); ++i) {
    if (event.waits[i].state == 0) break;
    const bool last =
        i + 1 == event.waits.size() || event.waits[i + 1].state == 0;
    record.name = recorder.string_id(name_of_wait(event.waits[i].state));
    record.start_ns = event.waits[i].start_ns;
    record.end_ns = last ? event.end_ns : event.waits[i + 1].start_ns;
    recorder.record(record);
  }
}

void write_operation(const NcclEvent& event, ProcessRecorder& recorder) {
  ProcessRecord record = network_record(event, kNetworkOperation, recorder);
  record.name =
      recorder.string_id(event.is_send ? "send channel" : "receive channel");
  recorder.record(record);
}

void write_device_timer(const NcclEvent& event, ProcessRecorder& recorder) {
  if (event.device_start_ns == 0 || event.device_end_ns == 0) {
    recorder.count_lost("nccl: no device timer at a channel's start or end", 1);
  }
  InfoText info;
  info.add("channel", event.channel);
  info.add(*event.communicator);
  ProcessRecord record = record_of(event, RecordKind::kDeviceTimer);
  const auto stamp = [](uint64_t device_ns) {
    return device_ns == 0 ? int64_t{-1} : static_cast<int64_t>(device_ns);
  };
  record.start_ns = stamp(event.device_start_ns);
  record.end_ns = stamp(event.device_end_ns);
  record.correlation = nccl_record_id(event.call);
  record.sequence = event.end_ns;
  record.name = recorder.string_id("NCCL channel");
  record.info = recorder.string_id(info.take());
  recorder.record(record);
}

}  // namespace

int64_t nccl_record_id(uint64_t id) {
  return id == 0 ? -1 : kFirstNcclId + static_cast<int64_t>(id);
}

std::string nccl_communicator_name(uint64_t hash) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, hash);
  return text;
}

int64_t nccl_element_bytes(std::string_view data_type) {
  for (const std::string_view one : {"ncclInt8", "ncclUint8", "ncclFloat8e4m3",
                                     "ncclFloat8e5m2", "Unknown"}) {
    if (data_type == one) return 1;
  }
  if (data_type.ends_with("16")) return 2;
  if (data_type.ends_with("32")) return 4;
  return data_type.ends_with("64") ? 8 : 0;
}

void InfoText::begin(std::string_view key) {
  members_ += members_.empty() ? '{' : ',';
  members_ += json_quoted(key);
  members_ += ':';
}

void InfoText::add(std::string_view key, std::string_view text) {
  if (text.empty()) return;
  begin(key);
  members_ += json_quoted(text);
}

void InfoText::add(std::string_view key, int64_t number) {
  if (number < 0) return;
  begin(key);
  members_ += std::to_string(number);
}

void InfoText::add_address(std::string_view key, uint64_t address) {
  if (address != 0) add(key, nccl_communicator_name(address));
}

void InfoText::add(const NcclCommunicatorInfo& communicator) {
  add("communicator", nccl_communicator_name(communicator.hash));
  add("communicator_name", communicator.name);
  add("rank", communicator.rank);
  add("ranks", communicator.ranks);
  add("nodes", communicator.nodes);
}

void write_nccl_event(const NcclEvent& event, ProcessRecorder& recorder) {
  switch (event.type) {
    case kNcclCollective:
    case kNcclPointToPoint:
      return write_call(event, recorder);
    case kNcclProxyOperation:
      return write_operation(event, recorder);
    case kNcclProxyStep:
      return write_step(event, recorder);
    case kNcclKernelChannel:
      return write_device_timer(event, recorder);
    default:
      return write_range(event, recorder);
  }
}

}  // namespace reprise
