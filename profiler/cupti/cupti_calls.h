// Which driver and runtime calls are recorded: those that put work or waits on
// the device. Recording every call is most of what CUPTI costs a host thread.
#pragma once

#include <cstdint>
#include <span>

namespace reprise::cupti {

/// Callback ids of CUPTI's runtime domain.
std::span<const uint32_t> recorded_runtime_calls();
/// Callback ids of CUPTI's driver domain.
std::span<const uint32_t> recorded_driver_calls();

bool is_recorded_call(bool is_runtime, uint32_t id);
bool is_graph_launch(bool is_runtime, uint32_t id);
/// cudaProfilerStart, cuProfilerStart: these open a window.
bool is_profiler_start(bool is_runtime, uint32_t id);
bool is_profiler_stop(bool is_runtime, uint32_t id);

inline constexpr uint32_t kRuntimeProfilerStart = 171;
inline constexpr uint32_t kRuntimeProfilerStop = 172;
inline constexpr uint32_t kDriverProfilerStart = 308;
inline constexpr uint32_t kDriverProfilerStop = 309;

}  // namespace reprise::cupti
