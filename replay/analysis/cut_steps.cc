#include "replay/analysis/cut_steps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "data/trace/intervals.h"

namespace reprise {
namespace {

constexpr int64_t kFewLaunches = 10;

/// Which calls launch a kernel: cudaLaunchKernelExC, cuLaunchKernel,
/// hipExtModuleLaunchKernel, urEnqueueKernelLaunch. Each name is looked at
/// once.
class LaunchNames {
 public:
  explicit LaunchNames(const Trace& trace)
      : trace_(trace), known_(trace.strings.size(), Known::kNot) {}

  bool launches(const Event& event) {
    Known& known = known_[index_of(event.name)];
    if (known == Known::kNot) {
      const std::string_view name = trace_.text(event.name);
      const bool found = name.find("LaunchKernel") != name.npos ||
                         name.find("KernelLaunch") != name.npos;
      known = found ? Known::kLaunches : Known::kOther;
    }
    return known == Known::kLaunches;
  }

 private:
  enum class Known : uint8_t { kNot, kOther, kLaunches };
  const Trace& trace_;
  std::vector<Known> known_;  ///< [string]
};

/// What of a rank's device was recorded, by the calls that launched it.
class Recorded {
 public:
  Recorded(const Trace& trace, const RankWork& work)
      : trace_(trace), work_(work) {
    for (const DeviceEvent& event : work.events) {
      if (event.launch != DeviceEvent::kNoEvent)
        last_ns_ = std::max(last_ns_, event.launch_ns);
    }
  }

  bool empty() const { return last_ns_ == DeviceEvent::kNoLaunch; }

  bool lacks(const Event& call) {
    if (clamped_time(call.start_ns) <= last_ns_) return false;
    if (correlations_.empty()) collect();
    return !std::binary_search(correlations_.begin(), correlations_.end(),
                               call.correlation);
  }

 private:
  void collect() {
    for (const DeviceEvent& event : work_.events) {
      if (event.launch == DeviceEvent::kNoEvent) continue;
      correlations_.push_back(trace_.events[event.event].correlation);
    }
    std::sort(correlations_.begin(), correlations_.end());
  }

  const Trace& trace_;
  const RankWork& work_;
  int64_t last_ns_ = DeviceEvent::kNoLaunch;  ///< The last such call.
  std::vector<int64_t> correlations_;  ///< Ascending; where one is asked for.
};

struct Launches {
  int64_t all = 0, lacking = 0;
};

bool is_cut(const Launches& launches) {
  return launches.lacking >= std::max(kFewLaunches, launches.all / 10);
}

}  // namespace

std::vector<bool> CutSteps::add(const Trace& trace, const RankWork& work) {
  std::vector<bool> cut(work.steps.size(), false);
  if (work.host_only) return cut;
  Recorded recorded(trace, work);
  if (recorded.empty()) return cut;
  LaunchNames names(trace);
  std::vector<Launches> of_step(work.steps.size());
  Launches whole;
  const auto [first, end] = events_of_rank(trace, work.rank);
  for (size_t at = first; at < end; ++at) {
    const Event& event = trace.events[at];
    if (event.kind != EventKind::kRuntime || event.correlation < 0 ||
        !names.launches(event)) {
      continue;
    }
    const int64_t lacks = recorded.lacks(event) ? 1 : 0;
    ++whole.all;
    whole.lacking += lacks;
    const int32_t step = step_at(work.steps, clamped_time(event.start_ns));
    if (step < 0) continue;
    Launches& own = of_step[static_cast<size_t>(step)];
    ++own.all;
    own.lacking += lacks;
  }
  bool any_whole = false;
  for (size_t at = 0; at < cut.size(); ++at) {
    cut[at] = is_cut(of_step[at]);
    any_whole = any_whole || !(cut[at] || work.steps[at].warmup);
  }
  if (!is_cut(whole) && std::find(cut.begin(), cut.end(), true) == cut.end())
    return cut;
  ranks_.push_back(work.rank);
  launches_ += whole.all;
  lacking_ += whole.lacking;
  if (!any_whole) return std::vector<bool>(cut.size(), false);
  for (size_t at = 0; at < cut.size(); ++at) {
    if (cut[at]) left_out_.insert(work.steps[at].step);
  }
  return cut;
}

std::optional<std::string> CutSteps::remark() const {
  if (ranks_.empty()) return std::nullopt;
  std::string text = fmt::format(
      "The trace was cut: on rank {} the last {} of {} launches have no kernel "
      "in it",
      fmt::join(ranks_, ", "), lacking_, launches_);
  if (left_out_.empty()) return text + ".";
  return fmt::format("{}; step {} {} left out there.", text,
                     fmt::join(left_out_, ", "),
                     left_out_.size() == 1 ? "is" : "are");
}

}  // namespace reprise
