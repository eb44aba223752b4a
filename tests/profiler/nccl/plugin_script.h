// A script for the NCCL profiler plugin: thousands of events of four host
// threads and their proxies, and when the plugin heard of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "profiler/nccl/profiler_abi.h"
#include "profiler/process_recorder.h"

namespace reprise {

/// A descriptor of NCCL's with only these two fields set.
NcclDescriptorV5 descriptor(NcclEventType type, void* parent = nullptr);

/// When the plugin was called: a record's time lies between.
struct Bracket {
  int64_t before = 0, after = 0;
  template <typename Call>
  auto around(Call&& call) {
    before = ProcessRecorder::now_ns();
    struct Close {
      int64_t& at;
      ~Close() { at = ProcessRecorder::now_ns(); }
    } const close{after};
    return call();
  }
  bool holds(int64_t time) const { return before <= time && time <= after; }
};
struct Span {
  Bracket start, stop;
  bool holds(const ProcessRecord& record) const {
    return start.holds(record.start_ns) && stop.holds(record.end_ns);
  }
};

inline constexpr size_t kThreads = 4, kCalls = 250, kSteps = 3;
inline constexpr uint64_t kDeviceEpoch = 1'700'000'000'000'000'000;

/// One scripted call: its host thread starts it, a proxy thread plays the rest.
struct Call {
  int64_t thread, proxy_thread;
  Span api, group, call, operation;
  std::array<Span, kSteps> steps;
  std::array<std::array<Bracket, 3>, kSteps> waits;
  std::array<Bracket, 2> channel_ends;
  void* handle;
};
using Script = std::array<std::array<Call, kCalls>, kThreads>;

inline bool is_send(size_t i) { return i % 5 == 4; }
inline uint64_t count_of(size_t thread, size_t i) {
  return 1 + thread * kCalls + i;  // No two calls have the same.
}
inline uint64_t device_start(size_t i, size_t channel) {
  return kDeviceEpoch + i * 1000 + channel;
}
/// Every seventh call's second channel has no end, as NCCL sometimes loses it.
inline uint64_t device_end(size_t i, size_t channel) {
  return channel == 1 && i % 7 == 6 ? 0 : device_start(i, channel) + 500;
}

/// Plays it to the plugin that NCCL_PROFILER_PLUGIN names, on threads as NCCL
/// has them. Returns an exit status.
int play_script(Script* script);

}  // namespace reprise
