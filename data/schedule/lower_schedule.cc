#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "data/plan/op_graph.h"
#include "data/plan/unit_graph.h"
#include "data/schedule/called_program.h"
#include "data/schedule/dependencies.h"
#include "data/schedule/memory_order.h"
#include "data/schedule/memory_plan.h"
#include "data/schedule/placement.h"
#include "data/schedule/schedule.h"
#include "data/schedule/schedule_cache.h"

namespace reprise {
namespace {

/// Turns placed units into the units of a schedule.
class Assembler {
 public:
  Assembler(const UnitGraph& units, const LoweredUnits& lowered,
            const Placement& placement, ScheduleCache* cache)
      : graph_(cache->graph),
        units_(units),
        lowered_(lowered),
        placement_(placement),
        cache_(cache) {}

  Schedule assemble() {
    schedule_.buffers = placement_.buffers;
    schedule_.parameter_buffers = placement_.parameter_buffers;
    schedule_.outputs = placement_.outputs;
    copied_.assign(placement_.input_copies.size(), false);
    for (const PlannedCopy& copy : placement_.first_copies) add_copy(copy);
    std::vector<uint32_t> place(units_.units.size());
    for (uint32_t u : placement_.order) {
      const PlannedUnit& planned = units_.units[u];
      if (planned.role == OpRole::kKernel) {
        add_kernel(planned, *lowered_.kernels[u]);
      } else if (planned.role == OpRole::kDot) {
        add_dot(planned);
      } else if (planned.role == OpRole::kRoutine) {
        add_routine(planned, *lowered_.routines[u],
                    placement_.routine_writes[u]);
      } else {
        add_collective(planned);
      }
      place[u] = static_cast<uint32_t>(schedule_.units.size() - 1);
    }
    for (const PlannedCopy& copy : placement_.last_copies) add_copy(copy);
    schedule_.dependencies =
        find_dependencies(schedule_.units, schedule_.buffers);
    wait_for_unread(place);
    pace_gathers();
    return std::move(schedule_);
  }

 private:
  void add_copy(const PlannedCopy& copy) {
    Unit unit;
    unit.name = copy.name;
    unit.ref = copy.ref;
    unit.kind = UnitKind::kCopy;
    unit.key = fmt::format("copy:{}", copy.from.size_bytes);
    unit.bytes = 2.0 * static_cast<double>(copy.from.size_bytes);
    unit.reads = {copy.from};
    unit.writes = {copy.to};
    schedule_.units.push_back(std::move(unit));
  }

  Unit start_unit(const PlannedUnit& planned, UnitKind kind) const {
    Unit unit;
    unit.name = planned.name;
    unit.ref = planned.ref;
    unit.kind = kind;
    unit.ops = planned.ops;
    return unit;
  }

  const Location& location_of(InstructionId instruction) const {
    return placement_
        .location[index_of(graph_.value_of[index_of(instruction)])];
  }

  void add_kernel(const PlannedUnit& planned, const LoweredKernel& lowered) {
    Unit unit = start_unit(planned, UnitKind::kKernel);
    unit.key = lowered.key;
    unit.flops = lowered.flops;
    unit.bytes = lowered.bytes;
    for (const KernelArgument& argument : lowered.kernel.arguments) {
      (argument.is_output ? unit.writes : unit.reads)
          .push_back(location_of(argument.instruction));
    }
    unit.kernel = kernel_place(lowered.key, lowered.kernel);
    schedule_.units.push_back(std::move(unit));
  }

  int32_t kernel_place(const std::string& key, const Kernel& kernel) {
    const auto [found, is_new] = kernel_of_key_.emplace(
        key, static_cast<int32_t>(schedule_.kernels.size()));
    if (is_new) schedule_.kernels.push_back(kernel);
    return found->second;
  }

  void add_routine(const PlannedUnit& planned, const LoweredRoutine& lowered,
                   const std::vector<Location>& writes) {
    Unit unit = start_unit(planned, UnitKind::kRoutine);
    unit.key = lowered.key;
    unit.flops = lowered.flops;
    unit.bytes = lowered.bytes;
    unit.routine = lowered.spec;
    for (RoutineCallee& callee : unit.routine.callees) {
      const CalledProgram& program = *callee.program;
      for (size_t k = 0; k < program.kernel_keys.size(); ++k) {
        callee.kernels.push_back(
            kernel_place(program.kernel_keys[k], program.schedule.kernels[k]));
      }
    }
    for (const InstructionId value : routine_inputs(graph_, planned.ops[0]))
      unit.reads.push_back(placement_.location[index_of(value)]);
    unit.writes = writes;
    schedule_.units.push_back(std::move(unit));
  }

  MatrixView matrix_view(const StridedMatrix& matrix) const {
    return {location_of(matrix.value), matrix.dimensions, matrix.strides};
  }

  void add_dot(const PlannedUnit& planned) {
    const InstructionId dot = planned.ops[0];
    const DotView& view =
        graph_.dots[static_cast<size_t>(graph_.dot_of[index_of(dot)])];
    const DotEpilogue& epilogue = planned.epilogue;
    Unit unit = start_unit(planned, UnitKind::kLibrary);
    // The transpose that the dot writes in its place runs here, too.
    if (view.out.value != dot)
      unit.ops.insert(unit.ops.begin() + 1, view.out.value);
    DotFigures figures = dot_figures(planned.ops, epilogue, cache_);
    unit.key = std::move(figures.key);
    unit.flops = figures.flops;
    unit.bytes = figures.bytes;
    DotSpec& spec = unit.dot;
    spec.type = view.type;
    spec.result_type = view.result_type;
    spec.lhs = matrix_view(view.lhs);
    spec.rhs = matrix_view(view.rhs);
    spec.out = {location_of(epilogue.result), view.out.dimensions,
                view.out.strides};
    spec.alpha = epilogue.alpha;
    spec.multiply_add = epilogue.multiply_add;
    spec.activation = epilogue.activation;
    if (epilogue.bias != kNoInstruction) spec.bias = location_of(epilogue.bias);
    if (epilogue.accumulate != kNoInstruction)
      spec.accumulate = location_of(epilogue.accumulate);
    for (const InstructionId value : dot_inputs(graph_, dot, epilogue))
      unit.reads.push_back(location_of(value));
    unit.writes = {spec.out.location};
    schedule_.units.push_back(std::move(unit));
  }

  /// Copies operands that overlap bytes [begin, end) of the buffer and are not
  /// there yet.
  void add_input_copies(const PlannedCollective& collective, int64_t begin,
                        int64_t end) {
    for (const SlotPlace& member : collective.members) {
      const int32_t copy =
          placement_.slot_copy[static_cast<size_t>(member.slot)];
      if (copy < 0 || copied_[static_cast<size_t>(copy)]) continue;
      const int64_t bytes =
          graph_.slots[static_cast<size_t>(member.slot)].bytes;
      if (member.offset_bytes >= end || member.offset_bytes + bytes <= begin)
        continue;
      copied_[static_cast<size_t>(copy)] = true;
      add_copy(placement_.input_copies[static_cast<size_t>(copy)]);
    }
  }

  void add_collective(const PlannedUnit& planned) {
    const auto c = static_cast<size_t>(planned.collective);
    const PlannedCollective& collective = units_.collectives[c];
    const int64_t begin = planned.chunk * collective.chunk_bytes;
    const int64_t end =
        std::min(begin + collective.chunk_bytes, collective.bytes);
    if (is_bytewise(collective.kind)) add_input_copies(collective, begin, end);
    Unit unit = start_unit(planned, UnitKind::kCollective);
    unit.stream = Stream::kCommunication;
    CollectiveSpec& spec = unit.collective;
    spec.kind = collective.kind;
    spec.reduction = collective.reduction;
    spec.type = collective.type;
    spec.bytes = end - begin;
    spec.elements =
        spec.bytes * 8 / std::max(primitive_type_bits(collective.type), 1);
    spec.groups = collective.groups;
    spec.pairs = collective.pairs;
    const std::vector<Location>& places = placement_.collective[c];
    if (is_bytewise(collective.kind)) {
      const Location chunk{places.front().buffer, begin, end - begin};
      spec.arrays = {{chunk, chunk}};
    } else {
      for (size_t m = 0; m < places.size(); ++m) {
        const auto slot = static_cast<size_t>(collective.members[m].slot);
        spec.arrays.push_back(
            {location_of(graph_.slots[slot].input), places[m]});
      }
    }
    spec.bucket = collective.bucket;
    spec.chunk = static_cast<int32_t>(planned.chunk);
    unit.key = fmt::format("collective:{}:{}:{}:{}:{}", name_of(spec.kind),
                           static_cast<int>(spec.reduction),
                           primitive_type_name(spec.type), spec.bytes,
                           members_text(spec));
    unit.bytes = static_cast<double>(spec.bytes);
    for (const CollectiveArray& array : spec.arrays) {
      unit.reads.push_back(array.input);
      // What a rank gathers from itself stays where it is.
      if (schedule_.buffers[index_of(array.output.buffer)].kind ==
          BufferKind::kTemporary)
        unit.writes.push_back(array.output);
    }
    schedule_.units.push_back(std::move(unit));
  }

  /// Some readers read no bytes: of what a collective left where it is, which
  /// no unit wrote; of indices into values that are all alike, or one. They
  /// come later all the same, as in any order that a plan may give. `place`:
  /// [planned unit] its unit.
  void wait_for_unread(const std::vector<uint32_t>& place) {
    std::vector<int32_t> carried(schedule_.units.size(), -1);
    for (size_t u = 0; u < place.size(); ++u)
      carried[place[u]] = units_.units[u].collective;
    std::vector<Dependency> unread;
    for (size_t u = 0; u < place.size(); ++u) {
      for (const uint32_t before : units_.units[u].predecessors) {
        const bool is_collective = units_.units[before].collective >= 0;
        if (schedule_.units[place[before]].stream ==
                schedule_.units[place[u]].stream ||
            (is_collective && !reads_of(place[u], place[before], carried)))
          unread.push_back({UnitId{place[before]}, UnitId{place[u]}, 0});
      }
    }
    schedule_.dependencies.insert(schedule_.dependencies.end(), unread.begin(),
                                  unread.end());
    sort_dependencies(&schedule_.dependencies);
  }

  /// Whether a unit reads bytes of the collective that another is a chunk of.
  /// `carried`: [unit] its collective. Requires: dependencies are sorted.
  bool reads_of(uint32_t reader, uint32_t chunk,
                const std::vector<int32_t>& carried) const {
    const std::vector<Dependency>& all = schedule_.dependencies;
    auto at = std::lower_bound(all.begin(), all.end(), UnitId{reader},
                               [](const Dependency& dependency, UnitId after) {
                                 return dependency.after < after;
                               });
    for (; at != all.end() && at->after == UnitId{reader}; ++at) {
      if (at->steps == 0 && carried[index_of(at->before)] == carried[chunk])
        return true;
    }
    return false;
  }

  /// A unit has started once the one before it has ended.
  void pace_gathers() {
    std::vector<uint32_t> computing;
    const size_t own = schedule_.dependencies.size();
    for (uint32_t u = 0; u < schedule_.units.size(); ++u) {
      const Unit& unit = schedule_.units[u];
      if (unit.stream == Stream::kCompute) {
        computing.push_back(u);
      } else if (unit.collective.kind == CollectiveKind::kAllGather &&
                 computing.size() > 1) {
        schedule_.dependencies.push_back(
            {UnitId{computing.end()[-2]}, UnitId{u}, 0, true});
      }
    }
    if (schedule_.dependencies.size() > own)
      sort_dependencies(&schedule_.dependencies);
  }

  static std::string members_text(const CollectiveSpec& spec) {
    std::string text;
    if (spec.kind == CollectiveKind::kPermute) {
      for (const auto& [source, target] : spec.pairs)
        text += fmt::format("{{{}>{}}}", source, target);
      return text;
    }
    for (const std::vector<int64_t>& group : spec.groups)
      text += fmt::format("{{{}}}", fmt::join(group, ","));
    return text;
  }

  const OpGraph& graph_;
  const UnitGraph& units_;
  const LoweredUnits& lowered_;
  const Placement& placement_;
  ScheduleCache* cache_;
  Schedule schedule_;
  std::vector<bool> copied_;  ///< [input copy]
  std::unordered_map<std::string, int32_t> kernel_of_key_;
};

Schedule assembled(const UnitGraph& units, const LoweredUnits& lowered,
                   ParameterBytes parameters, ScheduleCache* cache) {
  const Placement placement = place_values(cache->graph, units, lowered);
  Schedule schedule = Assembler(units, lowered, placement, cache).assemble();
  plan_memory(&schedule, kAlignmentBytes, parameters);
  return schedule;
}

UnitGraph reordered(UnitGraph units, const std::vector<UnitRef>& order) {
  std::map<UnitRef, uint32_t> unit_of;
  for (uint32_t u = 0; u < units.units.size(); ++u)
    unit_of.emplace(units.units[u].ref, u);
  for (const UnitRef ref : order) units.order.push_back(unit_of.at(ref));
  return units;
}

/// `units`, which stand for a checked plan, as a schedule.
Result<Schedule> lower_units(const UnitGraph& units, int64_t ranks,
                             ParameterBytes parameters, ScheduleCache* cache) {
  const size_t count = units.units.size();
  LoweredUnits lowered{.kernels = std::vector<const LoweredKernel*>(count),
                       .routines = std::vector<const LoweredRoutine*>(count)};
  for (size_t u = 0; u < count; ++u) {
    const PlannedUnit& unit = units.units[u];
    if (unit.role == OpRole::kKernel) {
      Result<const LoweredKernel*> kernel = find_kernel(unit, cache);
      if (!kernel) return pass(kernel.error());
      lowered.kernels[u] = *kernel;
    } else if (unit.role == OpRole::kRoutine) {
      Result<const LoweredRoutine*> routine =
          find_routine(unit.ops[0], ranks, cache);
      if (!routine) return pass(routine.error());
      lowered.routines[u] = *routine;
    }
  }
  Schedule schedule = assembled(units, lowered, parameters, cache);
  const bool is_called = parameters == ParameterBytes::kElsewhere;
  if ((ranks == 1 || is_called) && units.order.empty()) {
    Schedule smaller = assembled(reordered(units, memory_order(schedule)),
                                 lowered, parameters, cache);
    if (smaller.arena_bytes < schedule.arena_bytes)
      schedule = std::move(smaller);
  }
  schedule.ranks = ranks;
  return schedule;
}

}  // namespace

Result<Schedule> lower_schedule(const InlinedModule& inlined, const Plan& plan,
                                ScheduleCache* cache) {
  ScheduleCache local;
  if (cache == nullptr) cache = &local;
  Status opened = open_cache(inlined, cache);
  if (!opened) return pass(opened.error());
  Result<UnitGraph> units = plan_units(cache->graph, plan);
  if (!units) return pass(units.error());
  Result<Schedule> schedule =
      lower_units(*units, plan.ranks, ParameterBytes::kHere, cache);
  if (schedule) schedule->program_fingerprint = plan.program_fingerprint;
  return schedule;
}

Result<Schedule> lower_schedule(const PlanChoice& plan, ScheduleCache* cache,
                                ParameterBytes parameters) {
  Result<UnitGraph> units = plan_units(cache->graph, plan);
  if (!units) return pass(units.error());
  return lower_units(*units, plan.ranks, parameters, cache);
}

}  // namespace reprise
