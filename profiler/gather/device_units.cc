// Joins two records of one run. The recorder in the trainer saw the host
// enqueue units; CUPTI saw kernels run. The executor pushes the unit's number
// as an external correlation id around each launch, so a kernel names its unit,
// and the launch time tells which step and which repetition. In a CUDA graph
// the host enqueues nothing a unit: then the step that encloses the launch is
// all there is, and units get events of their own. Cost: O(kernels log steps) a
// rank.
#include "profiler/gather/device_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "data/trace/event_order.h"
#include "data/trace/recording_cost.h"

namespace reprise {
namespace {

/// Between the clocks of host and device, as the tracer relates them.
constexpr int64_t kClockError_ns = 100'000;

bool is_device_work(const Trace& trace, const Event& event) {
  const bool kind = event.kind == EventKind::kCompute ||
                    event.kind == EventKind::kCollective ||
                    event.kind == EventKind::kCopy ||
                    event.kind == EventKind::kMemset;
  return kind && trace.streams[event.stream].kind == StreamKind::kDeviceStream;
}

/// What one unit did once.
struct UnitRun {
  int64_t start_ns = INT64_MAX, end_ns = INT64_MIN, launch_ns = INT64_MAX;
  int64_t operations = 0;
  void add(const Event& work, int64_t called_ns) {
    start_ns = std::min(start_ns, work.start_ns);
    end_ns = std::max(end_ns, work.end_ns);
    launch_ns = std::min(launch_ns, called_ns);
    ++operations;
  }
};

/// One rank's part.
class RankUnits {
 public:
  RankUnits(const std::vector<UnitLabel>& units, const Trace& device,
            Trace& trainer, uint32_t rank)
      : units_(units), device_(device), trainer_(trainer), rank_(rank) {
    for (size_t i = 0; i < trainer.events.size(); ++i) {
      const Event& event = trainer.events[i];
      if (event.rank == rank && event.unit >= 0) {
        recorded_[event.unit].push_back(i);
      }
    }
    for (const StepMark& mark : trainer.steps) {
      if (mark.rank == rank) steps_.push_back(mark);
    }
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](const StepMark& a, const StepMark& b) {
                       return a.start_ns < b.start_ns;
                     });
  }

  void run() {
    find_calls();
    for (const Event& event : device_.events) {
      if (event.rank == rank_ && is_device_work(device_, event)) place(event);
    }
    if (of_event_.empty() && unrecorded_.empty()) return warn();
    move_recorded();
    drop_blind_steps();
    add_unrecorded();
    warn();
  }

  /// Its steps without device work, no longer in the trace.
  const std::vector<StepMark>& bare_steps() const { return bare_steps_; }

 private:
  using UnitOfStep = std::pair<int32_t, int32_t>;  // Step, unit.

  void find_calls() {
    for (const Event& event : device_.events) {
      if (event.rank == rank_ && event.kind == EventKind::kRuntime &&
          event.correlation >= 0) {
        called_ns_.try_emplace(event.correlation, event.start_ns);
      }
    }
  }

  void place(const Event& work) {
    const auto call = called_ns_.find(work.correlation);
    const int64_t called_ns =
        call == called_ns_.end() ? work.start_ns : call->second;
    const bool is_unit =
        work.external_id >= 0 && work.external_id < std::ssize(units_);
    const StepMark* mark = step_at(called_ns);
    if (!is_possible(work, called_ns, mark)) {
      ++impossible_;
      return;
    }
    const std::optional<int32_t> step =
        mark == nullptr ? std::nullopt : std::optional(mark->step);
    if (step) seen_steps_.insert(*step);
    if (!is_unit) {
      // Copies of the batch are no unit's, and what was not launched is known
      // from NCCL alone, beside the kernel that CUPTI saw.
      const bool is_kernel = work.kind == EventKind::kCompute ||
                             work.kind == EventKind::kCollective;
      if (is_kernel && step && work.correlation >= 0) ++outside_units_;
      return;
    }
    const auto unit = static_cast<int32_t>(work.external_id);
    if (const auto event = recorded_at(unit, called_ns, step)) {
      of_event_[*event].add(work, called_ns);
    } else {
      unrecorded_[{step.value_or(-1), unit}].add(work, called_ns);
    }
  }

  /// What a step launches begins after that and ends within the step, for
  /// which the trainer waits. Nodes of a graph whose recording was switched on
  /// again have had other times (CUPTI 13.0.1).
  static bool is_possible(const Event& work, int64_t called_ns,
                          const StepMark* step) {
    return work.start_ns >= called_ns - kClockError_ns &&
           (step == nullptr || work.end_ns <= step->end_ns + kClockError_ns);
  }

  const StepMark* step_at(int64_t time_ns) const {
    const auto after = std::partition_point(
        steps_.begin(), steps_.end(),
        [&](const StepMark& mark) { return mark.start_ns <= time_ns; });
    if (after == steps_.begin() || time_ns >= std::prev(after)->end_ns)
      return nullptr;
    return &*std::prev(after);
  }

  /// The recorded run that was being enqueued; else the step's only one.
  std::optional<size_t> recorded_at(int32_t unit, int64_t called_ns,
                                    std::optional<int32_t> step) const {
    const auto found = recorded_.find(unit);
    if (found == recorded_.end()) return std::nullopt;
    std::optional<size_t> of_step;
    bool is_only = true;
    for (const size_t i : found->second) {
      const Event& event = trainer_.events[i];
      if (event.start_ns <= called_ns && called_ns <= event.end_ns) return i;
      if (!step || event.step != *step) continue;
      is_only = !of_step;
      of_step = i;
    }
    return is_only ? of_step : std::nullopt;
  }

  void set(const UnitRun& run, Event& event) {
    event.start_ns = run.start_ns;
    event.end_ns = run.end_ns;
    event.enqueue_ns = std::min(event.enqueue_ns, event.start_ns);
    event.attributes = static_cast<int32_t>(trainer_.strings.size());
    trainer_.strings.push_back(
        fmt::format("{{\"device_operations\":{}}}", run.operations));
  }

  void move_recorded() {
    for (const auto& [i, run] : of_event_) {
      Event& event = trainer_.events[i];
      event.enqueue_ns = event.start_ns;
      set(run, event);
    }
  }

  void drop_blind_steps() {
    const auto is_blind = [&](uint32_t rank, int32_t step) {
      return rank == rank_ && step >= 0 && !seen_steps_.contains(step);
    };
    const auto bare = std::stable_partition(
        trainer_.steps.begin(), trainer_.steps.end(),
        [&](const StepMark& mark) { return !is_blind(mark.rank, mark.step); });
    bare_steps_.assign(bare, trainer_.steps.end());
    trainer_.steps.erase(bare, trainer_.steps.end());
    std::erase_if(trainer_.events, [&](const Event& event) {
      return is_blind(event.rank, event.step);
    });
  }

  uint32_t stream_for(EventKind kind) const {
    std::optional<uint32_t> first, communication;
    for (uint32_t i = 0; i < trainer_.streams.size(); ++i) {
      const StreamInfo& stream = trainer_.streams[i];
      if (stream.rank != rank_) continue;
      if (!first) first = i;
      if (stream.name == "communication") communication = i;
    }
    return kind == EventKind::kCollective ? communication.value_or(*first)
                                          : *first;
  }

  /// Collectives are numbered as the recorder does: in their order.
  void add_unrecorded() {
    std::vector<Event> added;
    for (const auto& [key, run] : unrecorded_) {
      const auto& [step, unit] = key;
      const UnitLabel& label = units_[static_cast<size_t>(unit)];
      Event event;
      event.rank = rank_;
      event.kind = label.kind;
      event.step = step;
      event.unit = unit;
      event.stream = stream_for(label.kind);
      event.name = string_of(label.name);
      event.bytes = label.kind == EventKind::kCollective ? label.bytes : 0;
      event.enqueue_ns = run.launch_ns;
      set(run, event);
      added.push_back(event);
    }
    std::stable_sort(
        added.begin(), added.end(), [](const Event& a, const Event& b) {
          return std::tie(a.step, a.start_ns) < std::tie(b.step, b.start_ns);
        });
    int64_t sequence = 0;
    for (Event& event : added) {
      if (event.kind == EventKind::kCollective) event.correlation = sequence++;
    }
    trainer_.events.insert(trainer_.events.end(), added.begin(), added.end());
  }

  StringId string_of(const std::string& text) {
    const auto [place, is_new] = strings_.try_emplace(
        text, StringId{static_cast<uint32_t>(trainer_.strings.size())});
    if (is_new) trainer_.strings.push_back(text);
    return place->second;
  }

  void warn() {
    if (!bare_steps_.empty()) {
      trainer_.warnings.push_back(fmt::format(
          "rank {}: {} of its steps ran while the device was not recorded: "
          "their time alone is kept",
          rank_, bare_steps_.size()));
    }
    if (impossible_ > 0) {
      trainer_.warnings.push_back(
          fmt::format("rank {}: {} operations of the device do not lie "
                      "between their launch and their step's end: not used",
                      rank_, impossible_));
    }
    if (outside_units_ > 0) {
      trainer_.warnings.push_back(
          fmt::format("rank {}: {} kernels of its steps belong to no unit",
                      rank_, outside_units_));
    }
  }

  const std::vector<UnitLabel>& units_;
  const Trace& device_;
  Trace& trainer_;
  uint32_t rank_;
  std::map<int32_t, std::vector<size_t>> recorded_;  ///< Events by unit.
  std::vector<StepMark> steps_;                      ///< By start.
  std::unordered_map<int64_t, int64_t> called_ns_;   ///< By correlation.
  std::map<size_t, UnitRun> of_event_;
  std::map<UnitOfStep, UnitRun> unrecorded_;
  std::set<int32_t> seen_steps_;
  std::map<std::string, StringId> strings_;
  int64_t outside_units_ = 0;
  int64_t impossible_ = 0;  ///< By their times.
  std::vector<StepMark> bare_steps_;
};

}  // namespace

void attribute_device_work(const std::vector<UnitLabel>& units,
                           const Trace& device, Trace& trainer) {
  std::vector<StepMark> bare;
  for (const RankInfo& rank : trainer.ranks) {
    const bool has_stream = std::any_of(
        trainer.streams.begin(), trainer.streams.end(),
        [&](const StreamInfo& stream) { return stream.rank == rank.rank; });
    if (!has_stream) continue;
    RankUnits own(units, device, trainer, rank.rank);
    own.run();
    bare.insert(bare.end(), own.bare_steps().begin(), own.bare_steps().end());
  }
  keep_bare_steps(std::move(bare), trainer);
  sort_events(trainer.events);
}

}  // namespace reprise
