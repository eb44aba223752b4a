// NCCL's plugin tables that no library of ours exports: versions 1 to 3 of the
// profiler (NCCL 2.23 to 2.26), which name a communicator by a hash and tell
// neither its ranks nor its hosts, and versions 2 to 6 of the tuner, whose
// choices `reprise export --as nccl-tuner` leaves to NCCL's example plugin. Our
// own declarations of the binary layout, held against NCCL's headers by
// other_layout_test.cc where these are.
// Source: github.com/NVIDIA/nccl at 5067397c2676d5aed50042fc39e5c8ee96eb0027
// (2.30.7), src/include/plugin/profiler/profiler_v{1,2,3}.h and
// src/include/plugin/tuner/tuner_v{2,3,4,5,6}.h, for 64-bit Linux.
#pragma once

#include "profiler/nccl/profiler_abi.h"

namespace reprise {

/// Words are NCCL's numbers for them.
struct NcclCollectiveV1 {
  const char* communicator_name;
  uint64_t communicator;
  uint64_t sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t data_type;
  uint32_t reduction;
  size_t traffic_bytes;
  uint8_t most_channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int uses_collnet;
  int uses_nvls;
};
struct NcclCollectiveV2 {
  const char* communicator_name;
  uint64_t communicator;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* data_type;
  size_t traffic_bytes;
  uint8_t most_channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct NcclCollectiveV3 {
  const char* communicator_name;
  uint64_t communicator;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* data_type;
  uint8_t most_channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct NcclPointToPointV1 {
  const char* communicator_name;
  uint64_t communicator;
  uint8_t function;
  void* buffer;
  uint8_t data_type;
  size_t count;
  int peer;
};
/// Version 3 too.
struct NcclPointToPointV2 {
  const char* communicator_name;
  uint64_t communicator;
  const char* function;
  void* buffer;
  const char* data_type;
  size_t count;
  int peer;
};
struct NcclNetworkEventV3 {
  int64_t id;
  void* data;
};

struct NcclDescriptorV1 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    NcclCollectiveV1 collective;
    NcclPointToPointV1 point_to_point;
    NcclProxyOperationStart proxy_operation;
    int proxy_step;
  };
};
struct NcclDescriptorV2 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    NcclCollectiveV2 collective;
    NcclPointToPointV2 point_to_point;
    NcclProxyOperationStart proxy_operation;
    int proxy_step;
  };
};
struct NcclDescriptorV3 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    NcclCollectiveV3 collective;
    NcclPointToPointV2 point_to_point;
    NcclProxyOperationStart proxy_operation;
    int proxy_step;
    uint8_t kernel_channel;
    NcclNetworkEventV3 network;
  };
};

/// What recordEventState is given in versions 1 to 3.
union NcclStateArgumentsV1 {
  struct {
    size_t transferred_bytes;
    int steps;
  } proxy_operation;
  int appended_operations;
};

/// `Descriptor` is a version's own.
template <typename Descriptor>
struct NcclEarlyProfiler {
  const char* name;
  int (*init)(void** context, int* mask);
  int (*start_event)(void* context, void** handle, Descriptor* start);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, NcclStateArgumentsV1* arguments);
  int (*finalize)(void* context);
};

struct NcclTunerV2 {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, NcclLog log, void** context);
  int (*choose)(void* context, int function, size_t bytes, int has_collnet,
                int has_nvls, int operations, int* algorithm, int* protocol,
                int* channels);
  int (*destroy)(void* context);
};
struct NcclTunerV3 {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, NcclLog log, void** context);
  int (*choose)(void* context, int function, size_t bytes, int operations,
                float** costs, int algorithms, int protocols, int* channels);
  int (*destroy)(void* context);
};
struct NcclTunerV4 {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, NcclLog log, void** context);
  int (*choose)(void* context, int function, size_t bytes, int operations,
                float** costs, int algorithms, int protocols, int is_registered,
                int* channels);
  int (*destroy)(void* context);
};
/// Versions 5 and 6.
struct NcclNvlinkDomains {
  int domains;
  int least_ranks;
  int most_ranks;
};
struct NcclTunerConstants {
  static constexpr size_t kAlgorithms = 7, kProtocols = 3, kLinks = 3,
                          kGenerations = 4, kScales = 3;
  double base_latencies[kAlgorithms][kProtocols];
  double link_latencies[kLinks][kAlgorithms][kProtocols];
  double ll_bandwidths[kGenerations][kScales];
  double ring_ll128_bandwidths[kGenerations][kScales];
  double tree_ll128_bandwidths[kGenerations][kScales];
  double tree_bandwidths[kGenerations][kScales];
  double nvls_tree_bandwidths[kGenerations][kScales];
};
struct NcclTunerV5 {
  const char* name;
  int (*init)(void** context, uint64_t communicator, size_t ranks, size_t nodes,
              NcclLog log, NcclNvlinkDomains* domains,
              NcclTunerConstants* constants);
  int (*choose)(void* context, int function, size_t bytes, int operations,
                float** costs, int algorithms, int protocols, int is_registered,
                int* channels);
  int (*finalize)(void* context);
};
struct NcclTunerV6 : NcclTunerV5 {
  /// May be null.
  int (*choose_chunk)(void* context, int function, size_t bytes, int algorithm,
                      int protocol, int channels, size_t* chunk_bytes);
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(sizeof(NcclDescriptorV1) == 120);
static_assert(sizeof(NcclDescriptorV2) == 128);
static_assert(sizeof(NcclDescriptorV3) == 120);
static_assert(offsetof(NcclDescriptorV1, collective) == 24);
static_assert(offsetof(NcclDescriptorV2, collective) == 24);
static_assert(offsetof(NcclDescriptorV3, collective) == 24);
static_assert(offsetof(NcclCollectiveV1, send) == 32);
static_assert(offsetof(NcclCollectiveV1, data_type) == 60);
static_assert(offsetof(NcclCollectiveV1, reduction) == 64);
static_assert(offsetof(NcclCollectiveV1, most_channels) == 80);
static_assert(offsetof(NcclCollectiveV1, protocol) == 83);
static_assert(offsetof(NcclCollectiveV1, uses_nvls) == 88);
static_assert(offsetof(NcclCollectiveV2, data_type) == 64);
static_assert(offsetof(NcclCollectiveV2, traffic_bytes) == 72);
static_assert(offsetof(NcclCollectiveV2, algorithm) == 88);
static_assert(offsetof(NcclCollectiveV3, most_channels) == 72);
static_assert(offsetof(NcclCollectiveV3, algorithm) == 80);
static_assert(offsetof(NcclPointToPointV1, data_type) == 32);
static_assert(offsetof(NcclPointToPointV1, peer) == 48);
static_assert(offsetof(NcclPointToPointV2, data_type) == 32);
static_assert(offsetof(NcclPointToPointV2, peer) == 48);
static_assert(sizeof(NcclStateArgumentsV1) == 16);
static_assert(sizeof(NcclEarlyProfiler<NcclDescriptorV1>) == 48);
static_assert(sizeof(NcclTunerV2) == 32 && sizeof(NcclTunerV3) == 32);
static_assert(sizeof(NcclTunerV4) == 32 && sizeof(NcclTunerV5) == 32);
static_assert(sizeof(NcclTunerV6) == 40);
static_assert(offsetof(NcclTunerV6, choose_chunk) == 32);
static_assert(sizeof(NcclNvlinkDomains) == 12);
static_assert(sizeof(NcclTunerConstants) == 1152);
static_assert(offsetof(NcclTunerConstants, ll_bandwidths) == 672);
#pragma GCC diagnostic pop

}  // namespace reprise
