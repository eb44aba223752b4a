#include "replay/collectives/coalesced_calls.h"

#include <algorithm>
#include <compare>
#include <map>
#include <tuple>
#include <utility>

#include "data/collective/collective_names.h"

namespace reprise {
namespace {

CollectiveKind kind_of_kernel(const Trace& trace, const Event& kernel) {
  const CollectiveInfo* info = info_of(trace, kernel);
  return info && info->kind != CollectiveKind::kUnknown
             ? info->kind
             : collective_named(trace.text(kernel.name));
}

/// Whether the kernel, or a range around its launch, says what it served.
bool is_described(const Trace& trace, const Event& kernel,
                  std::span<const uint32_t> ranges) {
  const CollectiveInfo* own = info_of(trace, kernel);
  if (kernel.bytes > 0 || kernel.sequence >= 0 || kernel.graph_node >= 0)
    return true;
  if (own && (own->input_elements >= 0 || !own->communicator.empty()))
    return true;
  return std::any_of(ranges.begin(), ranges.end(), [&](uint32_t range) {
    const CollectiveInfo* info = info_of(trace, trace.events[range]);
    return info != nullptr && info->kind != CollectiveKind::kUnknown;
  });
}

/// By host thread, in the order of their starts.
using ByThread = std::map<uint32_t, std::vector<uint32_t>>;

int told_by(const CollectiveInfo& info) {
  return (info.peer >= 0 ? 1 : 0) + (info.input_elements >= 0 ? 1 : 0) +
         (info.communicator.empty() ? 0 : 1);
}

/// Described calls that launched nothing themselves; of nested ones that which
/// tells most, else the outer one.
ByThread calls_without_kernel(const Trace& trace,
                              const CollectiveDescriptions& descriptions) {
  ByThread calls;
  for (const uint32_t index : descriptions.ranges()) {
    const Event& event = trace.events[index];
    const CollectiveInfo* info = info_of(trace, event);
    if (info == nullptr || info->kind == CollectiveKind::kUnknown ||
        event.kind == EventKind::kCollective || descriptions.used(index)) {
      continue;
    }
    calls[event.stream].push_back(index);
  }
  for (auto& [thread, list] : calls) {
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      const Event &x = trace.events[a], &y = trace.events[b];
      return std::tie(x.start_ns, y.end_ns, a) <
             std::tie(y.start_ns, x.end_ns, b);
    });
    size_t kept = 0;
    int64_t open_until_ns = INT64_MIN;
    for (const uint32_t index : list) {
      const Event& event = trace.events[index];
      if (event.start_ns >= open_until_ns) {
        list[kept++] = index;
        open_until_ns = std::max(event.end_ns, event.start_ns + 1);
        continue;
      }
      uint32_t& outer = list[kept - 1];
      if (told_by(*info_of(trace, event)) >
          told_by(*info_of(trace, trace.events[outer])))
        outer = index;
    }
    list.resize(kept);
  }
  return calls;
}

/// A kernel that nothing describes.
struct Launch {
  uint32_t thread = 0;
  int64_t at_ns = 0;
  size_t i = 0;  ///< In `device`.
  auto operator<=>(const Launch&) const = default;
};

/// By thread and time.
std::vector<Launch> undescribed_launches(
    const Trace& trace, std::span<const uint32_t> device,
    const CollectiveDescriptions& descriptions, const ByThread& calls) {
  std::vector<Launch> launches;
  for (size_t i = 0; i < device.size() && !calls.empty(); ++i) {
    const auto thread = descriptions.launch_stream(i);
    if (thread && calls.contains(*thread) &&
        !is_described(trace, trace.events[device[i]], descriptions.of(i)))
      launches.push_back({*thread, descriptions.launch_ns(i), i});
  }
  std::sort(launches.begin(), launches.end());
  // A launch of many kernels is a graph's, whose calls its capture made.
  const auto same = [&](size_t a, size_t b) {
    return b < launches.size() && launches[a].thread == launches[b].thread &&
           launches[a].at_ns == launches[b].at_ns;
  };
  std::vector<Launch> of_one_kernel;
  for (size_t at = 0; at < launches.size(); ++at) {
    if (!same(at, at + 1) && (at == 0 || !same(at - 1, at)))
      of_one_kernel.push_back(launches[at]);
  }
  return of_one_kernel;
}

}  // namespace

CoalescedCalls::CoalescedCalls(const RankEvents& events,
                               std::span<const uint32_t> device,
                               const CollectiveDescriptions& descriptions)
    : calls_(device.size()) {
  const Trace& trace = events.trace;
  const ByThread calls = calls_without_kernel(trace, descriptions);
  std::map<std::pair<uint32_t, CollectiveKind>, int64_t> last_ns;
  for (const Launch& launch :
       undescribed_launches(trace, device, descriptions, calls)) {
    const CollectiveKind kind =
        kind_of_kernel(trace, trace.events[device[launch.i]]);
    const std::vector<uint32_t>& made = calls.at(launch.thread);
    int64_t& last =
        last_ns.try_emplace({launch.thread, kind}, INT64_MIN).first->second;
    auto at = std::partition_point(
        made.begin(), made.end(),
        [&](uint32_t call) { return trace.events[call].start_ns < last; });
    for (; at != made.end(); ++at) {
      const Event& call = trace.events[*at];
      if (call.start_ns > launch.at_ns) break;
      const CollectiveKind its = info_of(trace, call)->kind;
      if (kind == CollectiveKind::kUnknown ? is_message(its) : its == kind)
        calls_[launch.i].push_back(*at);
    }
    last = launch.at_ns;
  }
}

}  // namespace reprise
