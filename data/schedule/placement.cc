#include "data/schedule/placement.h"

#include <algorithm>
#include <utility>

#include "data/schedule/run_order.h"

namespace reprise {
namespace {

// State that a step replaces is written over the old value where every reader
// of the old value can run first; a collective's operands are written straight
// into its buffer where nobody else reads them; everything else gets a
// temporary, which memory_plan.cc then packs by live interval. Linear but for
// the search behind each overwritten parameter, O(units + edges).

enum class Copies : uint32_t { kOperand, kOldValue, kUpdate };
UnitRef copy_ref(Copies what, size_t index) {
  return {UnitRef::Kind::kCopy, static_cast<uint32_t>(index),
          static_cast<uint32_t>(what)};
}

/// [instruction] True for what several units compute.
std::vector<bool> ops_of_several_units(const OpGraph& graph,
                                       const UnitGraph& units) {
  std::vector<bool> counted(graph.role.size(), false),
      several(graph.role.size(), false);
  for (const PlannedUnit& unit : units.units) {
    if (unit.role == OpRole::kCollective) continue;
    for (InstructionId op : unit.ops) {
      several[index_of(op)] = several[index_of(op)] || counted[index_of(op)];
      counted[index_of(op)] = true;
    }
  }
  return several;
}

/// True if a kernel reads each element of an `is_old` value before it writes
/// that of `value` over it.
template <typename IsOld>
bool overwrites_in_step(const OpGraph& graph, const Kernel& kernel,
                        InstructionId value, const IsOld& is_old) {
  const auto held = [&](const KernelArgument& argument) {
    return graph.value_of[index_of(argument.instruction)];
  };
  const std::vector<KernelArgument>& arguments = kernel.arguments;
  size_t output = arguments.size();
  for (size_t a = 0; a < arguments.size(); ++a) {
    if (arguments[a].is_output && held(arguments[a]) == value) output = a;
  }
  if (output == arguments.size()) return false;
  for (size_t a = 0; a < arguments.size(); ++a) {
    if (!arguments[a].is_output && is_old(held(arguments[a])) &&
        !in_place_safe(kernel, a, output))
      return false;
  }
  return true;
}

/// True if a routine, which takes the old value of the parameter, may write
/// `value` over it: it reads the old value by no other name (CalledState).
template <typename IsOld>
bool replaces_state(const OpGraph& graph, const LoweredRoutine& routine,
                    InstructionId value, size_t parameter,
                    const IsOld& is_old) {
  const InstructionId op = routine.spec.instruction;
  const auto& results = graph.results.at(index_of(op));
  const auto k = static_cast<size_t>(
      std::find(results.begin(), results.end(), value) - results.begin());
  const std::vector<InstructionId> inputs = routine_inputs(graph, op);
  return k < routine.replaces.size() &&
         routine.replaces[k] == static_cast<int32_t>(parameter) &&
         std::none_of(inputs.begin(), inputs.end(), [&](InstructionId held) {
           return is_old(held) && held != graph.parameters[parameter];
         });
}

/// Calls `visit` with every value that a unit reads from memory.
template <typename Visit>
void each_input(const OpGraph& graph, const UnitGraph& units,
                const LoweredKernel* kernel, const PlannedUnit& unit,
                const Visit& visit) {
  if (unit.role == OpRole::kKernel) {
    for (const KernelArgument& argument : kernel->kernel.arguments) {
      if (!argument.is_output)
        visit(graph.value_of[index_of(argument.instruction)]);
    }
  } else if (unit.role == OpRole::kDot) {
    for (InstructionId value : dot_inputs(graph, unit.ops[0], unit.epilogue))
      visit(value);
  } else if (unit.role == OpRole::kRoutine) {
    for (InstructionId value : routine_inputs(graph, unit.ops[0])) visit(value);
  } else {
    const auto c = static_cast<size_t>(unit.collective);
    for (const SlotPlace& member : units.collectives[c].members)
      visit(graph.slots[static_cast<size_t>(member.slot)].input);
  }
}

int64_t operands_reading(const OpGraph& graph, InstructionId collective,
                         InstructionId value) {
  const auto first =
      static_cast<size_t>(graph.first_slot[index_of(collective)]);
  int64_t count = 0;
  for (size_t s = first; s < first + graph.slot_count(collective); ++s) {
    if (graph.slots[s].input == value) ++count;
  }
  return count;
}

/// True where a rank communicates with itself alone, so that the result is the
/// operand. Of the kinds of which that may be one buffer.
bool gives_back(const PlannedCollective& collective) {
  return (collective.kind == CollectiveKind::kAllGather ||
          collective.kind == CollectiveKind::kReduceScatter) &&
         std::all_of(collective.groups.begin(), collective.groups.end(),
                     [](const auto& group) { return group.size() == 1; });
}

class Placer {
 public:
  Placer(const OpGraph& graph, const UnitGraph& units,
         const LoweredUnits& lowered)
      : graph_(graph),
        units_(units),
        kernels_(lowered.kernels),
        routines_(lowered.routines),
        runs_(units) {
    parameter_of_.assign(graph.role.size(), -1);
    for (size_t n = 0; n < graph.parameters.size(); ++n) {
      parameter_of_[index_of(graph.parameters[n])] = static_cast<int32_t>(n);
    }
    updated_by_.assign(graph.parameters.size(), -1);
    placed_.assign(graph.role.size(), false);
    result_.location.resize(graph.role.size());
    result_.routine_writes.resize(units.units.size());
  }

  Placement place() {
    place_parameters();
    give_parameters_back();
    collect_parameter_readers();
    place_updates();
    result_.order = runs_.order();
    place_collectives();
    place_rest();
    bind_outputs();
    return std::move(result_);
  }

 private:
  BufferId add_buffer(Buffer buffer) {
    result_.buffers.push_back(buffer);
    return BufferId{static_cast<uint32_t>(result_.buffers.size() - 1)};
  }

  Location add_temporary(int64_t bytes) {
    return {add_buffer({.kind = BufferKind::kTemporary, .size_bytes = bytes}),
            0, bytes};
  }

  int64_t bytes_of(InstructionId value) const {
    return byte_size(graph_.at(value).shape);
  }

  void put(InstructionId value, Location location) {
    result_.location[index_of(value)] = location;
    placed_[index_of(value)] = true;
  }

  void collect_parameter_readers() {
    readers_.resize(graph_.parameters.size());
    for (uint32_t u = 0; u < units_.units.size(); ++u) {
      each_input(graph_, units_, kernels_[u], units_.units[u],
                 [&](InstructionId value) {
                   const int32_t parameter = parameter_of_[index_of(value)];
                   if (parameter < 0) return;
                   std::vector<uint32_t>& readers =
                       readers_[static_cast<size_t>(parameter)];
                   if (readers.empty() || readers.back() != u)
                     readers.push_back(u);
                 });
    }
  }

  void place_parameters() {
    for (size_t n = 0; n < graph_.parameters.size(); ++n) {
      const InstructionId id = graph_.parameters[n];
      const int64_t bytes = bytes_of(id);
      const BufferId buffer =
          add_buffer({.kind = BufferKind::kParameter,
                      .size_bytes = bytes,
                      .parameter = static_cast<int64_t>(n)});
      result_.parameter_buffers.push_back(buffer);
      put(id, {buffer, 0, bytes});
    }
  }

  /// What gathers all of a parameter from one rank is the parameter, for those
  /// who must read it before the step changes it, too.
  void give_parameters_back() {
    for (const PlannedCollective& collective : units_.collectives) {
      if (!gives_back(collective)) continue;
      for (const SlotPlace& member : collective.members) {
        const CollectiveSlot& slot = slot_at(member);
        const int32_t parameter = parameter_of_[index_of(slot.input)];
        if (parameter < 0 || slot.output == kNoInstruction) continue;
        parameter_of_[index_of(slot.output)] = parameter;
        put(slot.output, result_.location[index_of(slot.input)]);
      }
    }
  }

  /// State outputs that can be written over the parameter they replace.
  void place_updates() {
    for (size_t o = 0; o < graph_.outputs.size(); ++o) {
      const int64_t parameter = graph_.updates[o];
      if (parameter < 0) continue;
      updated_by_[static_cast<size_t>(parameter)] = static_cast<int32_t>(o);
      const InstructionId value = graph_.outputs[o];
      const InstructionId op = graph_.producer[index_of(value)];
      if (placed_[index_of(value)] || op == kNoInstruction) continue;
      if (graph_.role_of(op) == OpRole::kCollective) continue;
      const uint32_t writer = units_.owner[index_of(op)];
      if (!may_overwrite(writer, value, static_cast<size_t>(parameter)))
        continue;
      put(value, result_.location[index_of(
                     graph_.parameters[static_cast<size_t>(parameter)])]);
    }
  }

  /// True if unit `writer` may write `value` over a parameter; then its other
  /// readers come first.
  bool may_overwrite(uint32_t writer, InstructionId value, size_t parameter) {
    const std::vector<uint32_t>& readers = readers_[parameter];
    const bool reads_itself =
        std::binary_search(readers.begin(), readers.end(), writer);
    const auto is_old = [&](InstructionId held) {
      return parameter_of_[index_of(held)] == static_cast<int32_t>(parameter);
    };
    if (reads_itself &&
        !(kernels_[writer] != nullptr &&
          overwrites_in_step(graph_, kernels_[writer]->kernel, value,
                             is_old)) &&
        !(routines_[writer] != nullptr &&
          replaces_state(graph_, *routines_[writer], value, parameter, is_old)))
      return false;
    return runs_.put_after(readers, writer);
  }

  /// True if the slot's input may be written by its producer straight into the
  /// buffer.
  bool reduces_in_place(const CollectiveSlot& slot,
                        const std::vector<bool>& several) const {
    const InstructionId value = slot.input;
    const InstructionId op = graph_.producer[index_of(value)];
    if (op == kNoInstruction || graph_.role_of(op) == OpRole::kCollective)
      return false;
    if (graph_.is_output[index_of(value)] || placed_[index_of(value)])
      return false;
    if (operands_reading(graph_, slot.collective, value) > 1) return false;
    const uint32_t owner = units_.owner[index_of(op)];
    for (InstructionId reader : graph_.readers[index_of(value)]) {
      if (reader == slot.collective) continue;
      if (units_.owner[index_of(reader)] != owner || several[index_of(reader)])
        return false;
    }
    return true;
  }

  void place_collectives() {
    const std::vector<bool> several = ops_of_several_units(graph_, units_);
    result_.slot_copy.assign(graph_.slots.size(), -1);
    for (const PlannedCollective& collective : units_.collectives) {
      std::vector<Location>& places = result_.collective.emplace_back();
      if (!is_bytewise(collective.kind)) {
        const bool in_place = gives_back(collective);
        for (const SlotPlace& member : collective.members)
          places.push_back(place_apart(slot_at(member), in_place, several));
        continue;
      }
      const Location whole = add_temporary(collective.bytes);
      places.push_back(whole);
      for (const SlotPlace& member : collective.members) {
        const CollectiveSlot& slot = slot_at(member);
        const Location place{whole.buffer, member.offset_bytes, slot.bytes};
        if (slot.output != kNoInstruction) put(slot.output, place);
        if (reduces_in_place(slot, several)) {
          put(slot.input, place);
        } else {
          copied_.push_back({member.slot, place});
        }
      }
    }
  }

  const CollectiveSlot& slot_at(const SlotPlace& member) const {
    return graph_.slots[static_cast<size_t>(member.slot)];
  }

  /// Its operand stays where it is; its result, whose place is returned, has a
  /// buffer of its own, unless it is the operand.
  Location place_apart(const CollectiveSlot& slot, bool in_place,
                       const std::vector<bool>& several) {
    if (slot.output == kNoInstruction) return add_temporary(slot.output_bytes);
    if (placed_[index_of(slot.output)])
      return result_.location[index_of(slot.output)];
    const Location result = add_temporary(slot.output_bytes);
    put(slot.output, result);
    if (in_place && reduces_in_place(slot, several)) put(slot.input, result);
    return result;
  }

  Location locate(InstructionId value) {
    if (!placed_[index_of(value)]) {
      const int64_t bytes = bytes_of(value);
      const Opcode opcode = graph_.at(value).opcode;
      if (opcode == Opcode::kConstant ||
          facts_of(opcode).lowering == Lowering::kInput) {
        put(value, {add_buffer({.kind = BufferKind::kConstant,
                                .size_bytes = bytes,
                                .constant = value}),
                    0, bytes});
      } else {
        put(value, add_temporary(bytes));
      }
    }
    return result_.location[index_of(value)];
  }

  /// A routine writes all of its result, read or not.
  void place_routine(uint32_t u) {
    const InstructionId op = units_.units[u].ops[0];
    const Shape& shape = graph_.at(op).shape;
    std::vector<Location>& writes = result_.routine_writes[u];
    for (const InstructionId result : graph_.results.at(index_of(op))) {
      const size_t k = writes.size();
      const bool unread = result == kNoInstruction;
      const bool needed = unread && routines_[u]->written[k];
      const int64_t bytes = needed ? byte_size(shape.elements[k]) : 0;
      writes.push_back(unread ? add_temporary(bytes) : locate(result));
    }
    if (routines_[u]->workspace_bytes > 0)
      writes.push_back(add_temporary(routines_[u]->workspace_bytes));
  }

  /// Temporaries for what is left, in order of first writing, and constants
  /// that are read.
  void place_rest() {
    for (uint32_t u : result_.order) {
      if (units_.units[u].role == OpRole::kCollective) continue;
      each_input(graph_, units_, kernels_[u], units_.units[u],
                 [&](InstructionId value) { locate(value); });
      for (InstructionId value : units_.units[u].outputs) locate(value);
      if (routines_[u] != nullptr) place_routine(u);
    }
    for (const PlannedCollective& collective : units_.collectives) {
      if (is_bytewise(collective.kind)) continue;
      for (const SlotPlace& member : collective.members)
        locate(slot_at(member).input);
    }
    for (const auto& [slot, place] : copied_) {
      const CollectiveSlot& at = graph_.slots[static_cast<size_t>(slot)];
      result_.slot_copy[static_cast<size_t>(slot)] =
          static_cast<int32_t>(result_.input_copies.size());
      result_.input_copies.push_back(
          {"copy:" + slot_name(graph_, slot),
           copy_ref(Copies::kOperand, static_cast<size_t>(slot)),
           locate(at.input), place});
    }
  }

  /// A parameter's old value, copied away before the step changes it.
  Location keep_old_value(size_t output, InstructionId value) {
    const Location kept = add_temporary(bytes_of(value));
    result_.first_copies.push_back({fmt::format("output:{}", output),
                                    copy_ref(Copies::kOldValue, output),
                                    locate(value), kept});
    return kept;
  }

  void bind_outputs() {
    for (size_t o = 0; o < graph_.outputs.size(); ++o) {
      const InstructionId value = graph_.outputs[o];
      const int64_t updated = graph_.updates[o];
      const int32_t source = parameter_of_[index_of(value)];
      Location from = locate(value);
      const bool changes = source >= 0 && source != updated &&
                           updated_by_[static_cast<size_t>(source)] >= 0;
      if (changes) from = keep_old_value(o, value);
      if (updated >= 0) {
        const BufferId buffer =
            result_.parameter_buffers[static_cast<size_t>(updated)];
        const Location to{buffer, 0, from.size_bytes};
        if (from.buffer != buffer) {
          result_.last_copies.push_back({fmt::format("update:{}", o),
                                         copy_ref(Copies::kUpdate, o), from,
                                         to});
        }
        from = to;
      }
      result_.outputs.push_back({static_cast<int64_t>(o), from});
    }
  }

  const OpGraph& graph_;
  const UnitGraph& units_;
  const std::vector<const LoweredKernel*>& kernels_;
  const std::vector<const LoweredRoutine*>& routines_;
  RunOrder runs_;
  Placement result_;
  std::vector<bool> placed_;  ///< [value]
  /// [value] number of the parameter whose old value it is, or -1.
  std::vector<int32_t> parameter_of_;
  std::vector<int32_t> updated_by_;  ///< [parameter] output, or -1.
  /// [parameter] units, ascending.
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<std::pair<int32_t, Location>> copied_;
};

}  // namespace

Placement place_values(const OpGraph& graph, const UnitGraph& units,
                       const LoweredUnits& lowered) {
  return Placer(graph, units, lowered).place();
}

}  // namespace reprise
