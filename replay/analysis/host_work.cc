#include "replay/analysis/host_work.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "data/integers.h"
#include "replay/analysis/device_work.h"
#include "replay/analysis/own_time.h"

namespace reprise {

std::vector<HostOwnTime> host_work(const Trace& trace, uint32_t rank) {
  const auto [first, last] = events_of_rank(trace, rank);
  std::vector<HostOwnTime> all;
  for (size_t i = first; i < last; ++i) {
    const Event& event = trace.events[i];
    if (trace.streams[event.stream].kind != StreamKind::kHostThread) continue;
    all.push_back(
        {.event = static_cast<uint32_t>(i),
         .own_ns = saturating_subtract(event.end_ns, event.start_ns)});
  }
  const auto of = [&](const HostOwnTime& work) -> const Event& {
    return trace.events[work.event];
  };
  // What encloses goes before what it encloses.
  std::stable_sort(
      all.begin(), all.end(), [&](const HostOwnTime& a, const HostOwnTime& b) {
        return std::tie(of(a).stream, of(a).start_ns, of(b).end_ns) <
               std::tie(of(b).stream, of(b).start_ns, of(a).end_ns);
      });
  take_out_nested(all, trace.streams.size(),
                  [&](const HostOwnTime& work) { return &of(work); });
  std::erase_if(all, [&](const HostOwnTime& work) {
    return of(work).kind != EventKind::kHostOp &&
           of(work).kind != EventKind::kAnnotation;
  });
  return all;
}

}  // namespace reprise
