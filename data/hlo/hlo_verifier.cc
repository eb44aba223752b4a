// Arity, element types and extents of elementwise operations, by the table of
// opcodes, and the walk over a module. It asks what lowering and costs rely on,
// not all that XLA's HloVerifier asks. Cost: linear in operands.
#include "data/hlo/hlo_verifier.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/hlo_checks.h"

namespace reprise {
namespace {

Status check_arity(const CheckedInstruction& checked) {
  const OpcodeFacts& facts = facts_of(checked.instruction.opcode);
  const bool bounded = facts.most_operands != OpcodeFacts::kAny;
  const size_t count = checked.operand_count();
  if (count >= facts.least_operands &&
      (!bounded || count <= facts.most_operands)) {
    return {};
  }
  return checked.invalid(fmt::format("{} takes {}{} operands, found {}",
                                     facts.name, bounded ? "" : "at least ",
                                     facts.least_operands, count));
}

bool is_floating(PrimitiveType type) {
  const std::string_view name = primitive_type_name(type);
  return name.starts_with('f') || name.starts_with('b');
}

/// Equal, or both floating: XLA mixes precisions in elementwise operations.
bool types_agree(PrimitiveType a, PrimitiveType b) {
  return a == b || (is_floating(a) && is_floating(b));
}

Status check_elementwise(const CheckedInstruction& checked) {
  const Opcode opcode = checked.instruction.opcode;
  const OpcodeFacts& facts = facts_of(opcode);
  if (!facts.elementwise) return {};
  for (size_t i = 0; i < checked.operand_count(); ++i) {
    const Shape& operand = checked.operand(i);
    const bool may_be_scalar = (opcode == Opcode::kSelect && i == 0) ||
                               (opcode == Opcode::kClamp && i != 1);
    if (!may_be_scalar || !operand.dimensions.empty()) {
      const auto same = checked.expect_extents(
          fmt::format("operand {}", i), operand, checked.result().dimensions);
      if (!same) return same;
    }
    const Shape& reference = facts.result == ResultType::kSame
                                 ? checked.result()
                                 : checked.operand(checked.operand_count() - 1);
    const bool is_predicate = opcode == Opcode::kSelect && i == 0;
    const bool agree = is_predicate ? operand.type == PrimitiveType::kPred
                                    : types_agree(operand.type, reference.type);
    if (agree || opcode == Opcode::kStochasticConvert) continue;
    return checked.invalid(fmt::format(
        "operand {} of {} is {}, expected elements of {}", i,
        opcode_name(opcode), shape_text(operand, false),
        is_predicate ? "pred" : primitive_type_name(reference.type)));
  }
  if (facts.result == ResultType::kPredicate &&
      checked.result().type != PrimitiveType::kPred) {
    return checked.invalid(fmt::format("{} gives pred, found {}",
                                       opcode_name(opcode),
                                       shape_text(checked.result(), false)));
  }
  return {};
}

Status check_constant(const CheckedInstruction& checked) {
  if (checked.instruction.opcode != Opcode::kConstant) return {};
  const auto values = literal_values(checked.instruction);
  if (!values && values.error().kind == ErrorKind::kInvalid) {
    return tl::unexpected<Error>(values.error());
  }
  return {};
}

/// Its shape is ((operands), result, …); sugar is checked as what it wraps.
Status check_async_start(const CheckedInstruction& checked) {
  const Instruction& start = checked.instruction;
  if (start.opcode != Opcode::kAsyncStart) return {};
  if (start.shape.elements.size() < 2) {
    return checked.invalid(
        fmt::format("{} gives ((operands), result, ...), found {}",
                    written_opcode(start), shape_text(start.shape, false)));
  }
  const Opcode wrapped = wrapped_opcode(start);
  if (wrapped == Opcode::kAsyncStart) return {};
  return verify_instruction(checked.module, checked.computation,
                            unwrapped(start));
}

Status check_references(const Computation& computation, size_t position,
                        uint32_t callers_id) {
  const Instruction& instruction = computation.instructions[position];
  const auto check_id = [&](InstructionId id) {
    return index_of(id) < position;
  };
  bool valid = std::all_of(instruction.operands.begin(),
                           instruction.operands.end(), check_id);
  for (const Attribute& attribute : instruction.attributes) {
    if (const auto* ids =
            std::get_if<std::vector<InstructionId>>(&attribute.value)) {
      valid = valid && std::all_of(ids->begin(), ids->end(), check_id);
    } else if (const auto* one = std::get_if<ComputationId>(&attribute.value)) {
      valid = valid && index_of(*one) < callers_id;
    } else if (const auto* many =
                   std::get_if<std::vector<ComputationId>>(&attribute.value)) {
      for (const ComputationId id : *many)
        valid = valid && index_of(id) < callers_id;
    }
  }
  if (valid) return {};
  return fail(ErrorKind::kInvalid,
              "instruction `{}` of `{}` refers to what does not stand before",
              instruction.name, computation.name);
}

Status verify_computation(const Module& module, uint32_t id) {
  const Computation& computation = module.computations[id];
  if (index_of(computation.root) >= computation.instructions.size()) {
    return fail(ErrorKind::kInvalid, "computation `{}` has no root",
                computation.name);
  }
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    if (!names.insert(instruction.name).second) {
      return fail(ErrorKind::kInvalid,
                  "instruction `{}` of `{}` is defined twice", instruction.name,
                  computation.name);
    }
    const auto references = check_references(computation, i, id);
    if (!references) return references;
    const auto checked = verify_instruction(module, computation, instruction);
    if (!checked) return checked;
  }
  return {};
}

/// The shape at a tuple index, or null.
const Shape* shape_at(const Shape& shape, const std::vector<int64_t>& index) {
  const Shape* at = &shape;
  for (const int64_t i : index) {
    if (i < 0 || static_cast<size_t>(i) >= at->elements.size()) return nullptr;
    at = &at->elements[static_cast<size_t>(i)];
  }
  return at;
}

}  // namespace

bool same_dimensions(const Shape& a, const Shape& b) {
  if (a.type != b.type || a.dimensions != b.dimensions) return false;
  if (a.elements.size() != b.elements.size()) return false;
  for (size_t i = 0; i < a.elements.size(); ++i) {
    if (!same_dimensions(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

Status CheckedInstruction::expect_shape(std::string_view what,
                                        const Shape& found,
                                        const Shape& expected) const {
  if (same_dimensions(found, expected)) return {};
  if (found.is_tuple() && expected.is_tuple()) {
    if (found.elements.size() != expected.elements.size()) {
      return invalid(fmt::format("{} of {} has {} elements, expected {}", what,
                                 opcode_name(instruction.opcode),
                                 found.elements.size(),
                                 expected.elements.size()));
    }
    size_t i = 0;
    while (same_dimensions(found.elements[i], expected.elements[i])) ++i;
    return expect_shape(fmt::format("element {} of the {}", i, what),
                        found.elements[i], expected.elements[i]);
  }
  return invalid(fmt::format(
      "{} of {} is {}, expected {}", what, opcode_name(instruction.opcode),
      shape_text(found, false), shape_text(expected, false)));
}

Status CheckedInstruction::expect_extents(
    std::string_view what, const Shape& found,
    const std::vector<int64_t>& expected) const {
  if (found.is_array() && found.dimensions == expected) return {};
  Shape wanted;
  wanted.type = found.is_array() ? found.type : result().type;
  wanted.dimensions = expected;
  return invalid(fmt::format(
      "{} of {} is {}, expected {}", what, opcode_name(instruction.opcode),
      shape_text(found, false), shape_text(wanted, false)));
}

Result<std::vector<int64_t>> CheckedInstruction::dimensions(
    std::string_view name, size_t rank) const {
  std::vector<int64_t> list = integer_list(instruction, name);
  std::vector<bool> seen(rank);
  for (const int64_t dimension : list) {
    const bool in_range =
        dimension >= 0 && static_cast<size_t>(dimension) < rank;
    if (in_range && !seen[static_cast<size_t>(dimension)]) {
      seen[static_cast<size_t>(dimension)] = true;
      continue;
    }
    return invalid(fmt::format(
        "{}={{{}}} does not list distinct dimensions of an array of rank {}",
        name, fmt::join(list, ","), rank));
  }
  return list;
}

Status verify_instruction(const Module& module, const Computation& computation,
                          const Instruction& instruction) {
  const CheckedInstruction checked{module, computation, instruction};
  if (const auto arity = check_arity(checked); !arity) return arity;
  if (const auto constant = check_constant(checked); !constant) return constant;
  if (const auto structured = check_structured_operation(checked); !structured)
    return structured;
  if (const auto elementwise = check_elementwise(checked); !elementwise)
    return elementwise;
  if (const auto indexed = check_indexed_operation(checked); !indexed)
    return indexed;
  return check_async_start(checked);
}

Status verify_aliases(const Module& module) {
  using Place = std::vector<int64_t>;
  const Computation& entry = module.entry_computation();
  const std::vector<const Instruction*> parameters = parameters_of(entry);
  std::set<Place> outputs;
  std::set<std::pair<int64_t, Place>> inputs;
  for (const InputOutputAlias& alias : module.aliases) {
    const Shape* output =
        shape_at(entry.at(entry.root).shape, alias.output_index);
    const auto number = static_cast<size_t>(alias.parameter);
    const Shape* input =
        alias.parameter >= 0 && number < parameters.size()
            ? shape_at(parameters[number]->shape, alias.parameter_index)
            : nullptr;
    const auto place = [&] {
      return fmt::format("input_output_alias: output {{{}}} and parameter {}",
                         fmt::join(alias.output_index, ","), alias.parameter);
    };
    if (output == nullptr || input == nullptr) {
      return fail(ErrorKind::kInvalid, "{}: the {} is not there", place(),
                  output == nullptr ? "output" : "parameter");
    }
    if (byte_size(*output) != byte_size(*input)) {
      return fail(ErrorKind::kInvalid, "{}: {} cannot alias {}", place(),
                  shape_text(*output, false), shape_text(*input, false));
    }
    const bool is_first =
        outputs.insert(alias.output_index).second &&
        inputs.emplace(alias.parameter, alias.parameter_index).second;
    if (!is_first) {
      return fail(ErrorKind::kInvalid, "{}: one of them is aliased twice",
                  place());
    }
  }
  return {};
}

Status verify(const Module& module) {
  if (index_of(module.entry) >= module.computations.size()) {
    return fail(ErrorKind::kInvalid, "module `{}` has no entry computation",
                module.name);
  }
  for (uint32_t i = 0; i < module.computations.size(); ++i) {
    const auto checked = verify_computation(module, i);
    if (!checked) return checked;
  }
  return verify_aliases(module);
}

}  // namespace reprise
