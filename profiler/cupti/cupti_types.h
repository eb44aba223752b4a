// CUPTI's C interface as far as it is used, declared anew: the library must
// build without NVIDIA's toolkit and find CUPTI at run time. Values and layouts
// are those of cupti_activity.h, cupti_activity_deprecated.h,
// cupti_callbacks.h and cupti_result.h of CUDA 12.0 to 13.5; tests hold them
// against these headers where there are any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::cupti {

using Result = int32_t;  ///< CUptiResult.
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidParameter = 1;
inline constexpr Result kMultipleSubscribers = 39;
inline constexpr Result kUnknownError = 999;  ///< No driver, among others.

enum ActivityKind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,  ///< Of guests: one after the other.
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,
  kCudaEvent = 36,
  kSynchronization = 38,
  kExternalCorrelation = 39,
};

enum CallbackDomain : uint32_t {
  kDriverApi = 1,
  kRuntimeApi = 2,
  kResource = 3,
};

enum ResourceCallback : uint32_t {
  kContextCreated = 1,
  kGraphNodeCreated = 13,
  kGraphNodeCloned = 20,
};

inline constexpr uint32_t kApiEnter = 0;
inline constexpr uint32_t kApiExit = 1;
inline constexpr uint32_t kFlushForced = 1;
inline constexpr uint32_t kSystemThreadIds = 1;
inline constexpr uint32_t kCustomCorrelation = 3;  ///< KIND_CUSTOM0.
inline constexpr uint32_t kNoId = 0xffffffffU;     ///< Of a stream, an event.
inline constexpr uint32_t kThreadObject = 2;
inline constexpr uint32_t kZeroedOutBuffers = 5;  ///< Attribute, uint8_t.

/// First version whose synchronization and event records carry a
/// cudaEventSyncId: 26, of CUDA 12.8.
inline constexpr uint32_t kEventSyncIdVersion = 26;
/// Oldest version whose records these are: 18, which the libraries of CUDA 12.0
/// and 12.1 say (cupti_version.h lists 19), as does that of 11.8, whose records
/// start alike.
inline constexpr uint32_t kOldestVersion = 18;
/// Version whose overhead records are known to own memory: CUDA 13.0.
inline constexpr uint32_t kOverheadDataVersion = 130000;

/// Version whose subscribers may share CUPTI with others: CUDA 13.2.
inline constexpr uint32_t kSharedSubscriptionVersion = 130200;

/// CUpti_SubscriberParams; `struct_size` says how much of it there is.
struct SubscriberParams {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_size;
  uint8_t allows_others;  ///< From kSharedSubscriptionVersion on, and the rest.
  uint8_t pad[7];
};
static_assert(sizeof(SubscriberParams) == 40);
/// Of CUDA 13.0 and 13.1, which later versions take too.
inline constexpr size_t kFirstSubscriberParamsBytes = 32;
static_assert(offsetof(SubscriberParams, allows_others) ==
              kFirstSubscriberParamsBytes);

/// The start of CUpti_CallbackData.
struct ApiCallback {
  uint32_t site;  ///< kApiEnter, kApiExit.
};

/// CUpti_ResourceData.
struct ResourceData {
  void* context;
  void* handle;
  void* descriptor;  ///< Of a graph's node: GraphData.
};
static_assert(sizeof(ResourceData) == 24);

/// CUpti_GraphData.
struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
  uint32_t node_type;
  void* dependency;
  void* graph_exec;
};
static_assert(sizeof(GraphData) == 56);

extern "C" {
using Callback = void (*)(void* user, uint32_t domain, uint32_t id,
                          const void* data);
using RequestBuffer = void (*)(uint8_t** buffer, size_t* size,
                               size_t* most_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer,
                                size_t size, size_t valid_size);
using Timestamp = uint64_t (*)();
}

}  // namespace reprise::cupti
