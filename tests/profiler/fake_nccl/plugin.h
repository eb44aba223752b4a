// NCCL's side of its profiler plugin interface: finds and loads the plugin as
// NCCL does, and calls version 6 of the table, or the one before which
// FAKE_NCCL_PROFILER_VERSION names, or version 4 where that is missing.
#pragma once

#include <cstdint>
#include <string>

#include "profiler/nccl/profiler_abi.h"

namespace fake_nccl {

class ProfilerPlugin {
 public:
  /// By NCCL_PROFILER_PLUGIN: a path, or a name in libnccl-profiler-NAME.so;
  /// null where there is none. Loaded once and never again.
  static ProfilerPlugin* loaded();

  int version() const { return v5_ != nullptr ? newest_ : 4; }
  int mask() const { return mask_; }

  /// The context of one communicator.
  void* open(uint64_t communicator, const char* name, int nodes, int ranks,
             int rank);
  /// The handle of a new event; null when the plugin gives none, or the mask
  /// has none of the type.
  void* start(void* context, const reprise::NcclDescriptorV5& descriptor);
  void stop(void* handle);
  void record_state(void* handle, int state, uint64_t value = 0);
  void close(void* context);

 private:
  bool load(const std::string& name);

  int newest_ = 6;
  reprise::NcclProfilerV5* v5_ = nullptr;  ///< Or version 6, laid out alike.
  reprise::NcclProfilerV4* v4_ = nullptr;
  int mask_ = 0;
};

}  // namespace fake_nccl
