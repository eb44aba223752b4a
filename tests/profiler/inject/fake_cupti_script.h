// What the fake CUPTI reports in tests, and what each part of it must become:
// the same numbers for the program that plays it and the test that reads.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/profiler/inject/fake_cupti.h"

namespace reprise::fake {

inline constexpr int kThreads = 4;
inline constexpr uint32_t kRounds = 500;  ///< Of a thread.
inline constexpr uint32_t kBusyKernels = 5000;
inline constexpr uint32_t kQueuedKernels = 64;  ///< Launched, not yet run.
/// Bases of numbers, so that no two threads share one.
inline constexpr uint64_t kThreadTime = 1'000'000'000;
inline constexpr uint32_t kThreadCorrelation = 1'000'000;
inline constexpr const char* kKernelName = "_Z6kernelIfEvPT_";

/// One round of one thread: about two dozen records, all that CUPTI knows.
struct Round {
  Round(int thread, uint32_t round)
      : time(kThreadTime * static_cast<uint64_t>(thread + 1) + round * 1'000),
        correlation(kThreadCorrelation * static_cast<uint32_t>(thread + 1) +
                    round * 20),
        thread_id(5'000 + static_cast<uint32_t>(thread)),
        stream(7 + static_cast<uint32_t>(thread)),
        event(10'000 * static_cast<uint32_t>(thread + 1) + round),
        unit(round % 97) {}

  uint64_t time;
  uint32_t correlation;
  uint32_t thread_id;
  uint32_t stream;
  uint32_t event;
  uint64_t unit;

  Activity at(uint32_t kind, uint64_t start, uint32_t number) const {
    Activity activity;
    activity.kind = kind;
    activity.start = time + start;
    activity.end = activity.start + 5;
    activity.correlation = correlation + number;
    activity.stream = stream;
    activity.thread = thread_id;
    activity.name = kKernelName;
    activity.grid = 64;
    activity.block = 128;
    return activity;
  }
  Activity call(uint64_t start, uint32_t number, uint32_t callback,
                bool is_runtime = true) const {
    Activity activity = at(is_runtime ? 5 : 4, start, number);
    activity.callback = callback;
    return activity;
  }
  Activity kernel(uint64_t start, uint32_t number) const {
    return at(10, start, number);
  }

  std::vector<Activity> records() const;
};

inline std::vector<Activity> Round::records() const {
  std::vector<Activity> all;
  // Of a unit: its external id, the driver's call within the runtime's.
  Activity external = at(39, 0, 0);
  external.type = 3;
  external.external = unit;
  all.push_back(external);
  all.push_back(call(10, 0, 307, /*is_runtime=*/false));
  all.push_back(call(9, 0, 211));
  all.push_back(kernel(20, 0));
  // By the driver alone, as XLA does.
  all.push_back(call(30, 1, 307, /*is_runtime=*/false));
  all.push_back(kernel(40, 1));
  // Copies and a memset.
  all.push_back(call(50, 2, 41));
  Activity copy = at(1, 60, 2);
  copy.type = 1;  // HtoD.
  copy.bytes = 4'096 + unit;
  all.push_back(copy);
  Activity peer = at(22, 70, 3);
  peer.type = 10;
  peer.bytes = 8'192;
  all.push_back(peer);
  all.push_back(call(80, 4, 51));
  Activity set = at(2, 90, 4);
  set.bytes = 512;
  all.push_back(set);
  // Stream 1 waits for an event recorded on this thread's stream.
  all.push_back(call(100, 5, 135));
  Activity recorded = at(36, 0, 5);
  recorded.event = event;
  recorded.sync_id = correlation;
  Activity wait = at(38, 110, 6);
  wait.type = 2;
  wait.event = event;
  wait.sync_id = correlation;
  wait.stream = 1;
  all.push_back(call(108, 6, 147));
  // In every other round the wait comes first, as buffers of threads may.
  if (unit % 2 == 0) all.push_back(recorded);
  all.push_back(wait);
  if (unit % 2 != 0) all.push_back(recorded);
  // A graph of two nodes, then the host waits for the stream.
  all.push_back(call(120, 7, 311));
  for (uint64_t node = 0; node < 2; ++node) {
    Activity work = kernel(130 + 10 * node, 7);
    work.graph_node = 900 + node;
    all.push_back(work);
  }
  all.push_back(call(150, 8, 131));
  Activity join = at(38, 152, 8);
  join.type = 3;
  join.event = 0xffffffffU;
  all.push_back(join);
  // What has no times, or half of them; what is not recorded; overhead.
  Activity untimed = kernel(0, 9);
  untimed.start = untimed.end = 0;
  all.push_back(untimed);
  Activity incomplete = kernel(160, 10);
  incomplete.end = 0;
  all.push_back(incomplete);
  all.push_back(call(170, 11, 20));  // cudaMalloc.
  Activity overhead = at(17, 180, 0);
  overhead.type = 2U << 16;
  all.push_back(overhead);
  return all;
}

}  // namespace reprise::fake
