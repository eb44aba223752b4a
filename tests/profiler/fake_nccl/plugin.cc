#include "tests/profiler/fake_nccl/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace fake_nccl {
namespace {

using reprise::NcclDescriptorV4;
using reprise::NcclDescriptorV5;

// As NCCL 2.28's own shim: the group is the parent, and what version 4 does not
// know stays what it happens to be.
NcclDescriptorV4 as_v4(const NcclDescriptorV5& v5) {
  NcclDescriptorV4 v4;
  std::memset(&v4, 0xa5, sizeof v4);
  v4.type = static_cast<uint8_t>(v5.type);
  v4.parent = v5.parent;
  v4.rank = v5.rank;
  if (v5.type == reprise::kNcclCollective) {
    v4.collective = v5.collective;
    v4.parent = v5.collective.group;
  } else if (v5.type == reprise::kNcclPointToPoint) {
    v4.point_to_point = v5.point_to_point;
    v4.parent = v5.point_to_point.group;
  } else if (v5.type == reprise::kNcclProxyOperation) {
    v4.proxy_operation = v5.proxy_operation;
  } else if (v5.type == reprise::kNcclProxyStep) {
    v4.proxy_step = v5.proxy_step;
  } else if (v5.type == reprise::kNcclKernelChannel) {
    v4.kernel_channel = v5.kernel_channel;
  }
  return v4;
}

}  // namespace

ProfilerPlugin* ProfilerPlugin::loaded() {
  static ProfilerPlugin plugin;
  static const bool found = [] {
    const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
    if (name == nullptr) return plugin.load("libnccl-profiler.so");
    if (std::strcmp(name, "none") == 0) return false;
    return plugin.load(name) ||
           plugin.load("libnccl-profiler-" + std::string(name) + ".so");
  }();
  return found ? &plugin : nullptr;
}

bool ProfilerPlugin::load(const std::string& name) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const char* version = std::getenv("FAKE_NCCL_PROFILER_VERSION");
  newest_ = version == nullptr ? 6 : std::atoi(version);
  if (newest_ > 4) {
    v5_ = static_cast<reprise::NcclProfilerV5*>(
        ::dlsym(library, newest_ > 5 ? "ncclProfiler_v6" : "ncclProfiler_v5"));
  }
  v4_ = static_cast<reprise::NcclProfilerV4*>(
      ::dlsym(library, "ncclProfiler_v4"));
  return v5_ != nullptr || v4_ != nullptr;
}

void* ProfilerPlugin::open(uint64_t communicator, const char* name, int nodes,
                           int ranks, int rank) {
  void* context = nullptr;
  if (v5_ != nullptr) {
    v5_->init(&context, communicator, &mask_, name, nodes, ranks, rank,
              nullptr);
  } else {
    v4_->init(&context, &mask_, name, communicator, nodes, ranks, rank,
              nullptr);
  }
  return context;
}

void* ProfilerPlugin::start(void* context, const NcclDescriptorV5& descriptor) {
  if ((static_cast<uint64_t>(mask_) & descriptor.type) == 0) return nullptr;
  void* handle = &handle;  // NCCL does not clear it either.
  if (v5_ != nullptr) {
    NcclDescriptorV5 copy = descriptor;
    v5_->start_event(context, &handle, &copy);
  } else {
    NcclDescriptorV4 copy = as_v4(descriptor);
    v4_->start_event(context, &handle, &copy);
  }
  return handle;
}

void ProfilerPlugin::stop(void* handle) {
  v5_ != nullptr ? v5_->stop_event(handle) : v4_->stop_event(handle);
}

void ProfilerPlugin::record_state(void* handle, int state, uint64_t value) {
  reprise::NcclStateArguments arguments;
  arguments.device_ns = value;
  const bool has_none = state == reprise::kNcclOperationInProgress;
  auto* given = has_none ? nullptr : &arguments;
  v5_ != nullptr ? v5_->record_state(handle, state, given)
                 : v4_->record_state(handle, state, given);
}

void ProfilerPlugin::close(void* context) {
  v5_ != nullptr ? v5_->finalize(context) : v4_->finalize(context);
}

}  // namespace fake_nccl
