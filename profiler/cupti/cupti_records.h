// Activity records, as far as they are read. Between CUDA 12.0 and 13.0 the
// structs that CUPTI fills only grew at their ends, so one prefix each serves
// all; where a field came later, the version that brought it is said, and it is
// read from that version on only. Sizes of whole records are CUPTI's business
// (cuptiActivityGetNextRecord). Fields are read one by one, never a whole
// struct: an older record may end before the prefix does. Source:
// cupti_activity.h and cupti_activity_deprecated.h of CUDA 13.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::cupti {

/// CUpti_ActivityKernel9 (CUDA 12), CUpti_ActivityKernel10 (13).
struct KernelRecord {
  uint32_t kind;
  uint8_t cache[2];
  uint16_t registers;
  uint8_t partition[8];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared_bytes, dynamic_shared_bytes;
  uint8_t local_memory[8];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  uint8_t queued_and_submitted[24];
  uint8_t launch[8];
  uint64_t graph_node;
};
static_assert(offsetof(KernelRecord, start) == 16 &&
              offsetof(KernelRecord, device) == 40 &&
              offsetof(KernelRecord, grid) == 52 &&
              offsetof(KernelRecord, correlation) == 92 &&
              offsetof(KernelRecord, name) == 104 &&
              offsetof(KernelRecord, graph_node) == 144);

/// CUpti_ActivityMemcpy5 (before 12.8), CUpti_ActivityMemcpy6.
struct CopyRecord {
  uint32_t kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, pad;
  void* reserved;
  uint64_t graph_node;
};
static_assert(offsetof(CopyRecord, correlation) == 44 &&
              offsetof(CopyRecord, graph_node) == 64);

/// CUpti_ActivityMemcpyPtoP3 (before 12.8), CUpti_ActivityMemcpyPtoP4.
struct PeerCopyRecord {
  uint32_t kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t source_device, source_context, target_device, target_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;
};
static_assert(offsetof(PeerCopyRecord, correlation) == 60 &&
              offsetof(PeerCopyRecord, graph_node) == 72);

/// CUpti_ActivityMemset4.
struct MemsetRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t pad;
  void* reserved;
  uint64_t graph_node;
};
static_assert(offsetof(MemsetRecord, correlation) == 44 &&
              offsetof(MemsetRecord, graph_node) == 64);

/// CUpti_ActivityAPI.
struct ApiRecord {
  uint32_t kind, callback;
  uint64_t start, end;
  uint32_t process, thread, correlation, return_value;
};
static_assert(sizeof(ApiRecord) == 40);

/// CUpti_ActivityExternalCorrelation.
struct ExternalRecord {
  uint32_t kind, external_kind;
  uint64_t external_id;
  uint32_t correlation, reserved;
};
static_assert(sizeof(ExternalRecord) == 24);

/// CUpti_ActivitySynchronization, and from 12.8 CUpti_ActivitySynchronization2.
struct SynchronizationRecord {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
  uint64_t sync_id;  ///< From kEventSyncIdVersion on.
};
static_assert(offsetof(SynchronizationRecord, sync_id) == 40);

/// CUpti_ActivityCudaEvent, and from 12.8 CUpti_ActivityCudaEvent2.
struct EventRecord {
  uint32_t kind, correlation, context, stream, event, pad;
  uint8_t reserved[16];
  uint64_t device_time, sync_id;  ///< From kEventSyncIdVersion on.
};
static_assert(offsetof(EventRecord, sync_id) == 48);

/// CUpti_ActivityOverhead, Overhead2 and Overhead3.
struct OverheadRecord {
  uint32_t kind, overhead_kind, object_kind;
  uint32_t object[3];  ///< Of a thread: process, thread.
  uint64_t start, end;
  uint32_t correlation, reserved;
  void* data;  ///< The client's to free, from kOverheadDataVersion on.
};
static_assert(offsetof(OverheadRecord, start) == 24 &&
              offsetof(OverheadRecord, data) == 48);

}  // namespace reprise::cupti
