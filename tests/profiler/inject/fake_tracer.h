// What the fake driver (tests/runtime/cuda/fake_driver.h) tells the fake CUPTI,
// so that the two are one device to whoever traces it. The fake CUPTI hands
// this to `fake_cuda_trace` of the driver in its process, when a tool
// subscribes.
#pragma once

#include <cstdint>

#include "tests/profiler/inject/fake_cupti.h"

namespace reprise::fake {

struct Tracer {
  /// On the clock of the tool's records, ns.
  uint64_t (*now)();
  /// A call of the calling thread returns: its `name` as programs write it,
  /// `correlation` and `start`. What the thread has pushed goes before it.
  void (*call)(const char* name, bool is_runtime, uint32_t correlation,
               uint64_t start);
  /// A synchronization or an event of the calling thread.
  void (*host)(const Activity* activity);
  /// Work that a device has done.
  void (*device)(const Activity* activity);
  /// As fake_cupti_graph_node and fake_cupti_context.
  void (*graph_node)(uint64_t node, uint64_t original);
  void (*context)(uint32_t context, uint32_t device);
};

}  // namespace reprise::fake
