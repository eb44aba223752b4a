// One pass over a rank's events: step marks bound the search for accumulations;
// the end of device work is looked up by its launch, so that a gradient on a
// device is ready when what was launched before it has ended.
#include "optimizer/ddp/ddp_rank.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "data/collective/collective_names.h"
#include "data/io/json_tree.h"
#include "replay/collectives/collective_description.h"

namespace reprise {
namespace {

/// Size of a gradient without dimensions: its type's.
int64_t scalar_bytes(const std::string& type) {
  const int64_t bytes = element_bytes(element_type_named(type));
  return bytes > 0 ? bytes : element_bytes(PrimitiveType::kF32);
}

bool is_ddp_forward(const Trace& trace, const Event& event) {
  return event.kind == EventKind::kAnnotation &&
         trace.streams[event.stream].kind == StreamKind::kHostThread &&
         trace.text(event.name) == kDdpForward;
}

void find_passes(const Trace& trace, DdpRank& rank) {
  const auto [begin, end] = events_of_rank(trace, rank.info.rank);
  for (size_t i = begin; i < end; ++i) {
    const Event& event = trace.events[i];
    const bool is_forward = is_ddp_forward(trace, event);
    if (!is_forward && (event.kind != EventKind::kHostOp ||
                        trace.text(event.name) != kAccumulateGrad)) {
      continue;
    }
    for (auto& [number, step] : rank.steps) {
      if (event.start_ns < step.start_ns || event.start_ns >= step.end_ns) {
        continue;
      }
      if (is_forward) {
        step.forwards_ns.push_back(event.start_ns);
      } else {
        step.accumulations.push_back(
            {.event = static_cast<uint32_t>(i), .end_ns = event.end_ns});
      }
      break;
    }
  }
  for (auto& [number, step] : rank.steps) {
    std::stable_sort(step.accumulations.begin(), step.accumulations.end(),
                     [](const DdpAccumulation& a, const DdpAccumulation& b) {
                       return a.end_ns < b.end_ns;
                     });
  }
}

/// Compute and the thread that launched it, by launch.
struct Launched {
  int64_t launch_ns = 0;
  int64_t thread = -1;  // -1: not recorded.
  uint32_t stream = 0;
};

std::vector<Launched> launched_compute(const Trace& trace,
                                       const RankWork& work) {
  std::vector<Launched> all;
  for (const DeviceEvent& event : work.events) {
    if (event.work != WorkClass::kCompute ||
        event.launch_ns == DeviceEvent::kNoLaunch)
      continue;
    const int64_t thread = event.launch == DeviceEvent::kNoEvent
                               ? -1
                               : trace.events[event.launch].stream;
    all.push_back({event.launch_ns, thread, event.stream});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Launched& a, const Launched& b) {
                     return a.launch_ns < b.launch_ns;
                   });
  return all;
}

/// The streams on which backward runs: of what was launched last before each
/// gradient was accumulated, by the same thread where that is known. Others
/// carry what no all-reduce of DDP waits for, as copies of the next batch.
std::set<uint32_t> gradient_streams(const Trace& trace, const DdpRank& rank) {
  const std::vector<Launched> all = launched_compute(trace, rank.work);
  std::set<uint32_t> by_thread, by_any;
  for (const auto& [number, step] : rank.steps) {
    size_t next = 0;
    std::map<int64_t, uint32_t> last;  // By thread.
    for (const DdpAccumulation& each : step.accumulations) {
      while (next < all.size() && all[next].launch_ns <= each.end_ns) {
        last[all[next].thread] = all[next].stream;
        ++next;
      }
      if (next > 0) by_any.insert(all[next - 1].stream);
      const auto own = last.find(trace.events[each.event].stream);
      if (own != last.end()) by_thread.insert(own->second);
    }
  }
  return by_thread.empty() ? by_any : by_thread;
}

void mark_device_steps(const std::set<uint32_t>& streams, DdpRank& rank) {
  std::map<int32_t, int64_t> first;
  for (const DeviceEvent& event : rank.work.events) {
    if (event.step < 0) continue;
    if (!streams.empty() && streams.count(event.stream) == 0) continue;
    const int32_t step = rank.work.steps[static_cast<size_t>(event.step)].step;
    const auto [at, fresh] = first.emplace(step, event.start_ns);
    if (!fresh) at->second = std::min(at->second, event.start_ns);
    if (event.work == WorkClass::kCommunication) continue;
    rank.done_by_launch.emplace_back(event.launch_ns, event.end_ns);
  }
  std::sort(rank.done_by_launch.begin(), rank.done_by_launch.end());
  for (size_t i = 1; i < rank.done_by_launch.size(); ++i) {
    rank.done_by_launch[i].second = std::max(rank.done_by_launch[i].second,
                                             rank.done_by_launch[i - 1].second);
  }
  for (auto step = rank.steps.begin(); step != rank.steps.end();) {
    const auto begin = first.find(step->first);
    const auto next = first.find(step->first + 1);
    if (begin == first.end() || next == first.end()) {
      step = rank.steps.erase(step);  // The last one: its end is not known.
      continue;
    }
    step->second.work_start_ns = begin->second;
    step->second.work_end_ns = next->second;
    ++step;
  }
}

}  // namespace

std::string shape_text(const nlohmann::json& dimensions) {
  if (!dimensions.is_array()) return {};
  std::string text;
  for (const nlohmann::json& size : dimensions) {
    if (!size.is_number_integer()) return {};
    if (!text.empty()) text += 'x';
    text += std::to_string(size.get<int64_t>());
  }
  return text.empty() ? "scalar" : text;
}

int64_t DdpRank::ready_ns(int64_t time_ns) const {
  if (work.host_only) return time_ns;
  const auto after =
      std::upper_bound(done_by_launch.begin(), done_by_launch.end(),
                       std::pair(time_ns, std::numeric_limits<int64_t>::max()));
  return after == done_by_launch.begin()
             ? time_ns
             : std::max(time_ns, std::prev(after)->second);
}

DdpRank read_ddp_rank(const Trace& trace, const RankInfo& info) {
  DdpRank rank;
  rank.info = info;
  rank.work = device_work(trace, info.rank);
  for (const StepMark& mark : rank.work.steps) {
    if (mark.warmup) continue;
    DdpRankStep& step = rank.steps[mark.step];
    step.start_ns = step.work_start_ns = mark.start_ns;
    step.end_ns = step.work_end_ns = mark.end_ns;
  }
  find_passes(trace, rank);
  if (!rank.work.host_only)
    mark_device_steps(gradient_streams(trace, rank), rank);
  return rank;
}

DdpGradient ddp_gradient_of(const Trace& trace, const Event& event) {
  DdpGradient gradient;
  gradient.bytes = dimension_bytes(trace, event);
  const nlohmann::json attributes = parse_json_or_discard<nlohmann::json>(
      trace.strings[static_cast<size_t>(event.attributes)]);
  if (!attributes.is_object()) return gradient;
  const auto dims = attributes.find("input_dims");
  if (dims != attributes.end() && dims->is_array() && !dims->empty()) {
    gradient.shape = shape_text(dims->front());
  }
  const auto types = attributes.find("input_types");
  if (types != attributes.end() && types->is_array() && !types->empty() &&
      (*types)[0].is_string()) {
    gradient.type = (*types)[0].get<std::string>();
  }
  if (gradient.shape == "scalar") gradient.bytes = scalar_bytes(gradient.type);
  return gradient;
}

}  // namespace reprise
