#include "profiler/cupti/cupti_calls.h"

#include <algorithm>

namespace reprise::cupti {
namespace {

// Ascending. Source: cupti_runtime_cbid.h of CUDA 13.0; ids never change.
constexpr uint32_t kRuntimeCalls[] = {
    13,                                      // cudaLaunch
    41,  42,  43,  44,  45,  46,  47,  48,   // cudaMemcpy…Async
    51,  52,                                 // cudaMemset…Async
    131,                                     // cudaStreamSynchronize
    135, 137,                                // cudaEventRecord, …Synchronize
    143, 145,                                // cudaMemset3DAsync, Memcpy3DAsync
    147,                                     // cudaStreamWaitEvent
    161, 163,                                // cudaMemcpy…PeerAsync
    165,                                     // cudaDeviceSynchronize
    211, 213, 214,                           // cudaLaunchKernel, _ptsz
    225, 226, 227, 228, 229, 230, 231, 232,  // cudaMemcpy…Async_ptsz
    235, 236,                                // cudaMemset…Async_ptsz
    239, 242,            // …Synchronize, EventRecord _ptsz
    244, 246, 247, 250,  // 3D, WaitEvent, Peer _ptsz
    269, 270, 272,       // cudaLaunchCooperativeKernel…
    311, 312,            // cudaGraphLaunch
    370, 371,            // cudaEventRecordWithFlags
    430, 431,            // cudaLaunchKernelExC
    482, 483, 484, 485, 509, 510, 511, 512,  // cudaMemcpy…BatchAsync
};

// Ascending. Source: cupti_driver_cbid.h of CUDA 13.0.
constexpr uint32_t kDriverCalls[] = {
    17,                                 // cuCtxSynchronize
    60,  62,  64,  66,  67,  68,  69,   // cuMemcpy…Async
    115, 116, 117,                      // cuLaunch…
    119, 121, 126,                      // cuEventRecord, …Synchronize
    216, 218, 220, 222, 224, 226,       // cuMemset…Async
    277, 279, 281, 283, 289, 291, 293,  // cuMemcpy…Async_v2
    295,                                // cuStreamWaitEvent
    306, 307,                           // cuMemcpyAsync, cuLaunchKernel
    319, 321,                           // cuMemcpy…PeerAsync
    418, 419, 420, 421, 422, 423, 424, 425, 426, 427,  // copies, _ptsz
    428, 429, 430, 431, 432, 433,                      // cuMemset…Async_ptsz
    436, 440, 441, 442,  // wait, synchronize, record, launch
    477, 478, 480,       // cuLaunchCooperativeKernel…
    514, 515,            // cuGraphLaunch
    587, 588,            // cuEventRecordWithFlags
    652, 653,            // cuLaunchKernelEx
    776, 777, 778, 779, 796, 797, 798, 799,  // cuMemcpy…BatchAsync
    800,                                     // cuCtxSynchronize_v2
};
static_assert(std::ranges::is_sorted(kRuntimeCalls) &&
              std::ranges::is_sorted(kDriverCalls));

}  // namespace

std::span<const uint32_t> recorded_runtime_calls() { return kRuntimeCalls; }
std::span<const uint32_t> recorded_driver_calls() { return kDriverCalls; }

bool is_recorded_call(bool is_runtime, uint32_t id) {
  return is_runtime ? std::ranges::binary_search(kRuntimeCalls, id)
                    : std::ranges::binary_search(kDriverCalls, id);
}

bool is_graph_launch(bool is_runtime, uint32_t id) {
  return is_runtime ? id == 311 || id == 312 : id == 514 || id == 515;
}

bool is_profiler_start(bool is_runtime, uint32_t id) {
  return id == (is_runtime ? kRuntimeProfilerStart : kDriverProfilerStart);
}

bool is_profiler_stop(bool is_runtime, uint32_t id) {
  return id == (is_runtime ? kRuntimeProfilerStop : kDriverProfilerStop);
}

}  // namespace reprise::cupti
