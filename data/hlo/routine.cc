// A callee becomes a program like any other, so that parsing, checking and
// lowering need not know where it came from: computations are copied with their
// references renumbered, a tuple parameter is parted into its elements, and the
// root is made a tuple of arrays.
#include "data/hlo/routine.h"

#include <algorithm>
#include <utility>

#include "data/hlo/appended_ops.h"
#include "data/hlo/combiner.h"
#include "data/hlo/cost_analysis.h"
#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

/// A reduction that kernels compute: one array, by one binary operation.
bool reduces_in_kernel(const Module& module, const Instruction& reduction,
                       size_t operands, bool may_replace) {
  const std::optional<Opcode> combine = combining_opcode(module, reduction);
  return reduction.operands.size() == operands && combine &&
         (may_replace || *combine != Opcode::kParameter);
}

bool has_small_window(const Instruction& instruction) {
  const auto window = window_dimensions(instruction);
  int64_t count = 1;
  for (size_t d = 0; window && d < window->size(); ++d)
    count = std::min(count, kMostWindowElements + 1) * (*window)[d].size;
  return window && count <= kMostWindowElements;
}

/// A long cumulative sum or product that rounds to 16 bits at each element, for
/// which the order matters.
bool is_rounding_scan(const Module& module, const Instruction& instruction) {
  const auto window = window_dimensions(instruction);
  const std::optional<Opcode> by = combining_opcode(module, instruction);
  if (!window || !is_half(instruction.shape.type) ||
      (by != Opcode::kAdd && by != Opcode::kMultiply))
    return false;
  const std::vector<int64_t>& extents = instruction.shape.dimensions;
  const auto cumulative = cumulative_window(*window, extents);
  return cumulative && extents[cumulative->dimension] > kCumulativeBlock;
}

/// Builds one computation anew, instruction by instruction.
class Rebuilder {
 public:
  Rebuilder() = default;

  InstructionId append(Instruction instruction) {
    result_.push_back(std::move(instruction));
    return InstructionId{static_cast<uint32_t>(result_.size() - 1)};
  }

  /// Copies an instruction whose operands stand in this computation already.
  InstructionId copy(const Instruction& original) {
    Instruction instruction = original;
    renumber_references(map_, &instruction);
    return append(std::move(instruction));
  }

  void map(InstructionId to) { map_.push_back(to); }
  InstructionId mapped(InstructionId from) const {
    return map_[index_of(from)];
  }

  const Instruction& at(InstructionId id) const {
    return result_[index_of(id)];
  }

  InstructionId element(InstructionId tuple, size_t index) {
    Instruction element;
    element.name = fmt::format("{}/{}", at(tuple).name, index);
    element.opcode = Opcode::kGetTupleElement;
    element.shape = at(tuple).shape.elements[index];
    element.operands = {tuple};
    element.attributes.push_back(
        {"index", std::vector<int64_t>{static_cast<int64_t>(index)}});
    return append(std::move(element));
  }

  /// A tuple of these values.
  InstructionId tuple(std::string name, std::vector<InstructionId> values) {
    Instruction tuple;
    tuple.name = std::move(name);
    tuple.opcode = Opcode::kTuple;
    tuple.shape.type = PrimitiveType::kTuple;
    for (const InstructionId value : values)
      tuple.shape.elements.push_back(at(value).shape);
    tuple.operands = std::move(values);
    return append(std::move(tuple));
  }

  /// A `tuple` of all elements of a tuple.
  InstructionId exposed(InstructionId made) {
    std::vector<InstructionId> elements;
    for (size_t i = 0; i < at(made).shape.elements.size(); ++i)
      elements.push_back(element(made, i));
    return tuple(at(made).name + "/tuple", std::move(elements));
  }

  std::vector<Instruction> take() { return std::move(result_); }

 private:
  std::vector<Instruction> result_;
  std::vector<InstructionId> map_;
};

/// Of custom calls, those whose target says plainly what they do.
bool is_known_call(const Instruction& instruction) {
  return custom_call_target(instruction) == "TopK" ||
         matrix_operation(instruction).kind != MatrixKind::kNone;
}

bool is_routine(Opcode opcode) {
  return facts_of(opcode).lowering == Lowering::kRoutine ||
         opcode == Opcode::kWhile || opcode == Opcode::kConditional ||
         opcode == Opcode::kInfeed;
}

bool makes_tuple(const Instruction& instruction) {
  return instruction.shape.is_tuple() &&
         (is_routine(instruction.opcode) ||
          facts_of(instruction.opcode).lowering == Lowering::kReduction);
}

/// Reads the tuples that it is given whole.
bool takes_tuples(Opcode opcode) {
  return opcode == Opcode::kWhile || opcode == Opcode::kConditional ||
         opcode == Opcode::kTuple || opcode == Opcode::kOptimizationBarrier;
}

/// All computations that `id` reaches, itself included, ascending.
std::vector<ComputationId> reached_from(const Module& module,
                                        ComputationId id) {
  std::vector<bool> seen(module.computations.size(), false);
  std::vector<ComputationId> pending{id}, found;
  seen[index_of(id)] = true;
  while (!pending.empty()) {
    const ComputationId next = pending.back();
    pending.pop_back();
    found.push_back(next);
    for (const Instruction& instruction : module.at(next).instructions) {
      for (const ComputationId called : called_computations(instruction)) {
        if (seen[index_of(called)]) continue;
        seen[index_of(called)] = true;
        pending.push_back(called);
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void renumber(Computation* computation,
              const std::vector<ComputationId>& reached) {
  const auto number = [&](ComputationId id) {
    const auto at = std::lower_bound(reached.begin(), reached.end(), id);
    return ComputationId{static_cast<uint32_t>(at - reached.begin())};
  };
  for (Instruction& instruction : computation->instructions) {
    for (Attribute& attribute : instruction.attributes) {
      if (auto* one = std::get_if<ComputationId>(&attribute.value)) {
        *one = number(*one);
      } else if (auto* many = std::get_if<std::vector<ComputationId>>(
                     &attribute.value)) {
        for (ComputationId& id : *many) id = number(id);
      }
    }
  }
}

/// Parameters of one computation, tuples parted.
class ParameterParts {
 public:
  explicit ParameterParts(const Computation& computation) {
    int64_t next = 0;
    for (const Instruction* parameter : parameters_of(computation)) {
      first_.push_back(next);
      next += leaves_of(parameter->shape);
    }
  }

  InstructionId part(const Instruction& parameter, Rebuilder* to) const {
    int64_t number = first_.at(static_cast<size_t>(parameter.parameter_number));
    return part(parameter.name, parameter.shape, &number, to);
  }

 private:
  static int64_t leaves_of(const Shape& shape) {
    if (!shape.is_tuple()) return 1;
    int64_t leaves = 0;
    for (const Shape& element : shape.elements) leaves += leaves_of(element);
    return leaves;
  }

  InstructionId part(const std::string& name, const Shape& shape,
                     int64_t* number, Rebuilder* to) const {
    if (shape.is_tuple()) {
      std::vector<InstructionId> elements;
      for (size_t i = 0; i < shape.elements.size(); ++i) {
        elements.push_back(
            part(fmt::format("{}/{}", name, i), shape.elements[i], number, to));
      }
      return to->tuple(name, std::move(elements));
    }
    Instruction parameter;
    parameter.name = name;
    parameter.shape = shape;
    parameter.parameter_number = (*number)++;
    return to->append(std::move(parameter));
  }

  std::vector<int64_t> first_;  ///< [parameter] number of its first part.
};

void part_parameters(Computation* computation) {
  const ParameterParts parts(*computation);
  Rebuilder rebuilt;
  for (const Instruction& instruction : computation->instructions) {
    rebuilt.map(instruction.opcode == Opcode::kParameter
                    ? parts.part(instruction, &rebuilt)
                    : rebuilt.copy(instruction));
  }
  computation->root = rebuilt.mapped(computation->root);
  computation->instructions = rebuilt.take();
}

/// Makes the root a `tuple` of arrays.
Status flatten_root(CalleeForm form, Computation* computation) {
  Result<std::vector<InstructionId>> arrays =
      array_elements(*computation, computation->root);
  if (!arrays) return pass(arrays.error());
  Rebuilder rebuilt;
  for (const Instruction& instruction : computation->instructions)
    rebuilt.map(rebuilt.copy(instruction));
  if (form == CalleeForm::kFunction) {
    for (InstructionId& array : *arrays) {
      Instruction copied;
      copied.name = rebuilt.at(array).name + "/copy";
      copied.opcode = Opcode::kCopy;
      copied.shape = rebuilt.at(array).shape;
      copied.operands = {array};
      array = rebuilt.append(std::move(copied));
    }
  }
  computation->root = rebuilt.tuple("root", *std::move(arrays));
  computation->instructions = rebuilt.take();
  return {};
}

}  // namespace

bool runs_as_routine(const Module& module, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kReduce:
      return !reduces_in_kernel(module, instruction, 2, false);
    case Opcode::kReduceWindow:
      return !reduces_in_kernel(module, instruction, 2, false) ||
             !has_small_window(instruction) ||
             is_rounding_scan(module, instruction);
    case Opcode::kScatter:
      return !reduces_in_kernel(module, instruction, 3, true);
    default:
      return is_routine(instruction.opcode) || is_only_priced(instruction);
  }
}

bool is_only_priced(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kCustomCall:
      return !is_known_call(instruction);
    case Opcode::kInfeed:
    case Opcode::kRng:
    case Opcode::kRngGetAndUpdateState:
      return true;
    default:
      return false;
  }
}

Result<std::vector<InstructionId>> array_elements(
    const Computation& computation, InstructionId value) {
  const Instruction& instruction = computation.at(value);
  if (instruction.shape.is_array()) return std::vector<InstructionId>{value};
  if (instruction.opcode == Opcode::kOptimizationBarrier)
    return array_elements(computation, instruction.operands[0]);
  if (instruction.opcode != Opcode::kTuple) {
    return fail(ErrorKind::kUnsupported,
                "{}: a tuple made by {} does not run here", instruction.name,
                opcode_name(instruction.opcode));
  }
  std::vector<InstructionId> arrays;
  for (const InstructionId operand : instruction.operands) {
    Result<std::vector<InstructionId>> inner =
        array_elements(computation, operand);
    if (!inner) return inner;
    arrays.insert(arrays.end(), inner->begin(), inner->end());
  }
  return arrays;
}

void expose_elements(Computation* computation) {
  const size_t count = computation->instructions.size();
  std::vector<bool> whole(count, false);
  bool any = false;
  const auto use = [&](InstructionId id) {
    if (!makes_tuple(computation->at(id))) return;
    whole[index_of(id)] = any = true;
  };
  use(computation->root);
  for (const Instruction& instruction : computation->instructions) {
    if (!takes_tuples(instruction.opcode)) continue;
    for (const InstructionId operand : instruction.operands) use(operand);
  }
  if (!any) return;
  Rebuilder rebuilt;
  for (size_t i = 0; i < count; ++i) {
    const InstructionId id = rebuilt.copy(computation->instructions[i]);
    rebuilt.map(whole[i] ? rebuilt.exposed(id) : id);
  }
  computation->root = rebuilt.mapped(computation->root);
  computation->instructions = rebuilt.take();
}

Result<InlinedModule> extract_computation(const Module& module,
                                          ComputationId id, CalleeForm form) {
  const std::vector<ComputationId> reached = reached_from(module, id);
  Module extracted;
  extracted.name = module.at(id).name;
  for (const Attribute& attribute : module.attributes) {
    if (attribute.name == "num_partitions" ||
        attribute.name == "replica_count" ||
        attribute.name == "frontend_attributes")
      extracted.attributes.push_back(attribute);
  }
  for (const ComputationId from : reached) {
    extracted.computations.push_back(module.at(from));
    renumber(&extracted.computations.back(), reached);
    if (from == id) {
      extracted.entry = ComputationId{
          static_cast<uint32_t>(extracted.computations.size() - 1)};
    }
  }
  part_parameters(&extracted.entry_computation());
  Result<InlinedModule> inlined = inline_calls(extracted);
  if (!inlined) return inlined;
  const Status flat = flatten_root(form, &inlined->entry_computation());
  if (!flat) return pass(flat.error());
  return inlined;
}

}  // namespace reprise
