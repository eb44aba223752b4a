// The tables that NCCL's profiler plugin interface calls, versions 4 (NCCL
// 2.27), 5 (NCCL 2.28) and 6 (NCCL 2.29 and later): our own declarations of the
// binary layout, so that nothing of NCCL is needed to build; where its headers
// are, tests/profiler/nccl/profiler_layout_test.cc holds these against them.
// Versions 1 to 3 (NCCL 2.23 to 2.26) tell a plugin neither the ranks nor the
// hosts of a communicator; what records those is the preloaded library.
// Source: github.com/NVIDIA/nccl at 5067397c2676d5aed50042fc39e5c8ee96eb0027
// (2.30.7), src/include/plugin/profiler/profiler_v{4,5,6}.h and
// src/include/plugin/nccl_profiler.h, for 64-bit Linux.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise {

/// ncclResult_t; nothing of ours is ever reported to NCCL as an error.
inline constexpr int kNcclSuccess = 0;

/// Bits of an activation mask; each event has one of them as its type.
enum NcclEventType : uint64_t {
  kNcclGroup = 1 << 0,  ///< One launched kernel: a plan of several calls.
  kNcclCollective = 1 << 1,
  kNcclPointToPoint = 1 << 2,
  kNcclProxyOperation = 1 << 3,  ///< One channel of a call on the network.
  kNcclProxyStep = 1 << 4,       ///< One transfer of it.
  kNcclProxyControl = 1 << 5,
  kNcclKernelChannel = 1 << 6,  ///< One channel of a call on the device.
  kNcclNetworkPlugin = 1 << 7,
  kNcclGroupApi = 1 << 8,  ///< ncclGroupStart … ncclGroupEnd. From version 5.
  kNcclCollectiveApi = 1 << 9,
  kNcclPointToPointApi = 1 << 10,
  kNcclKernelLaunch = 1 << 11,
  kNcclCopyEngineCollective = 1 << 12,  ///< By copies alone. From version 6.
  kNcclCopyEngineSynchronization = 1 << 13,
  kNcclCopyEngineBatch = 1 << 14,
};

enum NcclEventState : int {
  kNcclStepSendGpuWait = 8,   ///< For the device to produce the data.
  kNcclStepSendWait = 9,      ///< For the network to send it.
  kNcclStepReceiveWait = 10,  ///< For the network to bring the data.
  kNcclStepReceiveFlushWait = 11,
  kNcclStepReceiveGpuWait = 12,  ///< For the device to consume it.
  kNcclOperationInProgress = 19,
  kNcclStepSendPeerWait = 20,  ///< For the peer's permission to send.
  kNcclKernelChannelStop = 22,
};

struct NcclCollectiveV4 {
  uint64_t sequence;  ///< Counted for each function of a communicator.
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* data_type;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct NcclCollectiveV5 : NcclCollectiveV4 {
  void* group;
};
struct NcclPointToPointV4 {
  const char* function;
  void* buffer;
  const char* data_type;
  size_t count;
  int peer;
  uint8_t channels;
};
struct NcclPointToPointV5 : NcclPointToPointV4 {
  void* group;
};
struct NcclProxyOperationStart {
  int32_t process;  ///< That made the parent: another one's handle is not ours.
  uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int is_send;
};
struct NcclKernelChannelStart {
  uint8_t channel;
  uint64_t device_ns;  ///< The device's global timer.
};
struct NcclGroupApiStart {
  bool graph_captured;
  int depth;
};
struct NcclCollectiveApiStart {
  const char* function;
  size_t count;
  const char* data_type;
  int root;
  void* stream;
  bool graph_captured;
};
struct NcclPointToPointApiStart {
  const char* function;
  size_t count;
  const char* data_type;
  void* stream;
  bool graph_captured;
};

/// What startEvent is given. `rank` is only set for some types.
struct NcclDescriptorV4 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    NcclCollectiveV4 collective;
    NcclPointToPointV4 point_to_point;
    NcclProxyOperationStart proxy_operation;
    int proxy_step;
    NcclKernelChannelStart kernel_channel;
  };
};
/// Of version 6 alone: collectives by the copy engine, their synchronization
/// and batches of copies.
struct NcclCopyEngineCollectiveStart {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* data_type;
  const char* synchronization;
  bool synchronizes_within;
  uint32_t batch_size;
  uint32_t batches;
  uint32_t copy_sequence;
  void* stream;
};
struct NcclCopyEngineSynchronizationStart {
  bool is_complete;
  int ranks;
};
struct NcclCopyEngineBatchStart {
  int operations;
  size_t bytes;
  bool synchronizes_within;
};

/// Version 6 has the layout of 5, and more members in the union.
struct NcclDescriptorV5 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    NcclGroupApiStart group_api;
    NcclCollectiveApiStart collective_api;
    NcclPointToPointApiStart point_to_point_api;
    NcclCollectiveV5 collective;
    NcclPointToPointV5 point_to_point;
    NcclProxyOperationStart proxy_operation;
    int proxy_step;
    NcclKernelChannelStart kernel_channel;
    NcclCopyEngineCollectiveStart copy_engine_collective;
    NcclCopyEngineSynchronizationStart copy_engine_synchronization;
    NcclCopyEngineBatchStart copy_engine_batch;
  };
};

/// What recordEventState is given; may be null.
union NcclStateArguments {
  size_t transferred_bytes;  ///< The states of a proxy step.
  uint64_t device_ns;        ///< kNcclKernelChannelStop.
  void* data;
};

using NcclLog = void (*)(int level, unsigned long flags, const char* file,
                         int line, const char* format, ...);

struct NcclProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* communicator_name,
              uint64_t communicator, int nodes, int ranks, int rank,
              NcclLog log);
  int (*start_event)(void* context, void** handle, NcclDescriptorV4* start);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, NcclStateArguments* arguments);
  int (*finalize)(void* context);
};
/// Version 6 too.
struct NcclProfilerV5 {
  const char* name;
  int (*init)(void** context, uint64_t communicator, int* mask,
              const char* communicator_name, int nodes, int ranks, int rank,
              NcclLog log);
  int (*start_event)(void* context, void** handle, NcclDescriptorV5* start);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, NcclStateArguments* arguments);
  int (*finalize)(void* context);
};

// Derived structs have no standard layout, but the one that the Itanium ABI
// gives them is C's, and checked here field by field.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(sizeof(NcclDescriptorV4) == 104);
static_assert(sizeof(NcclDescriptorV5) == 112);
static_assert(offsetof(NcclDescriptorV4, parent) == 8);
static_assert(offsetof(NcclDescriptorV4, rank) == 16);
static_assert(offsetof(NcclDescriptorV4, collective) == 24);
static_assert(offsetof(NcclDescriptorV5, collective) == 24);
static_assert(offsetof(NcclCollectiveV4, count) == 32);
static_assert(offsetof(NcclCollectiveV4, root) == 40);
static_assert(offsetof(NcclCollectiveV4, data_type) == 48);
static_assert(offsetof(NcclCollectiveV4, channels) == 56);
static_assert(offsetof(NcclCollectiveV4, warps) == 57);
static_assert(offsetof(NcclCollectiveV4, algorithm) == 64);
static_assert(offsetof(NcclCollectiveV4, protocol) == 72);
static_assert(offsetof(NcclCollectiveV5, group) == 80);
static_assert(offsetof(NcclPointToPointV4, count) == 24);
static_assert(offsetof(NcclPointToPointV4, peer) == 32);
static_assert(offsetof(NcclPointToPointV4, channels) == 36);
static_assert(offsetof(NcclPointToPointV5, group) == 40);
static_assert(offsetof(NcclProxyOperationStart, channel) == 4);
static_assert(offsetof(NcclProxyOperationStart, peer) == 8);
static_assert(offsetof(NcclProxyOperationStart, is_send) == 20);
static_assert(offsetof(NcclKernelChannelStart, device_ns) == 8);
static_assert(offsetof(NcclGroupApiStart, depth) == 4);
static_assert(offsetof(NcclCollectiveApiStart, root) == 24);
static_assert(offsetof(NcclCollectiveApiStart, stream) == 32);
static_assert(offsetof(NcclCollectiveApiStart, graph_captured) == 40);
static_assert(offsetof(NcclPointToPointApiStart, stream) == 24);
static_assert(offsetof(NcclPointToPointApiStart, graph_captured) == 32);
static_assert(offsetof(NcclCopyEngineCollectiveStart, root) == 40);
static_assert(offsetof(NcclCopyEngineCollectiveStart, data_type) == 48);
static_assert(offsetof(NcclCopyEngineCollectiveStart, batch_size) == 68);
static_assert(offsetof(NcclCopyEngineCollectiveStart, stream) == 80);
static_assert(sizeof(NcclCopyEngineCollectiveStart) == 88);
static_assert(offsetof(NcclCopyEngineSynchronizationStart, ranks) == 4);
static_assert(offsetof(NcclCopyEngineBatchStart, bytes) == 8);
static_assert(sizeof(NcclCopyEngineBatchStart) == 24);
static_assert(sizeof(NcclStateArguments) == 8);
static_assert(sizeof(NcclProfilerV4) == 48 && sizeof(NcclProfilerV5) == 48);
#pragma GCC diagnostic pop

}  // namespace reprise
