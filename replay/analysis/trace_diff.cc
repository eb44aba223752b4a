#include "replay/analysis/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "data/integers.h"
#include "data/median.h"
#include "data/number_text.h"
#include "replay/analysis/analysis.h"
#include "replay/analysis/kernel_name.h"
#include "replay/analysis/phases.h"

namespace reprise {
namespace {

double ratio_of(double before, double after) {
  if (before > 0) return after / before - 1;
  return after > 0 ? std::numeric_limits<double>::infinity() : 0;
}

/// Costs of one run by key and step.
class CostTable {
 public:
  explicit CostTable(const Trace& trace) {
    for (const StepMark& mark : trace.steps) {
      if (!mark.warmup) steps_.try_emplace(mark.step, 0);
    }
    marked_ = !steps_.empty();
    size_t place = 0;
    for (auto& [number, at] : steps_) at = place++;
    if (!marked_) steps_[0] = 0;
  }

  bool marked() const { return marked_; }
  size_t steps() const { return steps_.size(); }

  /// Place of the step that `event` belongs to; -1: of none that counts.
  int64_t place_of(const RankWork& work, const DeviceEvent& event) const {
    if (!marked_) return 0;
    const int32_t step = step_of(work, event);
    return step < 0 ? -1 : place_of(work.steps[static_cast<size_t>(step)].step);
  }
  int64_t place_of(int32_t step) const {
    const auto found = steps_.find(step);
    return found == steps_.end() ? -1 : static_cast<int64_t>(found->second);
  }

  uint32_t key(const std::string& text) {
    const auto [place, added] =
        keys_.try_emplace(text, static_cast<uint32_t>(cells_.size()));
    if (added) cells_.emplace_back(steps_.size());
    return place->second;
  }
  void add(uint32_t key, int64_t step, int64_t time_ns) {
    if (step < 0) return;
    Cell& cell = cells_[key][static_cast<size_t>(step)];
    cell.time_ns = saturating_add(cell.time_ns, time_ns);
    ++cell.count;
  }

  std::map<std::string, StepCost> medians(size_t ranks) const {
    std::map<std::string, StepCost> result;
    const auto share = static_cast<int64_t>(std::max(ranks, size_t{1}));
    for (const auto& [text, place] : keys_) {
      std::vector<int64_t> times;
      std::vector<double> counts;
      int64_t total_ns = 0, occurs = 0;
      for (const Cell& cell : cells_[place]) {
        total_ns = saturating_add(total_ns, cell.time_ns / share);
        occurs += cell.count > 0;
        times.push_back(cell.time_ns / share);
        counts.push_back(static_cast<double>(cell.count) /
                         static_cast<double>(share));
      }
      result[text] = {.time_ns = lower_median(std::move(times)),
                      .count = lower_median(std::move(counts)),
                      .mean_ns = total_ns / std::ssize(steps_),
                      .steps = occurs};
    }
    return result;
  }

 private:
  struct Cell {
    int64_t time_ns = 0, count = 0;
  };
  std::map<int32_t, size_t> steps_;
  bool marked_ = false;
  std::map<std::string, uint32_t> keys_;
  std::vector<std::vector<Cell>> cells_;  ///< [key][step]
};

void add_ops(const Trace& trace, const std::vector<RankWork>& works,
             CostTable& table) {
  constexpr auto kUnseen = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> keys(trace.strings.size(), kUnseen);
  for (const RankWork& work : works) {
    for (const DeviceEvent& event : work.events) {
      const StringId name = trace.events[event.event].name;
      uint32_t& key = keys[index_of(name)];
      if (key == kUnseen) key = table.key(normalized_op_name(trace.text(name)));
      table.add(key, table.place_of(work, event), event.own_ns);
    }
  }
}

void add_phases(const Trace& trace, const std::vector<RankWork>& works,
                CostTable& table) {
  std::map<Phase, uint32_t> keys;
  for (const RankWork& work : works) {
    const Phases phases(trace, work.rank);
    for (const DeviceEvent& event : work.events) {
      const Phase phase = phases.of(event);
      const auto known = keys.find(phase);
      const uint32_t key =
          known != keys.end()
              ? known->second
              : keys.emplace(phase, table.key(std::string(name_of(phase))))
                    .first->second;
      table.add(key, table.place_of(work, event), event.own_ns);
    }
  }
}

void add_kinds(const std::vector<RankWork>& works, CostTable& table) {
  const uint32_t compute = table.key("compute"),
                 exposed = table.key("exposed communication"),
                 memory = table.key("memory"), idle = table.key("idle");
  for (const RankWork& work : works) {
    const DeviceUnions unions(work);
    const auto add = [&](int64_t step, const Breakdown& window) {
      table.add(compute, step, window.exclusive.compute_ns);
      table.add(exposed, step, window.exclusive.exposed_ns);
      table.add(memory, step, window.exclusive.memory_ns);
      table.add(idle, step, window.exclusive.idle_ns);
    };
    if (!table.marked()) add(0, unions.whole());
    for (const StepMark& mark : work.steps) {
      if (mark.warmup) continue;
      add(table.place_of(mark.step), unions.within(mark.start_ns, mark.end_ns));
    }
  }
}

std::string collective_key(const MatchedCollective& collective) {
  const size_t ranks =
      std::max(collective.group.size(), collective.members.size());
  return fmt::format("{} {} B over {}",
                     collective.kind == CollectiveKind::kUnknown
                         ? "collective"
                         : name_of(collective.kind),
                     collective.bytes, ranks);
}

void add_collectives(const AlignedTrace& recorded,
                     const std::vector<RankWork>& works, CostTable& table) {
  const Trace& trace = recorded.trace();
  std::vector<int64_t> place_of_event(trace.events.size(), -1);
  for (const RankWork& work : works) {
    for (const DeviceEvent& event : work.events) {
      place_of_event[event.event] = table.place_of(work, event);
    }
  }
  for (const MatchedCollective& collective : recorded.matching().collectives) {
    const CollectiveTimes times = times_of(collective, trace);
    const std::string key = collective_key(collective);
    const uint32_t wait = table.key(key + ": wait"),
                   transfer = table.key(key + ": transfer");
    for (size_t i = 0; i < collective.members.size(); ++i) {
      const int64_t step = place_of_event[collective.members[i].event];
      table.add(transfer, step, times.transfer_ns);
      if (i < times.wait_ns.size()) table.add(wait, step, times.wait_ns[i]);
    }
  }
}

struct Run {
  RunSteps steps;
  std::map<std::string, StepCost> costs;
};

Result<Run> costs_of(Trace trace, DiffKey by) {
  std::vector<RankWork> works;
  std::vector<StepMark> steps;
  Run run;
  for (const RankInfo& rank : trace.ranks) {
    if (!is_timed(rank)) continue;
    RankWork work = device_work(trace, rank.rank);
    const std::vector<StepMark> own = device_steps(work);
    steps.insert(steps.end(), own.begin(), own.end());
    if (work.events.empty()) continue;
    const Breakdown whole = DeviceUnions(work).whole();
    run.steps.step_ns = std::max(run.steps.step_ns, whole.window_ns);
    works.push_back(std::move(work));
  }
  if (works.empty()) {
    return fail(ErrorKind::kUnsupported, "no rank has timed work to compare");
  }
  CostTable table(trace);
  run.steps.ranks = static_cast<int64_t>(works.size());
  if (table.marked()) run.steps.steps = static_cast<int64_t>(table.steps());
  if (const auto typical =
          typical_step(complete_steps(trace, std::move(steps)))) {
    run.steps.step_ns = typical->median_ns;
  }
  switch (by) {
    case DiffKey::kOp:
      add_ops(trace, works, table);
      break;
    case DiffKey::kKind:
      add_kinds(works, table);
      break;
    case DiffKey::kCollective:
      add_collectives(AlignedTrace::align(std::move(trace)), works, table);
      break;
    case DiffKey::kPhase:
      add_phases(trace, works, table);
      break;
  }
  run.costs = table.medians(works.size());
  return run;
}

/// At least 1 % of a step, by its mean.
bool weighs(const StepCost& cost, const RunSteps& run) {
  constexpr int64_t kShare = 100;
  return cost.mean_ns >= run.step_ns / kShare;
}

}  // namespace

double DiffEntry::change() const {
  return ratio_of(static_cast<double>(before.time_ns),
                  static_cast<double>(after.time_ns));
}

double TraceDiff::step_change() const {
  return ratio_of(static_cast<double>(before.step_ns),
                  static_cast<double>(after.step_ns));
}

std::vector<std::string> TraceDiff::remarks() const {
  std::vector<std::string> all;
  if (!comparable()) {
    const bool is_before = before.steps > 0;
    all.push_back(fmt::format(
        "the trace {} marks {} steps, the one {} none: a step is held against "
        "a whole recording, which is no comparison; mark steps in both",
        is_before ? "before" : "after", is_before ? before.steps : after.steps,
        is_before ? "after" : "before"));
  }
  constexpr size_t kMostKeys = 3;
  size_t keys = 0;
  const auto add = [&](const DiffEntry& entry, bool is_before) {
    const StepCost& cost = is_before ? entry.before : entry.after;
    const RunSteps& run = is_before ? before : after;
    if (!cost.is_occasional() || !weighs(cost, run) || ++keys > kMostKeys)
      return;
    all.push_back(fmt::format(
        "{}: {} is in {} of {} steps, the median one has none; on average it "
        "takes {} a step",
        is_before ? "before" : "after", entry.key, cost.steps, run.steps,
        time_text(cost.mean_ns)));
  };
  for (const DiffEntry& entry : entries) {
    add(entry, true);
    add(entry, false);
  }
  if (keys > kMostKeys)
    all.push_back(fmt::format("{} more are so", keys - kMostKeys));
  return all;
}

Result<TraceDiff> diff_traces(Trace before, Trace after, DiffKey by) {
  Result<Run> first = costs_of(std::move(before), by);
  if (!first) return pass(first.error(), "first trace");
  Result<Run> second = costs_of(std::move(after), by);
  if (!second) return pass(second.error(), "second trace");
  std::map<std::string, DiffEntry> entries;
  for (const auto& [key, cost] : first->costs) entries[key].before = cost;
  for (const auto& [key, cost] : second->costs) entries[key].after = cost;
  TraceDiff diff{.before = first->steps, .after = second->steps, .entries = {}};
  for (auto& [key, entry] : entries) {
    entry.key = key;
    diff.entries.push_back(std::move(entry));
  }
  std::stable_sort(diff.entries.begin(), diff.entries.end(),
                   [](const DiffEntry& a, const DiffEntry& b) {
                     return std::abs(a.change_ns()) > std::abs(b.change_ns());
                   });
  return diff;
}

std::vector<std::string> slower_than(const TraceDiff& diff, double ratio) {
  constexpr double kShare = 0.01;
  std::vector<std::string> slower;
  if (diff.step_change() > ratio) slower.push_back("step");
  for (const DiffEntry& entry : diff.entries) {
    const auto share = [](const StepCost& cost, const RunSteps& run) {
      return static_cast<double>(cost.time_ns) /
             static_cast<double>(std::max(run.step_ns, int64_t{1}));
    };
    if (entry.change() > ratio && (share(entry.before, diff.before) >= kShare ||
                                   share(entry.after, diff.after) >= kShare)) {
      slower.push_back(entry.key);
    }
  }
  return slower;
}

std::string normalized_op_name(std::string_view name) {
  std::string text = short_kernel_name(name);
  const size_t end = text.find_last_not_of("0123456789");
  if (end != std::string::npos && end + 1 < text.size() && end > 0 &&
      text[end] == '.') {
    text.resize(end);
  }
  return text;
}

}  // namespace reprise
