#include "replay/analysis/cut_steps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "data/trace/intervals.h"
#include "data/trace/step_times.h"

namespace reprise {
namespace {

constexpr int64_t kFewLaunches = 10;

enum class Call : uint8_t { kUnknown, kOther, kLaunch, kBegin, kEnd };

/// Of cudaLaunchKernelExC, cuLaunchKernel, hipExtModuleLaunchKernel,
/// urEnqueueKernelLaunch; cudaStreamBeginCapture and its end, between which a
/// launch runs nothing. Each name is looked at once.
class CallNames {
 public:
  explicit CallNames(const Trace& trace)
      : trace_(trace), known_(trace.strings.size(), Call::kUnknown) {}

  Call of(const Event& event) {
    Call& known = known_[index_of(event.name)];
    if (known == Call::kUnknown) known = look_at(trace_.text(event.name));
    return known;
  }

 private:
  static Call look_at(std::string_view name) {
    const auto has = [&](std::string_view part) {
      return name.find(part) != name.npos;
    };
    if (has("LaunchKernel") || has("KernelLaunch")) return Call::kLaunch;
    if (has("BeginCapture")) return Call::kBegin;
    return has("EndCapture") ? Call::kEnd : Call::kOther;
  }

  const Trace& trace_;
  std::vector<Call> known_;  ///< [string]
};

/// What of a rank's device was recorded, by the calls that launched it.
class Recorded {
 public:
  Recorded(const Trace& trace, const RankWork& work) {
    for (const DeviceEvent& event : work.events) {
      if (event.launch == DeviceEvent::kNoEvent) continue;
      last_ns_ = std::max(last_ns_, event.launch_ns);
      correlations_.push_back(trace.events[event.event].correlation);
    }
    std::sort(correlations_.begin(), correlations_.end());
  }

  bool empty() const { return correlations_.empty(); }
  bool has(const Event& call) const {
    return std::binary_search(correlations_.begin(), correlations_.end(),
                              call.correlation);
  }
  /// Whether nothing that was launched since is in the trace.
  bool ends_before(const Event& call) const {
    return clamped_time(call.start_ns) > last_ns_;
  }

 private:
  int64_t last_ns_ = DeviceEvent::kNoLaunch;  ///< The last such call.
  std::vector<int64_t> correlations_;         ///< Ascending.
};

/// Calls of a step, or of a rank, that launch a kernel.
struct Launches {
  int64_t all = 0;
  int64_t lacking = 0;  ///< Whose kernel is not in the trace.
  int64_t behind = 0;   ///< Of them, those behind all whose kernel is.

  void add(bool lacks, bool is_behind) {
    ++all;
    lacking += lacks ? 1 : 0;
    behind += lacks && is_behind ? 1 : 0;
  }
  double share(int64_t part) const {
    return static_cast<double>(part) / static_cast<double>(all);
  }
  /// `usual`: the share that lacks where nothing was lost.
  bool are_cut(double usual) const {
    const auto as_usual =
        static_cast<int64_t>(std::ceil(usual * static_cast<double>(all)));
    return std::max(behind, lacking - as_usual) >=
           std::max(kFewLaunches, all / 10);
  }
};

/// The whole rank's, and those of its steps.
struct RankLaunches {
  Launches whole;
  std::vector<Launches> of_step;

  RankLaunches(const Trace& trace, const RankWork& work,
               const Recorded& recorded)
      : of_step(work.steps.size()) {
    CallNames names(trace);
    std::set<uint32_t> capturing;  // Threads.
    const auto [first, end] = events_of_rank(trace, work.rank);
    for (size_t at = first; at < end; ++at) {
      const Event& event = trace.events[at];
      if (event.kind != EventKind::kRuntime) continue;
      const Call call = names.of(event);
      if (call == Call::kBegin) capturing.insert(event.stream);
      if (call == Call::kEnd) capturing.erase(event.stream);
      if (call != Call::kLaunch || event.correlation < 0 ||
          capturing.contains(event.stream)) {
        continue;
      }
      const bool lacks = !recorded.has(event);
      const bool is_behind = recorded.ends_before(event);
      whole.add(lacks, is_behind);
      const int32_t step = step_at(work.steps, clamped_time(event.start_ns));
      if (step >= 0) of_step[static_cast<size_t>(step)].add(lacks, is_behind);
    }
  }

  /// The share that the step lacks which lacks least.
  double least_share(const RankWork& work) const {
    double least = 1;
    for (size_t at = 0; at < of_step.size(); ++at) {
      if (!work.steps[at].warmup && of_step[at].all > 0)
        least = std::min(least, of_step[at].share(of_step[at].lacking));
    }
    return least;
  }
};

}  // namespace

std::vector<bool> CutSteps::add(const Trace& trace, const RankWork& work) {
  std::vector<bool> cut(work.steps.size(), false);
  if (work.host_only) return cut;
  const Recorded recorded(trace, work);
  if (recorded.empty()) return cut;
  const RankLaunches launches(trace, work, recorded);
  const double usual = launches.least_share(work);
  bool any_cut = false, any_whole = false;
  for (size_t at = 0; at < cut.size(); ++at) {
    cut[at] = launches.of_step[at].are_cut(usual);
    any_cut = any_cut || cut[at];
    any_whole = any_whole || !(cut[at] || work.steps[at].warmup);
  }
  if (!any_cut && !launches.whole.are_cut(1)) return cut;
  ranks_.push_back(work.rank);
  launches_ += launches.whole.all;
  lacking_ += launches.whole.lacking;
  if (!any_whole) return std::vector<bool>(cut.size(), false);
  for (size_t at = 0; at < cut.size(); ++at) {
    if (cut[at]) left_out_.insert(work.steps[at].step);
  }
  return cut;
}

std::optional<std::string> CutSteps::remark() const {
  if (ranks_.empty()) return std::nullopt;
  std::string text = fmt::format(
      "The trace was cut, or records were dropped: on rank {} {} of {} "
      "launches have no kernel in it",
      fmt::join(ranks_, ", "), lacking_, launches_);
  if (left_out_.empty()) return text + ".";
  return fmt::format("{}; step {} {} left out there.", text,
                     fmt::join(left_out_, ", "),
                     left_out_.size() == 1 ? "is" : "are");
}

CutSteps find_cut_steps(const TraceByRank& recorded) {
  CutSteps cut;
  const Trace& trace = recorded.frame();
  for (const RankInfo& rank : trace.ranks) {
    if (!is_timed(rank)) continue;
    recorded.of_rank(rank.rank);  // Decodes its events.
    cut.add(trace, device_work(trace, rank.rank));
  }
  return cut;
}

}  // namespace reprise
