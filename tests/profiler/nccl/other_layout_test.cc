// Our declarations of NCCL's other plugin tables against its headers: compiled
// where there is a checkout of NVIDIA/nccl (vendor_headers_test.py).
#include <sys/types.h>

#include <cstdint>

// What NCCL's own headers leave to others. The profiler's hold this version's
// words for the tuner's.
#include "nccl/err.h"
//
#include "nccl/profiler.h"

using ncclFunc_t = int;

#include "tests/profiler/nccl/other_tables.h"
#include "tuner/tuner_v2.h"
#include "tuner/tuner_v3.h"
#include "tuner/tuner_v4.h"
#include "tuner/tuner_v5.h"
#include "tuner/tuner_v6.h"

namespace reprise {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

#define REPRISE_SAME_PLACE(ours, our_member, theirs, their_member) \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member))

#define REPRISE_SAME_EARLY(ours, theirs)                                       \
  static_assert(sizeof(ours) == sizeof(theirs));                               \
  static_assert(sizeof(ours::type) == sizeof(theirs::type));                   \
  REPRISE_SAME_PLACE(ours, parent, theirs, parentObj);                         \
  REPRISE_SAME_PLACE(ours, rank, theirs, rank);                                \
  REPRISE_SAME_PLACE(ours, collective.communicator, theirs, coll.commHash);    \
  REPRISE_SAME_PLACE(ours, collective.sequence, theirs, coll.seqNumber);       \
  REPRISE_SAME_PLACE(ours, collective.function, theirs, coll.func);            \
  REPRISE_SAME_PLACE(ours, collective.send, theirs, coll.sendBuff);            \
  REPRISE_SAME_PLACE(ours, collective.count, theirs, coll.count);              \
  REPRISE_SAME_PLACE(ours, collective.root, theirs, coll.root);                \
  REPRISE_SAME_PLACE(ours, collective.data_type, theirs, coll.datatype);       \
  REPRISE_SAME_PLACE(ours, collective.most_channels, theirs,                   \
                     coll.nMaxChannels);                                       \
  REPRISE_SAME_PLACE(ours, collective.warps, theirs, coll.nWarps);             \
  REPRISE_SAME_PLACE(ours, collective.algorithm, theirs, coll.algo);           \
  REPRISE_SAME_PLACE(ours, collective.protocol, theirs, coll.proto);           \
  REPRISE_SAME_PLACE(ours, point_to_point.communicator, theirs, p2p.commHash); \
  REPRISE_SAME_PLACE(ours, point_to_point.function, theirs, p2p.func);         \
  REPRISE_SAME_PLACE(ours, point_to_point.data_type, theirs, p2p.datatype);    \
  REPRISE_SAME_PLACE(ours, point_to_point.count, theirs, p2p.count);           \
  REPRISE_SAME_PLACE(ours, point_to_point.peer, theirs, p2p.peer);             \
  REPRISE_SAME_PLACE(ours, proxy_operation.is_send, theirs, proxyOp.isSend);   \
  REPRISE_SAME_PLACE(ours, proxy_step, theirs, proxyStep.step)

#define REPRISE_SAME_EARLY_TABLE(descriptor, theirs)                      \
  static_assert(sizeof(NcclEarlyProfiler<descriptor>) == sizeof(theirs)); \
  REPRISE_SAME_PLACE(NcclEarlyProfiler<descriptor>, init, theirs, init);  \
  REPRISE_SAME_PLACE(NcclEarlyProfiler<descriptor>, start_event, theirs,  \
                     startEvent);                                         \
  REPRISE_SAME_PLACE(NcclEarlyProfiler<descriptor>, record_state, theirs, \
                     recordEventState);                                   \
  REPRISE_SAME_PLACE(NcclEarlyProfiler<descriptor>, finalize, theirs, finalize)

REPRISE_SAME_EARLY(NcclDescriptorV1, ncclProfilerEventDescr_v1_t);
REPRISE_SAME_EARLY_TABLE(NcclDescriptorV1, ncclProfiler_v1_t);
REPRISE_SAME_PLACE(NcclDescriptorV1, collective.reduction,
                   ncclProfilerEventDescr_v1_t, coll.op);
REPRISE_SAME_PLACE(NcclDescriptorV1, collective.traffic_bytes,
                   ncclProfilerEventDescr_v1_t, coll.trafficBytes);
REPRISE_SAME_PLACE(NcclDescriptorV1, collective.uses_collnet,
                   ncclProfilerEventDescr_v1_t, coll.isCollnet);
REPRISE_SAME_PLACE(NcclDescriptorV1, collective.uses_nvls,
                   ncclProfilerEventDescr_v1_t, coll.isNvls);
REPRISE_SAME_EARLY(NcclDescriptorV2, ncclProfilerEventDescr_v2_t);
REPRISE_SAME_EARLY_TABLE(NcclDescriptorV2, ncclProfiler_v2_t);
REPRISE_SAME_PLACE(NcclDescriptorV2, collective.traffic_bytes,
                   ncclProfilerEventDescr_v2_t, coll.trafficBytes);
REPRISE_SAME_EARLY(NcclDescriptorV3, ncclProfilerEventDescr_v3_t);
REPRISE_SAME_EARLY_TABLE(NcclDescriptorV3, ncclProfiler_v3_t);
REPRISE_SAME_PLACE(NcclDescriptorV3, kernel_channel,
                   ncclProfilerEventDescr_v3_t, kernelCh.channelId);
REPRISE_SAME_PLACE(NcclDescriptorV3, network.data, ncclProfilerEventDescr_v3_t,
                   netPlugin.data);
static_assert(sizeof(NcclStateArgumentsV1) ==
              sizeof(ncclProfilerEventStateArgs_v1_t));
static_assert(sizeof(NcclStateArgumentsV1) ==
              sizeof(ncclProfilerEventStateArgs_v3_t));

#define REPRISE_SAME_TUNER(ours, theirs, end, their_end) \
  static_assert(sizeof(ours) == sizeof(theirs));         \
  REPRISE_SAME_PLACE(ours, name, theirs, name);          \
  REPRISE_SAME_PLACE(ours, init, theirs, init);          \
  REPRISE_SAME_PLACE(ours, choose, theirs, getCollInfo); \
  REPRISE_SAME_PLACE(ours, end, theirs, their_end)

REPRISE_SAME_TUNER(NcclTunerV2, ncclTuner_v2_t, destroy, destroy);
REPRISE_SAME_TUNER(NcclTunerV3, ncclTuner_v3_t, destroy, destroy);
REPRISE_SAME_TUNER(NcclTunerV4, ncclTuner_v4_t, destroy, destroy);
REPRISE_SAME_TUNER(NcclTunerV5, ncclTuner_v5_t, finalize, finalize);
REPRISE_SAME_TUNER(NcclTunerV6, ncclTuner_v6_t, finalize, finalize);
REPRISE_SAME_PLACE(NcclTunerV6, choose_chunk, ncclTuner_v6_t, getChunkSize);
static_assert(sizeof(NcclNvlinkDomains) == sizeof(ncclNvlDomainInfo_v5_t));
static_assert(sizeof(NcclTunerConstants) == sizeof(ncclTunerConstants_v5_t));
REPRISE_SAME_PLACE(NcclTunerConstants, link_latencies, ncclTunerConstants_v5_t,
                   hwLatencies);
REPRISE_SAME_PLACE(NcclTunerConstants, ll_bandwidths, ncclTunerConstants_v5_t,
                   llMaxBws);
REPRISE_SAME_PLACE(NcclTunerConstants, nvls_tree_bandwidths,
                   ncclTunerConstants_v5_t, perChMaxNVLSTreeBws);

#pragma GCC diagnostic pop

}  // namespace reprise
