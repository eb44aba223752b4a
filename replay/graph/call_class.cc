#include "replay/graph/call_class.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace reprise {
namespace {

struct CallName {
  std::string_view part;
  CallClass call;
};

// Driver and runtime calls of CUDA, HIP and those that name theirs alike (MUSA,
// MACA, Ascend's ACL); nsys appends "_v3020".
constexpr CallName kCallNames[] = {
    {"DeviceSynchronize", CallClass::kSyncDevice},
    {"CtxSynchronize", CallClass::kSyncDevice},
    {"StreamSynchronize", CallClass::kSyncStream},
    {"EventSynchronize", CallClass::kSyncEvent},
    {"StreamWaitEvent", CallClass::kStreamWait},
    {"EventRecord", CallClass::kRecord},
    {"SynchronizeDevice", CallClass::kSyncDevice},
    {"SynchronizeStream", CallClass::kSyncStream},
    {"SynchronizeEvent", CallClass::kSyncEvent},
    {"RecordEvent", CallClass::kRecord},
    {"Memcpy", CallClass::kCopy},
    {"Memset", CallClass::kCopy},
    {"cudaFree", CallClass::kSyncDevice},
    {"hipFree", CallClass::kSyncDevice},
    {"cuMemFree", CallClass::kSyncDevice},
};

// Whole names of SYCL's unified runtime and of Level Zero. A barrier that waits
// for events holds its queue until they are done; SYCL asks for none to record
// an event on a queue that is in order.
constexpr CallName kIntelCalls[] = {
    {"urQueueFinish", CallClass::kSyncStream},
    {"urEventWait", CallClass::kSyncEvent},
    {"zeCommandQueueSynchronize", CallClass::kSyncStream},
    {"zeCommandListHostSynchronize", CallClass::kSyncStream},
    {"zeEventHostSynchronize", CallClass::kSyncEvent},
    {"urEnqueueEventsWaitWithBarrier", CallClass::kStreamWait},
    {"urEnqueueEventsWaitWithBarrierExt", CallClass::kStreamWait},
    {"zeCommandListAppendBarrier", CallClass::kStreamWait},
    {"zeCommandListAppendWaitOnEvents", CallClass::kStreamWait},
    {"zeCommandListAppendSignalEvent", CallClass::kRecord},
};

CallClass class_of(std::string_view name) {
  if (name.starts_with("ProfilerStep")) return CallClass::kStepMark;
  for (const CallName& known : kIntelCalls) {
    if (name == known.part) return known.call;
  }
  constexpr std::string_view kApis[] = {"cu", "hip", "musa", "mc", "aclrt"};
  const bool api =
      std::any_of(std::begin(kApis), std::end(kApis),
                  [&](auto prefix) { return name.starts_with(prefix); });
  // cudaFreeHost and cudaFreeAsync wait for nothing.
  if (!api || name.find("FreeHost") != name.npos ||
      name.find("FreeAsync") != name.npos) {
    return CallClass::kPlain;
  }
  for (const CallName& known : kCallNames) {
    if (name.find(known.part) != name.npos) return known.call;
  }
  return CallClass::kPlain;
}

}  // namespace

std::vector<CallClass> classify_calls(const Trace& trace) {
  std::vector<CallClass> classes(trace.strings.size(), CallClass::kPlain);
  for (size_t id = 0; id < trace.strings.size(); ++id) {
    classes[id] = class_of(trace.strings[id]);
  }
  return classes;
}

}  // namespace reprise
