// From HLO to ops and values in a few linear passes: names, dots with the
// transposes that fold into them, outputs and aliases; then backwards from the
// outputs, what each live instruction needs in memory, which decides its role;
// last the slots of collectives and the readers of values.
#include "data/plan/op_graph.h"

#include <algorithm>
#include <functional>

#include "data/hlo/flat_collective.h"
#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "data/hlo/routine.h"
#include "data/hlo/scan_windows.h"
#include "data/hlo/small_dot.h"
#include "data/plan/op_tables.h"
#include "data/plan/output_aliases.h"
#include "data/plan/value_storage.h"

namespace reprise {
namespace {

/// Whether the layout, if one is written, is the usual: the last dimension
/// varies fastest.
bool is_row_major(const Shape& shape) {
  return std::is_sorted(shape.minor_to_major.begin(),
                        shape.minor_to_major.end(), std::greater<>());
}

/// Refuses bitcasts that move elements or cut them into others.
Status check_bitcast(const Computation& entry, const Instruction& bitcast) {
  const Shape& operand = entry.at(bitcast.operands[0]).shape;
  if (operand.type != bitcast.shape.type) {
    return fail(ErrorKind::kUnsupported,
                "{}: a bitcast to elements of another width does not run",
                bitcast.name);
  }
  if (is_row_major(bitcast.shape) && is_row_major(operand)) return {};
  return fail(ErrorKind::kUnsupported,
              "{}: a bitcast of another layout than row-major does not run",
              bitcast.name);
}

/// Refuses what row-major arrays of known size in one arena cannot be.
Status check_arrays(const Computation& entry) {
  constexpr int64_t kMostBytes = int64_t{1} << 58;  // Sums of a few fit.
  int64_t bytes = 0;
  for (const Instruction& instruction : entry.instructions) {
    const Shape& shape = instruction.shape;
    if (!shape.is_array()) continue;
    if (!shape.dynamic.empty()) {
      return fail(ErrorKind::kUnsupported, "{}: {} has no fixed size",
                  instruction.name, shape_text(shape, false));
    }
    if (instruction.opcode == Opcode::kBitcast) {
      if (Status runs = check_bitcast(entry, instruction); !runs) return runs;
    }
    if (byte_size(shape) > kMostBytes - bytes) {
      return fail(ErrorKind::kInvalid,
                  "{}: {}, and the arrays before it, take more than {} bytes",
                  instruction.name, shape_text(shape, false), kMostBytes);
    }
    bytes += byte_size(shape);
  }
  return {};
}

/// Builds an OpGraph in passes over the entry computation; see build_op_graph.
class Builder {
 public:
  explicit Builder(const InlinedModule& module)
      : entry_(module.entry_computation()),
        device_(module.device),
        storage_(entry_) {
    const size_t count = entry_.instructions.size();
    graph_.module = &module;
    graph_.entry = &entry_;
    graph_.role.assign(count, OpRole::kDead);
    graph_.value_of.assign(count, kNoInstruction);
    graph_.producer.assign(count, kNoInstruction);
    graph_.inputs.resize(count);
    graph_.readers.resize(count);
    graph_.dot_of.assign(count, -1);
    graph_.first_slot.assign(count, -1);
    graph_.is_output.assign(count, false);
    demanded_.assign(count, false);
  }

  Result<OpGraph> build() {
    Status arrays = check_arrays(entry_);
    if (!arrays) return pass(arrays.error());
    for (auto step : {&Builder::index, &Builder::view_dots,
                      &Builder::bind_outputs, &Builder::demand_ops}) {
      Status status = (this->*step)();
      if (!status) return pass(status.error());
    }
    collect_slots(&graph_);
    collect_results(&graph_);
    collect_readers(&graph_);
    return std::move(graph_);
  }

 private:
  InstructionId id_at(size_t i) const {
    return InstructionId{static_cast<uint32_t>(i)};
  }

  /// Names and parameters.
  Status index() {
    for (size_t i = 0; i < entry_.instructions.size(); ++i) {
      const Instruction& instruction = entry_.instructions[i];
      graph_.by_name.emplace(instruction.name, id_at(i));
      if (instruction.opcode == Opcode::kParameter) {
        const auto number = static_cast<size_t>(instruction.parameter_number);
        if (number >= entry_.instructions.size()) {
          return fail(ErrorKind::kInvalid,
                      "{}: parameter number {} is out of range",
                      instruction.name, instruction.parameter_number);
        }
        if (graph_.parameters.size() <= number) {
          graph_.parameters.resize(number + 1, kNoInstruction);
        }
        graph_.parameters[number] = id_at(i);
      }
    }
    for (size_t n = 0; n < graph_.parameters.size(); ++n) {
      if (graph_.parameters[n] == kNoInstruction) {
        return fail(ErrorKind::kInvalid, "parameter {} is missing", n);
      }
      const Instruction& parameter = entry_.at(graph_.parameters[n]);
      if (!parameter.shape.is_array()) {
        return fail(ErrorKind::kUnsupported, "{}: only array parameters run",
                    parameter.name);
      }
    }
    return {};
  }

  std::vector<bool> reachable_from_root() const {
    std::vector<bool> reached(entry_.instructions.size(), false);
    reached[index_of(entry_.root)] = true;
    for (size_t i = entry_.instructions.size(); i-- > 0;) {
      if (!reached[i]) continue;
      for (InstructionId operand : entry_.instructions[i].operands) {
        reached[index_of(operand)] = true;
      }
    }
    return reached;
  }

  /// Folds transposes into dots; those written in place of a dot become values.
  Status view_dots() {
    const std::vector<bool> reached = reachable_from_root();
    std::vector<std::vector<InstructionId>> users(entry_.instructions.size());
    for (size_t i = 0; i < entry_.instructions.size(); ++i) {
      if (!reached[i]) continue;
      for (InstructionId operand : entry_.instructions[i].operands) {
        users[index_of(operand)].push_back(id_at(i));
      }
    }
    const auto is_written = [this](InstructionId id) -> bool {
      return storage_.is_written(id);
    };
    for (size_t i = 0; i < entry_.instructions.size(); ++i) {
      if (!reached[i] ||
          facts_of(entry_.instructions[i].opcode).lowering !=
              Lowering::kLibrary ||
          is_small_dot(entry_, entry_.instructions[i])) {
        continue;
      }
      const InstructionId* transpose = nullptr;
      if (users[i].size() == 1 &&
          entry_.at(users[i][0]).opcode == Opcode::kTranspose) {
        transpose = users[i].data();
      }
      Result<DotView> view =
          view_dot(entry_, id_at(i), transpose, is_written, device_);
      if (!view) continue;  // A routine runs it.
      view->lhs.value = storage_.resolve(view->lhs.value, false);
      view->rhs.value = storage_.resolve(view->rhs.value, false);
      storage_.set_written(view->out.value);
      graph_.producer[index_of(view->out.value)] = id_at(i);
      graph_.dot_of[i] = static_cast<int32_t>(graph_.dots.size());
      graph_.dots.push_back(*std::move(view));
    }
    return {};
  }

  Status bind_outputs() {
    const Instruction& root = entry_.at(entry_.root);
    if (root.shape.is_tuple() && root.opcode != Opcode::kTuple) {
      return fail(ErrorKind::kUnsupported,
                  "{}: the root is a tuple made by {}, expected tuple",
                  root.name, opcode_name(root.opcode));
    }
    const std::vector<InstructionId> alone{entry_.root};
    for (InstructionId output :
         root.opcode == Opcode::kTuple ? root.operands : alone) {
      if (!entry_.at(output).shape.is_array()) {
        return fail(ErrorKind::kUnsupported, "{}: only array outputs run",
                    entry_.at(output).name);
      }
      const InstructionId value = storage_.resolve(output, false);
      graph_.outputs.push_back(value);
      graph_.is_output[index_of(value)] = true;
      demanded_[index_of(value)] = true;
    }
    graph_.updates.assign(graph_.outputs.size(), -1);
    return bind_aliases(&graph_);
  }

  void demand(InstructionId value, InstructionId reader) {
    demanded_[index_of(value)] = true;
    graph_.inputs[index_of(reader)].push_back(value);
  }

  /// Marks, from the outputs backwards, what must run, and what each op reads.
  Status demand_ops() {
    for (size_t i = entry_.instructions.size(); i-- > 0;) {
      const InstructionId id = id_at(i);
      graph_.value_of[i] = storage_.resolve(id, false);
      if (graph_.dot_of[i] >= 0) {
        const InstructionId result =
            graph_.dots[static_cast<size_t>(graph_.dot_of[i])].out.value;
        demanded_[i] = demanded_[i] || demanded_[index_of(result)];
      }
      if (!demanded_[i]) continue;
      Status status = demand_inputs(id);
      if (!status) return status;
    }
    // What is only looked through: views and folded transposes between live
    // ops.
    const std::vector<bool> reached = reachable_from_root();
    for (size_t i = 0; i < reached.size(); ++i) {
      if (reached[i] && graph_.role[i] == OpRole::kDead)
        graph_.role[i] = OpRole::kFolded;
    }
    return {};
  }

  Status demand_inputs(InstructionId id) {
    const size_t i = index_of(id);
    const Instruction& instruction = entry_.at(id);
    OpRole& role = graph_.role[i];
    if (instruction.opcode == Opcode::kParameter) {
      role = OpRole::kParameter;
    } else if (instruction.opcode == Opcode::kConstant ||
               facts_of(instruction.opcode).lowering == Lowering::kInput) {
      role = OpRole::kConstant;
    } else if (graph_.dot_of[i] >= 0) {
      role = OpRole::kDot;
      const DotView& view = graph_.dots[static_cast<size_t>(graph_.dot_of[i])];
      demand(view.lhs.value, id);
      demand(view.rhs.value, id);
    } else if (graph_.producer[i] != kNoInstruction) {
      role = OpRole::kFolded;  // A transpose that its dot writes.
    } else if (instruction.opcode == Opcode::kGetTupleElement) {
      return demand_element(id);
    } else if (is_collective(instruction.opcode)) {
      return demand_collective(id);
    } else if (is_routine(instruction) && !is_small_dot(entry_, instruction)) {
      return demand_routine(id);
    } else {
      return demand_kernel(id);
    }
    return {};
  }

  Status demand_element(InstructionId id) {
    const InstructionId source =
        storage_.tuple_source(entry_.at(id).operands[0]);
    if (!is_collective(entry_.at(source).opcode) &&
        !is_routine(entry_.at(source))) {
      return fail(ErrorKind::kUnsupported, "{}: {}", entry_.at(source).name,
                  does_not_run(entry_.at(source)));
    }
    graph_.role[index_of(id)] = OpRole::kFolded;
    graph_.producer[index_of(id)] = source;
    demanded_[index_of(source)] = true;
    return {};
  }

  Status demand_collective(InstructionId id) {
    const Instruction& instruction = entry_.at(id);
    const auto kind = runnable_collective(opcode_name(instruction.opcode));
    if (!kind) {
      return fail(ErrorKind::kUnsupported, "{}: {} does not run yet",
                  instruction.name, opcode_name(instruction.opcode));
    }
    const CollectiveFacts& facts = facts_of(*kind);
    if (!is_bytewise(*kind) && instruction.operands.size() != 1) {
      return fail(ErrorKind::kUnsupported,
                  "{}: {} of {} operands does not run in this form",
                  instruction.name, facts.opcode, instruction.operands.size());
    }
    if (facts.counts_parts &&
        !divides_bytes(instruction, entry_.at(instruction.operands[0]).shape)) {
      return fail(ErrorKind::kUnsupported,
                  "{}: {} along an inner dimension needs replica_groups that "
                  "name the ranks, or divide its extent",
                  instruction.name, facts.opcode);
    }
    graph_.role[index_of(id)] = OpRole::kCollective;
    if (instruction.shape.is_array()) graph_.producer[index_of(id)] = id;
    for (InstructionId operand : instruction.operands)
      demand(storage_.resolve(operand, false), id);
    return {};
  }

  bool is_routine(const Instruction& instruction) const {
    return runs_as_routine(*graph_.module, instruction) ||
           (device_ == LoweredFor::kProcessor && is_noted_scan(instruction)) ||
           facts_of(instruction.opcode).lowering == Lowering::kLibrary;
  }

  Status demand_routine(InstructionId id) {
    const Instruction& instruction = entry_.at(id);
    graph_.role[index_of(id)] = OpRole::kRoutine;
    if (instruction.shape.is_array()) graph_.producer[index_of(id)] = id;
    for (InstructionId operand : instruction.operands) {
      const Result<std::vector<InstructionId>> arrays =
          array_elements(entry_, operand);
      if (!arrays) return pass(arrays.error());
      for (const InstructionId array : *arrays)
        demand(storage_.resolve(array, false), id);
    }
    const bool is_flat = std::all_of(
        instruction.shape.elements.begin(), instruction.shape.elements.end(),
        [](const Shape& element) { return element.is_array(); });
    if (is_flat) return {};
    return fail(ErrorKind::kUnsupported,
                "{}: {} with a tuple in its result does not run",
                instruction.name, opcode_name(instruction.opcode));
  }

  Status demand_kernel(InstructionId id) {
    const Instruction& instruction = entry_.at(id);
    if (!instruction.shape.is_array()) {
      return fail(ErrorKind::kUnsupported,
                  "{}: {} with a result of {} does not run", instruction.name,
                  opcode_and_target(instruction),
                  shape_text(instruction.shape));
    }
    graph_.role[index_of(id)] = OpRole::kKernel;
    graph_.producer[index_of(id)] = id;
    for (InstructionId operand : instruction.operands) {
      const InstructionId value = storage_.resolve(operand, true);
      if (value != kNoInstruction) demand(value, id);
    }
    return {};
  }

  const Computation& entry_;
  LoweredFor device_;
  OpGraph graph_;
  ValueStorage storage_;
  std::vector<bool> demanded_;  ///< Something needs the bytes.
};

}  // namespace

std::vector<InstructionId> routine_inputs(const OpGraph& graph,
                                          InstructionId routine) {
  std::vector<InstructionId> inputs;
  for (const InstructionId operand : graph.at(routine).operands) {
    const auto arrays = array_elements(*graph.entry, operand);
    REPRISE_CHECK(arrays);  // As the graph was built.
    for (const InstructionId array : *arrays)
      inputs.push_back(graph.value_of[index_of(array)]);
  }
  return inputs;
}

Result<OpGraph> build_op_graph(const InlinedModule& inlined) {
  return Builder(inlined).build();
}

}  // namespace reprise
