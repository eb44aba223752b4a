// Our declarations of NCCL's profiler tables against its headers: compiled
// where there is a checkout of NVIDIA/nccl (vendor_headers_test.py).
#include <sys/types.h>

#include <cstdint>

// What NCCL's own header leaves to others.
#include "nccl/err.h"
//
#include "nccl/profiler.h"
#include "profiler/nccl/profiler_abi.h"

namespace reprise {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

#define REPRISE_SAME_PLACE(ours, our_member, theirs, their_member) \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member))

#define REPRISE_SAME_DESCRIPTOR(ours, theirs)                                \
  static_assert(sizeof(ours) == sizeof(theirs));                             \
  static_assert(sizeof(ours::type) == sizeof(theirs::type));                 \
  REPRISE_SAME_PLACE(ours, parent, theirs, parentObj);                       \
  REPRISE_SAME_PLACE(ours, rank, theirs, rank);                              \
  REPRISE_SAME_PLACE(ours, collective.sequence, theirs, coll.seqNumber);     \
  REPRISE_SAME_PLACE(ours, collective.function, theirs, coll.func);          \
  REPRISE_SAME_PLACE(ours, collective.count, theirs, coll.count);            \
  REPRISE_SAME_PLACE(ours, collective.root, theirs, coll.root);              \
  REPRISE_SAME_PLACE(ours, collective.data_type, theirs, coll.datatype);     \
  REPRISE_SAME_PLACE(ours, collective.channels, theirs, coll.nChannels);     \
  REPRISE_SAME_PLACE(ours, collective.warps, theirs, coll.nWarps);           \
  REPRISE_SAME_PLACE(ours, collective.algorithm, theirs, coll.algo);         \
  REPRISE_SAME_PLACE(ours, collective.protocol, theirs, coll.proto);         \
  REPRISE_SAME_PLACE(ours, point_to_point.function, theirs, p2p.func);       \
  REPRISE_SAME_PLACE(ours, point_to_point.data_type, theirs, p2p.datatype);  \
  REPRISE_SAME_PLACE(ours, point_to_point.count, theirs, p2p.count);         \
  REPRISE_SAME_PLACE(ours, point_to_point.peer, theirs, p2p.peer);           \
  REPRISE_SAME_PLACE(ours, point_to_point.channels, theirs, p2p.nChannels);  \
  REPRISE_SAME_PLACE(ours, proxy_operation.process, theirs, proxyOp.pid);    \
  REPRISE_SAME_PLACE(ours, proxy_operation.channel, theirs,                  \
                     proxyOp.channelId);                                     \
  REPRISE_SAME_PLACE(ours, proxy_operation.peer, theirs, proxyOp.peer);      \
  REPRISE_SAME_PLACE(ours, proxy_operation.steps, theirs, proxyOp.nSteps);   \
  REPRISE_SAME_PLACE(ours, proxy_operation.chunk_bytes, theirs,              \
                     proxyOp.chunkSize);                                     \
  REPRISE_SAME_PLACE(ours, proxy_operation.is_send, theirs, proxyOp.isSend); \
  REPRISE_SAME_PLACE(ours, proxy_step, theirs, proxyStep.step);              \
  REPRISE_SAME_PLACE(ours, kernel_channel.channel, theirs,                   \
                     kernelCh.channelId);                                    \
  REPRISE_SAME_PLACE(ours, kernel_channel.device_ns, theirs, kernelCh.pTimer)

#define REPRISE_SAME_CALLS(ours, theirs)                                      \
  REPRISE_SAME_PLACE(ours, group_api.graph_captured, theirs,                  \
                     groupApi.graphCaptured);                                 \
  REPRISE_SAME_PLACE(ours, group_api.depth, theirs, groupApi.groupDepth);     \
  REPRISE_SAME_PLACE(ours, collective_api.function, theirs, collApi.func);    \
  REPRISE_SAME_PLACE(ours, collective_api.count, theirs, collApi.count);      \
  REPRISE_SAME_PLACE(ours, collective_api.data_type, theirs,                  \
                     collApi.datatype);                                       \
  REPRISE_SAME_PLACE(ours, collective_api.root, theirs, collApi.root);        \
  REPRISE_SAME_PLACE(ours, collective_api.stream, theirs, collApi.stream);    \
  REPRISE_SAME_PLACE(ours, collective_api.graph_captured, theirs,             \
                     collApi.graphCaptured);                                  \
  REPRISE_SAME_PLACE(ours, point_to_point_api.count, theirs, p2pApi.count);   \
  REPRISE_SAME_PLACE(ours, point_to_point_api.stream, theirs, p2pApi.stream); \
  REPRISE_SAME_PLACE(ours, point_to_point_api.graph_captured, theirs,         \
                     p2pApi.graphCaptured);                                   \
  REPRISE_SAME_PLACE(ours, collective.group, theirs, coll.parentGroup);       \
  REPRISE_SAME_PLACE(ours, point_to_point.group, theirs, p2p.parentGroup)

#define REPRISE_SAME_TABLE(ours, theirs)                            \
  static_assert(sizeof(ours) == sizeof(theirs));                    \
  REPRISE_SAME_PLACE(ours, name, theirs, name);                     \
  REPRISE_SAME_PLACE(ours, init, theirs, init);                     \
  REPRISE_SAME_PLACE(ours, start_event, theirs, startEvent);        \
  REPRISE_SAME_PLACE(ours, stop_event, theirs, stopEvent);          \
  REPRISE_SAME_PLACE(ours, record_state, theirs, recordEventState); \
  REPRISE_SAME_PLACE(ours, finalize, theirs, finalize)

REPRISE_SAME_DESCRIPTOR(NcclDescriptorV4, ncclProfilerEventDescr_v4_t);
REPRISE_SAME_TABLE(NcclProfilerV4, ncclProfiler_v4_t);
static_assert(sizeof(NcclStateArguments) ==
              sizeof(ncclProfilerEventStateArgs_v4_t));
static_assert(kNcclKernelChannel == uint64_t{ncclProfileKernelCh});
static_assert(int{kNcclOperationInProgress} ==
              int{ncclProfilerProxyOpInProgress_v4});
static_assert(int{kNcclStepSendPeerWait} ==
              int{ncclProfilerProxyStepSendPeerWait_v4});
static_assert(int{kNcclStepSendWait} == int{ncclProfilerProxyStepSendWait});
static_assert(int{kNcclStepReceiveGpuWait} ==
              int{ncclProfilerProxyStepRecvGPUWait});
static_assert(int{kNcclKernelChannelStop} == int{ncclProfilerKernelChStop});

#ifdef PROFILER_V5_H_
REPRISE_SAME_DESCRIPTOR(NcclDescriptorV5, ncclProfilerEventDescr_v5_t);
REPRISE_SAME_CALLS(NcclDescriptorV5, ncclProfilerEventDescr_v5_t);
REPRISE_SAME_TABLE(NcclProfilerV5, ncclProfiler_v5_t);
static_assert(kNcclPointToPointApi == uint64_t{ncclProfileP2pApi});
static_assert(kNcclKernelLaunch == uint64_t{ncclProfileKernelLaunch});
#endif

#ifdef PROFILER_V6_H_
using V6 = ncclProfilerEventDescr_v6_t;
REPRISE_SAME_DESCRIPTOR(NcclDescriptorV5, V6);
REPRISE_SAME_CALLS(NcclDescriptorV5, V6);
REPRISE_SAME_TABLE(NcclProfilerV5, ncclProfiler_v6_t);
REPRISE_SAME_PLACE(NcclDescriptorV5, copy_engine_collective.data_type, V6,
                   ceColl.datatype);
REPRISE_SAME_PLACE(NcclDescriptorV5, copy_engine_collective.synchronizes_within,
                   V6, ceColl.intraBatchSync);
REPRISE_SAME_PLACE(NcclDescriptorV5, copy_engine_collective.stream, V6,
                   ceColl.stream);
REPRISE_SAME_PLACE(NcclDescriptorV5, copy_engine_synchronization.ranks, V6,
                   ceCollSync.nRanks);
REPRISE_SAME_PLACE(NcclDescriptorV5, copy_engine_batch.bytes, V6,
                   ceCollBatch.totalBytes);
REPRISE_SAME_PLACE(NcclDescriptorV5, copy_engine_batch.synchronizes_within, V6,
                   ceCollBatch.useIntraSync);
static_assert(kNcclCopyEngineBatch == uint64_t{ncclProfileCeBatch});
#endif

#pragma GCC diagnostic pop

}  // namespace reprise
