// Where NVIDIA's headers are installed: our layouts and numbers are theirs.
// Layouts and numbers are asserted as it compiles, so that vendor_headers_test
// can hold them against the headers of many versions.
#include <cupti.h>
#if CUPTI_API_VERSION >= 22  // CUDA 12.4.
#include <cupti_activity_deprecated.h>
#endif
#include <gtest/gtest.h>

#include <cstdint>

#include "profiler/cupti/cupti_calls.h"
#include "profiler/cupti/cupti_records.h"
#include "profiler/cupti/cupti_types.h"
#include "tests/profiler/inject/fake_cupti_calls.h"

namespace reprise::cupti {
namespace {

// Asserts that a field of ours lies where that of a struct of theirs does, and
// is as big.
#define SAME(Ours, ours, Theirs, theirs)                           \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs)); \
  static_assert(sizeof(static_cast<Ours*>(nullptr)->ours) ==       \
                sizeof(static_cast<Theirs*>(nullptr)->theirs))
#define SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs))

#define SAME_WORK(Ours, Theirs)                   \
  SAME(Ours, kind, Theirs, kind);                 \
  SAME(Ours, start, Theirs, start);               \
  SAME(Ours, end, Theirs, end);                   \
  SAME(Ours, device, Theirs, deviceId);           \
  SAME(Ours, context, Theirs, contextId);         \
  SAME(Ours, stream, Theirs, streamId);           \
  SAME(Ours, correlation, Theirs, correlationId); \
  SAME(Ours, graph_node, Theirs, graphNodeId)

#define SAME_KERNEL(Theirs)                                              \
  SAME_WORK(KernelRecord, Theirs);                                       \
  SAME(KernelRecord, registers, Theirs, registersPerThread);             \
  SAME(KernelRecord, grid[0], Theirs, gridX);                            \
  SAME(KernelRecord, grid[2], Theirs, gridZ);                            \
  SAME(KernelRecord, block[0], Theirs, blockX);                          \
  SAME(KernelRecord, block[2], Theirs, blockZ);                          \
  SAME(KernelRecord, static_shared_bytes, Theirs, staticSharedMemory);   \
  SAME(KernelRecord, dynamic_shared_bytes, Theirs, dynamicSharedMemory); \
  SAME(KernelRecord, name, Theirs, name)

#define SAME_COPY(Ours, Theirs)             \
  SAME_WORK(Ours, Theirs);                  \
  SAME(Ours, copy_kind, Theirs, copyKind);  \
  SAME(Ours, source_kind, Theirs, srcKind); \
  SAME(Ours, target_kind, Theirs, dstKind); \
  SAME(Ours, bytes, Theirs, bytes)

TEST(CuptiLayout, OfDeviceWork) {
  SAME_KERNEL(CUpti_ActivityKernel9);
#if CUPTI_API_VERSION >= 130000
  SAME_KERNEL(CUpti_ActivityKernel10);
#endif
  SAME_COPY(CopyRecord, CUpti_ActivityMemcpy5);
#if CUPTI_API_VERSION >= 26  // CUDA 12.8.
  SAME_COPY(CopyRecord, CUpti_ActivityMemcpy6);
#endif
  SAME_COPY(PeerCopyRecord, CUpti_ActivityMemcpyPtoP3);
  SAME_COPY(PeerCopyRecord, CUpti_ActivityMemcpyPtoP4);
  SAME(PeerCopyRecord, source_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
  SAME(PeerCopyRecord, target_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
  SAME_WORK(MemsetRecord, CUpti_ActivityMemset4);
  SAME(MemsetRecord, bytes, CUpti_ActivityMemset4, bytes);
}

#define SAME_WAIT(Theirs)                                          \
  SAME(SynchronizationRecord, type, Theirs, type);                 \
  SAME(SynchronizationRecord, start, Theirs, start);               \
  SAME(SynchronizationRecord, end, Theirs, end);                   \
  SAME(SynchronizationRecord, correlation, Theirs, correlationId); \
  SAME(SynchronizationRecord, context, Theirs, contextId);         \
  SAME(SynchronizationRecord, stream, Theirs, streamId);           \
  SAME(SynchronizationRecord, event, Theirs, cudaEventId)

#define SAME_EVENT(Theirs)                               \
  SAME(EventRecord, correlation, Theirs, correlationId); \
  SAME(EventRecord, context, Theirs, contextId);         \
  SAME(EventRecord, stream, Theirs, streamId);           \
  SAME(EventRecord, event, Theirs, eventId)

TEST(CuptiLayout, OfWaitsAndEvents) {
  SAME_WAIT(CUpti_ActivitySynchronization);
  SAME_EVENT(CUpti_ActivityCudaEvent);
#if CUPTI_API_VERSION >= 26
  static_assert(kEventSyncIdVersion == 26);
  SAME_WAIT(CUpti_ActivitySynchronization2);
  SAME(SynchronizationRecord, sync_id, CUpti_ActivitySynchronization2,
       cudaEventSyncId);
  SAME_EVENT(CUpti_ActivityCudaEvent2);
  SAME(EventRecord, sync_id, CUpti_ActivityCudaEvent2, cudaEventSyncId);
#endif
}

#define SAME_OVERHEAD(Theirs)                                \
  SAME(OverheadRecord, overhead_kind, Theirs, overheadKind); \
  SAME(OverheadRecord, object_kind, Theirs, objectKind);     \
  SAME(OverheadRecord, object, Theirs, objectId);            \
  SAME(OverheadRecord, start, Theirs, start);                \
  SAME(OverheadRecord, end, Theirs, end)

TEST(CuptiLayout, OfTheHostsSide) {
  SAME(ApiRecord, callback, CUpti_ActivityAPI, cbid);
  SAME(ApiRecord, start, CUpti_ActivityAPI, start);
  SAME(ApiRecord, end, CUpti_ActivityAPI, end);
  SAME(ApiRecord, thread, CUpti_ActivityAPI, threadId);
  SAME(ApiRecord, correlation, CUpti_ActivityAPI, correlationId);
  using TheirExternal = CUpti_ActivityExternalCorrelation;
  SAME(ExternalRecord, external_kind, TheirExternal, externalKind);
  SAME(ExternalRecord, external_id, TheirExternal, externalId);
  SAME(ExternalRecord, correlation, TheirExternal, correlationId);
  SAME_OVERHEAD(CUpti_ActivityOverhead);
#if CUPTI_API_VERSION >= 22  // CUDA 12.4.
  SAME_OVERHEAD(CUpti_ActivityOverhead2);
  SAME_OVERHEAD(CUpti_ActivityOverhead3);
  SAME(OverheadRecord, data, CUpti_ActivityOverhead3, overheadData);
#endif
  // Of a thread, the second number is its id.
  SAME_NUMBER(offsetof(CUpti_ActivityObjectKindId, pt.threadId), 4U);
}

TEST(CuptiLayout, OfCallbacks) {
  SAME(ApiCallback, site, CUpti_CallbackData, callbackSite);
  SAME(ResourceData, context, CUpti_ResourceData, context);
  SAME(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);
  SAME(GraphData, node, CUpti_GraphData, node);
  SAME(GraphData, original_node, CUpti_GraphData, originalNode);
#ifdef CUpti_SubscriberParams_STRUCT_SIZE  // CUDA 13.0.
  SAME(SubscriberParams, struct_size, CUpti_SubscriberParams, structSize);
  SAME(SubscriberParams, name, CUpti_SubscriberParams, subscriberName);
  SAME(SubscriberParams, old_name, CUpti_SubscriberParams, oldSubscriberName);
  SAME(SubscriberParams, old_name_size, CUpti_SubscriberParams,
       oldSubscriberSize);
#if CUPTI_API_VERSION >= 130200
  static_assert(kSharedSubscriptionVersion <= CUPTI_API_VERSION);
  SAME(SubscriberParams, allows_others, CUpti_SubscriberParams,
       allowMultipleSubscribers);
  SAME_NUMBER(sizeof(SubscriberParams), CUpti_SubscriberParams_STRUCT_SIZE);
#else
  SAME_NUMBER(kFirstSubscriberParamsBytes, CUpti_SubscriberParams_STRUCT_SIZE);
#endif
#endif
}

TEST(CuptiLayout, Numbers) {
  SAME_NUMBER(kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
  SAME_NUMBER(kMemset, CUPTI_ACTIVITY_KIND_MEMSET);
  SAME_NUMBER(kDriver, CUPTI_ACTIVITY_KIND_DRIVER);
  SAME_NUMBER(kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
  SAME_NUMBER(kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  SAME_NUMBER(kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
  SAME_NUMBER(kMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
  SAME_NUMBER(kCudaEvent, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  SAME_NUMBER(kSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  SAME_NUMBER(kExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  SAME_NUMBER(kDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
  SAME_NUMBER(kRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
  SAME_NUMBER(kResource, CUPTI_CB_DOMAIN_RESOURCE);
  SAME_NUMBER(kContextCreated, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
  SAME_NUMBER(kGraphNodeCreated, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
  SAME_NUMBER(kGraphNodeCloned, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
  SAME_NUMBER(kApiEnter, CUPTI_API_ENTER);
  SAME_NUMBER(kApiExit, CUPTI_API_EXIT);
  SAME_NUMBER(kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  SAME_NUMBER(kSystemThreadIds, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  SAME_NUMBER(kCustomCorrelation, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
  static_assert(kNoId ==
                static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE));
  SAME_NUMBER(kThreadObject, CUPTI_ACTIVITY_OBJECT_THREAD);
  SAME_NUMBER(kZeroedOutBuffers,
              CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
  SAME_NUMBER(kMultipleSubscribers,
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  SAME_NUMBER(kUnknownError, CUPTI_ERROR_UNKNOWN);
}

TEST(CuptiLayout, Calls) {
  EXPECT_TRUE(
      is_recorded_call(true, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
  EXPECT_TRUE(is_recorded_call(
      true, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060));
  EXPECT_TRUE(
      is_recorded_call(true, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020));
  EXPECT_TRUE(
      is_recorded_call(true, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020));
  EXPECT_TRUE(is_recorded_call(
      true, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020));
  EXPECT_TRUE(is_recorded_call(
      true, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020));
  EXPECT_TRUE(is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
  EXPECT_TRUE(
      is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx));
  EXPECT_TRUE(
      is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2));
  EXPECT_TRUE(is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuEventRecord));
  EXPECT_TRUE(
      is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent));
  EXPECT_TRUE(
      is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize));
  EXPECT_FALSE(
      is_recorded_call(true, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020));
  EXPECT_FALSE(
      is_recorded_call(true, CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020));
  EXPECT_FALSE(is_recorded_call(false, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc));
  EXPECT_TRUE(
      is_graph_launch(true, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000));
  EXPECT_TRUE(is_graph_launch(
      true, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000));
  EXPECT_TRUE(is_graph_launch(false, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch));
  EXPECT_TRUE(
      is_graph_launch(false, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz));
  EXPECT_TRUE(is_profiler_start(
      true, CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000));
  EXPECT_TRUE(
      is_profiler_stop(true, CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000));
  EXPECT_TRUE(
      is_profiler_start(false, CUPTI_DRIVER_TRACE_CBID_cuProfilerStart));
  EXPECT_TRUE(is_profiler_stop(false, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop));
}

// What the fake driver's calls are reported as.
TEST(CuptiLayout, OfTheFakesCalls) {
#define SAME_DRIVER_CALL(name, id) \
  EXPECT_EQ(CUPTI_DRIVER_TRACE_CBID_##name, id) << #name;
#define SAME_RUNTIME_CALL(name, id) \
  EXPECT_EQ(CUPTI_RUNTIME_TRACE_CBID_##name, id) << #name;
  FAKE_CUPTI_DRIVER_CALLS(SAME_DRIVER_CALL)
  FAKE_CUPTI_RUNTIME_CALLS(SAME_RUNTIME_CALL)
}

}  // namespace
}  // namespace reprise::cupti
