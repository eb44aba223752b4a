#include "replay/analysis/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "data/integers.h"
#include "data/median.h"
#include "data/number_text.h"
#include "replay/analysis/analysis.h"
#include "replay/analysis/host_work.h"
#include "replay/analysis/kernel_name.h"
#include "replay/analysis/phases.h"

namespace reprise {
namespace {

double ratio_of(double before, double after) {
  if (before > 0) return after / before - 1;
  return after > 0 ? std::numeric_limits<double>::infinity() : 0;
}

/// How long a member waited for the last one of its collective.
class Waits {
 public:
  explicit Waits(const AlignedTrace& recorded)
      : matching_(recorded.matching()) {
    times_.reserve(matching_.collectives.size());
    for (const MatchedCollective& each : matching_.collectives)
      times_.push_back(times_of(each, recorded.trace()));
  }

  int64_t of(uint32_t event) const {
    const int32_t found = matching_.place_of(event);
    if (found < 0) return 0;
    const auto place = static_cast<size_t>(found);
    const std::vector<int64_t>& waits = times_[place].wait_ns;
    const auto& members = matching_.collectives[place].members;
    for (size_t i = 0; i < members.size() && i < waits.size(); ++i) {
      if (members[i].event == event) return waits[i];
    }
    return 0;
  }

  std::optional<Straggler> latest(const Trace& trace) const {
    std::vector<uint32_t> places(times_.size());
    std::iota(places.begin(), places.end(), 0U);
    const std::vector<Straggler> all =
        find_stragglers(trace, matching_, times_, places);
    if (all.empty() || all.front().last == 0) return std::nullopt;
    return all.front();
  }

 private:
  const CollectiveMatching& matching_;
  std::vector<CollectiveTimes> times_;  ///< [place]
};

void add_ops(const Trace& trace, const Waits& waits,
             const std::vector<RankWork>& works, CostTable& table) {
  constexpr auto kUnseen = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> keys(trace.strings.size(), kUnseen);
  for (const RankWork& work : works) {
    for (const DeviceEvent& event : work.events) {
      const StringId name = trace.events[event.event].name;
      uint32_t& key = keys[index_of(name)];
      if (key == kUnseen) key = table.key(normalized_op_name(trace.text(name)));
      const int64_t step = table.place_of(work, event);
      table.add(key, step, event.own_ns);
      if (event.work == WorkClass::kCommunication) {
        const int64_t wait_ns = std::max<int64_t>(0, waits.of(event.event));
        table.add_wait(key, step, std::min(event.own_ns, wait_ns));
      }
    }
  }
}

/// Of the host threads of a rank with a device.
StepCosts host_costs(const Trace& trace, const RankWork& work) {
  CostTable table(trace);
  for (const HostOwnTime& each : host_work(trace, work.rank)) {
    const Event& event = trace.events[each.event];
    int64_t place = 0;
    if (table.marked()) {
      const int32_t step = step_at(work.steps, event.start_ns);
      if (step < 0) continue;
      const StepMark& mark = work.steps[static_cast<size_t>(step)];
      if (event.start_ns == mark.start_ns && event.end_ns == mark.end_ns)
        continue;  // Its own range.
      place = table.place_of(mark.step);
    }
    table.add(table.key(trace.text(event.name)), place, each.own_ns);
  }
  return table.medians(1);
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
  StepCosts costs;
  std::map<uint32_t, StepCosts> host;  ///< By rank.
};

void add_ops(Trace trace, const std::vector<RankWork>& works, CostTable& table,
             Run& run) {
  for (const RankWork& work : works) {
    if (!work.host_only) run.host[work.rank] = host_costs(trace, work);
  }
  const AlignedTrace recorded = AlignedTrace::align(std::move(trace));
  const Waits waits(recorded);
  run.steps.latest = waits.latest(recorded.trace());
  add_ops(recorded.trace(), waits, works, table);
}

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
  run.steps.between_ns = between_steps_ns(steps);
  if (const auto typical =
          typical_step(complete_steps(trace, std::move(steps)))) {
    run.steps.step_ns = typical->median_ns;
  }
  switch (by) {
    case DiffKey::kOp:
      add_ops(std::move(trace), works, table, run);
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

/// Largest change first; equal ones keep their order.
bool changes_more(const DiffEntry& a, const DiffEntry& b) {
  return std::abs(a.change_ns()) > std::abs(b.change_ns());
}

std::map<std::string, DiffEntry> entries_of(const StepCosts& before,
                                            const StepCosts& after) {
  std::map<std::string, DiffEntry> entries;
  for (const auto& [key, cost] : before) entries[key].before = cost;
  for (const auto& [key, cost] : after) entries[key].after = cost;
  for (auto& [key, entry] : entries) entry.key = key;
  return entries;
}

/// Of ranks that both runs have.
std::vector<HostEntry> host_entries(const Run& before, const Run& after) {
  const int64_t least_ns =
      std::max(before.steps.step_ns, after.steps.step_ns) / 100;
  std::map<std::string, HostEntry> most;
  for (const auto& [rank, costs] : before.host) {
    const auto other = after.host.find(rank);
    if (other == after.host.end()) continue;
    for (const auto& [key, entry] : entries_of(costs, other->second)) {
      if (std::abs(entry.change_ns()) < std::max<int64_t>(1, least_ns))
        continue;
      HostEntry& kept = most[key];
      if (changes_more(entry, kept.entry)) kept = {rank, entry};
    }
  }
  std::vector<HostEntry> all;
  all.reserve(most.size());
  for (auto& [key, each] : most) all.push_back(std::move(each));
  std::stable_sort(all.begin(), all.end(),
                   [](const HostEntry& a, const HostEntry& b) {
                     return changes_more(a.entry, b.entry);
                   });
  return all;
}

/// "+1.08 ms", "-3 us".
std::string signed_time(int64_t time_ns) {
  return (time_ns > 0 ? "+" : "") + time_text(time_ns);
}

/// What a reader of the change would take for a slower network.
std::string waiting_remark(const TraceDiff& diff, const DiffEntry& entry) {
  std::string text = fmt::format(
      "{}: {} is {} of waiting for the last rank to come and {} of transfer",
      entry.key, signed_time(entry.change_ns()),
      signed_time(entry.wait_change_ns()),
      signed_time(entry.change_ns() - entry.wait_change_ns()));
  const bool longer = entry.wait_change_ns() > 0;
  const RunSteps& run = longer ? diff.after : diff.before;
  if (!run.latest) return text;
  return text + fmt::format(
                    "; {}, rank {} comes last to {} of {} collectives: "
                    "`reprise analyze` of that trace says what makes it late",
                    longer ? "after" : "before", run.latest->rank,
                    run.latest->last, run.latest->collectives);
}

}  // namespace

bool DiffEntry::is_of_waiting() const {
  return change_ns() != 0 &&
         2 * std::abs(wait_change_ns()) >= std::abs(change_ns()) &&
         (wait_change_ns() > 0) == (change_ns() > 0);
}

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
  } else if (before.steps == 0) {
    all.emplace_back(
        "neither trace marks steps: whole recordings are compared, and of the "
        "same steps the longer one is slower; mark steps in both");
  }
  if (before.ranks != after.ranks) {
    all.push_back(fmt::format(
        "{} ranks before, {} after: times and counts are means over ranks",
        before.ranks, after.ranks));
  }
  const int64_t least_ns = std::max(before.step_ns, after.step_ns) / 100;
  if (std::abs(after.between_ns - before.between_ns) > least_ns) {
    all.push_back(fmt::format(
        "from one step's end to the next one's begin pass {} before, {} after, "
        "which counts in no step",
        time_text(before.between_ns), time_text(after.between_ns)));
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
  for (const DiffEntry& entry : entries) {  // The one that changes most.
    if (!entry.is_of_waiting() || std::abs(entry.wait_change_ns()) < least_ns)
      continue;
    all.push_back(waiting_remark(*this, entry));
    break;
  }
  return all;
}

Result<TraceDiff> diff_traces(Trace before, Trace after, DiffKey by) {
  Result<Run> first = costs_of(std::move(before), by);
  if (!first) return pass(first.error(), "first trace");
  Result<Run> second = costs_of(std::move(after), by);
  if (!second) return pass(second.error(), "second trace");
  TraceDiff diff{.before = first->steps,
                 .after = second->steps,
                 .entries = {},
                 .host = host_entries(*first, *second)};
  for (auto& [key, entry] : entries_of(first->costs, second->costs))
    diff.entries.push_back(std::move(entry));
  std::stable_sort(diff.entries.begin(), diff.entries.end(), changes_more);
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
