// Walks the programs that a loop calls as often as it runs them, and notes the
// collectives on the way. Between two of them lies one part; those that lie
// between the same two have one key, as they compute the same: of a body with
// collectives a and b there are the parts before the first a, from a to b, from
// b to the next pass's a, and after the last b.
#include "data/schedule/timed_schedule.h"

#include <algorithm>

#include "data/schedule/called_program.h"

namespace reprise {
namespace {

/// More would tell no more, and make a trace of little else.
constexpr size_t kMostMeetings = 1024;

/// The collectives of a unit in the order in which it runs them.
class MeetingList {
 public:
  /// False if that is not known, or they are too many.
  bool add(const Unit& unit) {
    const RoutineSpec& routine = unit.routine;
    if (!routine.is_loop || !routine.trips || routine.callees.size() != 2)
      return false;
    const Schedule& condition = routine.callees[0].program->schedule;
    if (std::any_of(condition.units.begin(), condition.units.end(), meets))
      return false;
    for (int64_t trip = 0; trip < *routine.trips; ++trip) {
      const size_t before = collectives_.size();
      if (!add_all(routine.callees[1].program->schedule)) return false;
      if (collectives_.size() == before) break;  // Nor does any later pass.
    }
    return true;
  }
  const std::vector<const Unit*>& collectives() const { return collectives_; }

 private:
  static bool meets(const Unit& unit) {
    return unit.kind == UnitKind::kCollective || unit.routine.communicates;
  }

  bool add_all(const Schedule& body) {
    for (const Unit& unit : body.units) {
      if (unit.routine.communicates && !add(unit)) return false;
      if (unit.kind != UnitKind::kCollective) continue;
      if (collectives_.size() == kMostMeetings) return false;
      collectives_.push_back(&unit);
    }
    return true;
  }

  std::vector<const Unit*> collectives_;
};

/// Nothing where the unit stays whole.
std::vector<Unit> parts_of(const Unit& unit) {
  MeetingList meetings;
  if (!unit.routine.communicates || !meetings.add(unit) ||
      meetings.collectives().empty())
    return {};
  std::map<const Unit*, size_t> number;  // Of a collective of the text, from 1.
  for (const Unit* const collective : meetings.collectives())
    number.emplace(collective, number.size() + 1);
  const auto computing = static_cast<double>(meetings.collectives().size() + 1);
  std::vector<Unit> parts;
  const auto add_computing = [&](size_t from, size_t to) {
    Unit part;
    part.name = unit.name;
    part.ref = unit.ref;
    part.kind = unit.kind;
    part.stream = unit.stream;
    part.ops = unit.ops;
    part.key = fmt::format("{}|part {} {}", unit.key, from, to);
    part.flops = unit.flops / computing;
    part.bytes = unit.bytes / computing;
    parts.push_back(std::move(part));
  };
  size_t from = 0;
  for (const Unit* const collective : meetings.collectives()) {
    const size_t to = number.at(collective);
    add_computing(from, to);
    Unit part;
    part.name = unit.name + "/" + collective->name;
    part.ref = unit.ref;
    part.kind = UnitKind::kCollective;
    part.stream = Stream::kCommunication;
    part.ops = unit.ops;
    part.key = collective->key;
    part.collective = collective->collective;
    part.collective.arrays.clear();
    part.collective.bucket = -1;
    parts.push_back(std::move(part));
    from = to;
  }
  add_computing(from, 0);
  return parts;
}

}  // namespace

TimedSchedule::TimedSchedule(const Schedule& whole, bool in_parts)
    : whole_(whole) {
  std::map<size_t, std::vector<Unit>> parts;
  for (size_t u = 0; in_parts && u < whole.units.size(); ++u) {
    std::vector<Unit> found = parts_of(whole.units[u]);
    if (!found.empty()) parts.emplace(u, std::move(found));
  }
  if (parts.empty()) return;
  Schedule& cut = cut_.emplace();
  cut.program_fingerprint = whole.program_fingerprint;
  cut.ranks = whole.ranks;
  for (size_t u = 0; u < whole.units.size(); ++u) {
    first_.push_back(static_cast<uint32_t>(cut.units.size()));
    const auto found = parts.find(u);
    if (found == parts.end()) {
      cut.units.push_back(whole.units[u]);
      continue;
    }
    for (Unit& part : found->second) {
      const auto at = static_cast<uint32_t>(cut.units.size());
      if (at > first_.back())
        cut.dependencies.push_back({UnitId{at - 1}, UnitId{at}, 0});
      cut.units.push_back(std::move(part));
    }
  }
  first_.push_back(static_cast<uint32_t>(cut.units.size()));
  for (const Dependency& edge : whole.dependencies) {
    cut.dependencies.push_back({UnitId{first_[index_of(edge.before) + 1] - 1},
                                UnitId{first_[index_of(edge.after)]},
                                edge.steps, edge.paces});
  }
  std::sort(cut.dependencies.begin(), cut.dependencies.end(),
            [](const Dependency& a, const Dependency& b) {
              return std::tuple(a.after, a.before, a.steps) <
                     std::tuple(b.after, b.before, b.steps);
            });
}

uint32_t TimedSchedule::first_part(UnitId unit) const {
  return first_.empty() ? index_of(unit) : first_[index_of(unit)];
}

uint32_t TimedSchedule::part_count(UnitId unit) const {
  return first_.empty() ? 1
                        : first_[index_of(unit) + 1] - first_[index_of(unit)];
}

}  // namespace reprise
