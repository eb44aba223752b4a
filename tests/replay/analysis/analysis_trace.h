// A trace written event by event, for tests of the analysis.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "data/trace/trace.h"

namespace reprise {

/// Times in the unit that the test likes. Call `trace()` last: it sorts.
class AnalysisTrace {
 public:
  uint32_t host_thread(uint32_t rank, const std::string& name = "thread 1") {
    return stream(rank, name, StreamKind::kHostThread);
  }
  uint32_t device_stream(uint32_t rank, const std::string& name = "stream 7") {
    return stream(rank, name, StreamKind::kDeviceStream);
  }
  uint32_t stream(uint32_t rank, const std::string& name, StreamKind kind) {
    add_rank(rank);
    trace_.streams.push_back({.rank = rank, .name = name, .kind = kind});
    return static_cast<uint32_t>(trace_.streams.size() - 1);
  }

  Event& add(uint32_t stream, EventKind kind, const std::string& name,
             int64_t start, int64_t end, int64_t correlation = -1) {
    Event event;
    event.rank = trace_.streams[stream].rank;
    event.stream = stream;
    event.kind = kind;
    event.name = intern(name);
    event.start_ns = event.enqueue_ns = start;
    event.end_ns = end;
    event.correlation = correlation;
    trace_.events.push_back(event);
    return trace_.events.back();
  }
  /// A launch at `at` on `host` and its kernel.
  void kernel(uint32_t host, int64_t at, uint32_t device,
              const std::string& name, int64_t start, int64_t end,
              EventKind kind = EventKind::kCompute) {
    ++correlation_;
    add(host, EventKind::kRuntime, "cudaLaunchKernel", at, at + 1,
        correlation_);
    add(device, kind, name, start, end, correlation_);
  }
  void step(uint32_t rank, int32_t number, int64_t start, int64_t end) {
    add_rank(rank);
    trace_.steps.push_back(
        {.rank = rank, .step = number, .start_ns = start, .end_ns = end});
  }

  Trace& trace() {
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const Event& a, const Event& b) {
                       return std::tie(a.rank, a.start_ns, a.stream) <
                              std::tie(b.rank, b.start_ns, b.stream);
                     });
    std::sort(
        trace_.ranks.begin(), trace_.ranks.end(),
        [](const RankInfo& a, const RankInfo& b) { return a.rank < b.rank; });
    return trace_;
  }

 private:
  void add_rank(uint32_t rank) {
    for (const RankInfo& known : trace_.ranks) {
      if (known.rank == rank) return;
    }
    RankInfo info;
    info.rank = rank;
    info.host = "host";
    info.clock_domain = "epoch";
    trace_.ranks.push_back(info);
  }
  StringId intern(const std::string& text) {
    const auto [place, added] =
        ids_.try_emplace(text, static_cast<uint32_t>(trace_.strings.size()));
    if (added) trace_.strings.push_back(text);
    return StringId{place->second};
  }

  Trace trace_;
  std::map<std::string, uint32_t> ids_;
  int64_t correlation_ = 0;
};

}  // namespace reprise
