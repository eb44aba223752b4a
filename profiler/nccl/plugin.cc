// libnccl-profiler-reprise.so: the tables that NCCL loads. Nothing here throws,
// prints or fails: NCCL always hears success.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "profiler/nccl/profiler_abi.h"
#include "profiler/nccl/session.h"

namespace reprise {
namespace {

/// Not the proxy's idling nor the network plugin's own events: they come in
/// their thousands and belong to no call.
constexpr int kMaskV4 = kNcclGroup | kNcclCollective | kNcclPointToPoint |
                        kNcclProxyOperation | kNcclProxyStep |
                        kNcclKernelChannel;
/// Nor, of version 6, what the copy engine does: NCCL tells only when it was
/// enqueued and leaves the timing to events of the plugin's on the stream. The
/// copies themselves CUPTI times, the calls are among those of the program.
constexpr int kMaskV5 =
    kMaskV4 | kNcclGroupApi | kNcclCollectiveApi | kNcclPointToPointApi;

template <size_t Size>
void copy(const char* text, std::array<char, Size>& to) {
  if (text == nullptr) return;
  const size_t length = ::strnlen(text, Size - 1);
  std::memcpy(to.data(), text, length);
}

template <typename Call>
void fill_call(const Call& call, NcclEvent* event) {
  copy(call.function, event->function);
  copy(call.data_type, event->data_type);
  event->count = call.count;
  event->call = event->id;
}

template <typename Call>
void fill_api(const Call& call, NcclEvent* event) {
  copy(call.function, event->function);
  copy(call.data_type, event->data_type);
  event->count = call.count;
  event->stream = reinterpret_cast<uint64_t>(call.stream);
  event->is_captured = call.graph_captured;
  event->api = event->id;
}

// Version 4 knows no calls of the host program: there the parent is the group.
template <typename Descriptor, typename Call>
void fill_parents(const Descriptor& start, const Call& call,
                  NcclSession& session, NcclEvent* event) {
  if constexpr (std::is_same_v<Descriptor, NcclDescriptorV5>) {
    if (event->is_outside_window) session.keep_group(call.group);
    event->api = NcclEventPool::id_of(start.parent);
    event->group = NcclEventPool::id_of(call.group);
  } else {
    event->group = NcclEventPool::id_of(start.parent);
  }
}

template <typename Descriptor>
void fill_collective(const Descriptor& start, NcclSession& session,
                     NcclEvent* event) {
  const auto& call = start.collective;
  fill_call(call, event);
  fill_parents(start, call, session, event);
  copy(call.algorithm, event->algorithm);
  copy(call.protocol, event->protocol);
  event->sequence = static_cast<int64_t>(call.sequence);
  event->peer = call.root;
  event->channels = call.channels;
  event->warps = call.warps;
}

template <typename Descriptor>
void fill_point_to_point(const Descriptor& start, NcclSession& session,
                         NcclEvent* event) {
  const auto& call = start.point_to_point;
  fill_call(call, event);
  fill_parents(start, call, session, event);
  event->peer = call.peer;
  event->channels = call.channels;
}

// A proxy serves other processes of its host too (PXN); then the parent is an
// event of theirs.
void fill_operation(const NcclProxyOperationStart& operation, void* parent,
                    NcclEvent* event) {
  event->call = NcclEventPool::id_of(parent);
  event->process = operation.process == ::getpid() ? 0 : operation.process;
  event->channel = operation.channel;
  event->peer = operation.peer;
  event->steps = operation.steps;
  event->chunk_bytes = operation.chunk_bytes;
  event->is_send = operation.is_send != 0;
}

// False for what is not recorded.
bool is_known(uint64_t type) {
  const bool one_bit = type != 0 && (type & (type - 1)) == 0;
  return one_bit && (type & static_cast<uint64_t>(kMaskV5)) != 0;
}

template <typename Descriptor>
void fill(const Descriptor& start, NcclSession& session, NcclEvent* event) {
  switch (event->type) {
    case kNcclCollective:
      return fill_collective(start, session, event);
    case kNcclPointToPoint:
      return fill_point_to_point(start, session, event);
    case kNcclProxyOperation:
      return fill_operation(start.proxy_operation, start.parent, event);
    case kNcclProxyStep:
      event->sequence = start.proxy_step;
      return session.inherit(start.parent, event);
    case kNcclKernelChannel:
      event->call = NcclEventPool::id_of(start.parent);
      event->channel = start.kernel_channel.channel;
      event->device_start_ns = start.kernel_channel.device_ns;
      return;
    default:
      break;
  }
  if constexpr (std::is_same_v<Descriptor, NcclDescriptorV5>) {
    if (event->type == kNcclGroupApi) {
      event->is_captured = start.group_api.graph_captured;
    } else if (event->type == kNcclCollectiveApi) {
      fill_api(start.collective_api, event);
      event->peer = start.collective_api.root;
    } else if (event->type == kNcclPointToPointApi) {
      fill_api(start.point_to_point_api, event);
    }
  }
}

/// Version 4 does not say it.
template <typename Descriptor>
bool is_captured(const Descriptor& start) {
  if constexpr (std::is_same_v<Descriptor, NcclDescriptorV5>) {
    if (start.type == kNcclGroupApi) return start.group_api.graph_captured;
    if (start.type == kNcclCollectiveApi) {
      return start.collective_api.graph_captured;
    }
    if (start.type == kNcclPointToPointApi) {
      return start.point_to_point_api.graph_captured;
    }
  }
  return false;
}

template <typename Descriptor>
int start_event(void* context, void** handle, Descriptor* start) {
  if (handle == nullptr) return kNcclSuccess;
  *handle = nullptr;
  if (context == nullptr || start == nullptr || !is_known(start->type)) {
    return kNcclSuccess;
  }
  NcclSession& session = *NcclSession::existing();
  void* made = nullptr;
  NcclEvent* event =
      session.begin(context, static_cast<NcclEventType>(start->type),
                    start->parent, is_captured(*start), &made);
  if (event == nullptr) return kNcclSuccess;
  fill(*start, session, event);
  *handle = made;
  return kNcclSuccess;
}

int stop_event(void* handle) {
  NcclSession* session = NcclSession::existing();
  if (session != nullptr) session->end(handle);
  return kNcclSuccess;
}

int record_state(void* handle, int state, NcclStateArguments* arguments) {
  NcclSession* session = NcclSession::existing();
  if (session != nullptr) session->record_state(handle, state, arguments);
  return kNcclSuccess;
}

int finalize(void* context) {
  NcclSession* session = NcclSession::existing();
  if (session != nullptr && context != nullptr) session->close();
  return kNcclSuccess;
}

int init(void** context, int* mask, int wanted, const char* name,
         uint64_t communicator, int nodes, int ranks, int rank) try {
  if (context == nullptr || mask == nullptr) return kNcclSuccess;
  *context = nullptr;
  *mask = 0;
  NcclSession* session = NcclSession::instance();
  if (session == nullptr || !session->is_recording()) return kNcclSuccess;
  *context = session->open(
      {communicator, name == nullptr ? "" : name, rank, ranks, nodes});
  if (*context != nullptr) *mask = wanted;
  return kNcclSuccess;
} catch (...) {
  return kNcclSuccess;
}

int init_v5(void** context, uint64_t communicator, int* mask, const char* name,
            int nodes, int ranks, int rank, NcclLog) {
  return init(context, mask, kMaskV5, name, communicator, nodes, ranks, rank);
}

int init_v4(void** context, int* mask, const char* name, uint64_t communicator,
            int nodes, int ranks, int rank, NcclLog) {
  return init(context, mask, kMaskV4, name, communicator, nodes, ranks, rank);
}

// At the end of the process; NCCL's threads may still be calling.
[[gnu::destructor]] void finish_shard() {
  NcclSession* session = NcclSession::existing();
  if (session != nullptr) session->finish();
}

}  // namespace
}  // namespace reprise

extern "C" {
[[gnu::visibility("default")]] reprise::NcclProfilerV5 ncclProfiler_v6 = {
    "reprise",
    reprise::init_v5,
    reprise::start_event<reprise::NcclDescriptorV5>,
    reprise::stop_event,
    reprise::record_state,
    reprise::finalize};
[[gnu::visibility("default")]] reprise::NcclProfilerV5 ncclProfiler_v5 = {
    "reprise",
    reprise::init_v5,
    reprise::start_event<reprise::NcclDescriptorV5>,
    reprise::stop_event,
    reprise::record_state,
    reprise::finalize};
[[gnu::visibility("default")]] reprise::NcclProfilerV4 ncclProfiler_v4 = {
    "reprise",
    reprise::init_v4,
    reprise::start_event<reprise::NcclDescriptorV4>,
    reprise::stop_event,
    reprise::record_state,
    reprise::finalize};
}
