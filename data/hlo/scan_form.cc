#include "data/hlo/scan_form.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/attribute_reader.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

bool is_array_of(const Shape& shape, PrimitiveType type,
                 const std::vector<int64_t>& extents) {
  return shape.is_array() && shape.type == type && shape.dimensions == extents;
}

/// Whether rows of an array along `dimension`, `steps` of them, have a shape.
bool has_rows(const Shape& whole, size_t dimension, int64_t steps,
              const Shape& row) {
  if (!whole.is_array() || dimension >= whole.dimensions.size() ||
      whole.dimensions[dimension] != steps)
    return false;
  const Shape part = row_shape(whole, dimension);
  return is_array_of(row, part.type, part.dimensions);
}

/// Inputs lose a dimension on the way into a step, carries do not.
size_t count_inputs(const Computation& computation, const Instruction& scan,
                    const std::vector<const Instruction*>& parameters) {
  size_t count = 0;
  while (count < parameters.size() &&
         computation.at(scan.operands[count]).shape.dimensions.size() ==
             parameters[count]->shape.dimensions.size() + 1)
    ++count;
  return count;
}

bool takes_operands(const Computation& computation, const Instruction& scan,
                    const std::vector<const Instruction*>& parameters,
                    const ScanForm& form) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Shape& operand = computation.at(scan.operands[i]).shape;
    const Shape& taken = parameters[i]->shape;
    const bool fits =
        i < form.inputs ? has_rows(operand, form.dimension, form.steps, taken)
                        : operand.is_array() && is_array_of(taken, operand.type,
                                                            operand.dimensions);
    if (!fits) return false;
  }
  return true;
}

bool gives_results(const Computation& step,
                   const std::vector<const Instruction*>& parameters,
                   const Shape& result, const ScanForm& form) {
  const std::vector<Shape>& given = step.at(step.root).shape.elements;
  for (size_t i = 0; i < form.outputs; ++i) {
    if (!has_rows(result.elements[i], form.dimension, form.steps, given[i]))
      return false;
  }
  for (size_t i = 0; i < form.carries; ++i) {
    const Shape& carry = parameters[form.inputs + i]->shape;
    const size_t at = form.outputs + i;
    if (!is_array_of(given[at], carry.type, carry.dimensions) ||
        !is_array_of(result.elements[at], carry.type, carry.dimensions))
      return false;
  }
  return true;
}

bool is_parameter(const Computation& step, InstructionId id, int64_t number) {
  const Instruction& op = step.at(id);
  return op.opcode == Opcode::kParameter && op.parameter_number == number;
}

/// Combines the parameters 0 and 1, in either order.
bool combines_parameters(const Computation& step, const Instruction& op) {
  if (op.operands.size() != 2 ||
      facts_of(op.opcode).identity == Identity::kNoIdentity)
    return false;
  const InstructionId a = op.operands[0], b = op.operands[1];
  return (is_parameter(step, a, 0) && is_parameter(step, b, 1)) ||
         (is_parameter(step, a, 1) && is_parameter(step, b, 0));
}

bool is_of_one_type(const Computation& step, const Instruction& row,
                    const Instruction& next) {
  const auto parameters = parameters_of(step);
  const PrimitiveType type = row.shape.type;
  return next.shape.type == type && parameters[0]->shape.type == type &&
         parameters[1]->shape.type == type;
}

/// The least of a type of integers, or the greatest.
std::string extreme(PrimitiveType type, bool least) {
  const bool is_signed = primitive_type_name(type).starts_with('s');
  const int bits = primitive_type_bits(type);
  if (least && !is_signed) return "0";
  const uint64_t all = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (!is_signed) return std::to_string(all);
  return least ? "-" + std::to_string(all / 2 + 1) : std::to_string(all / 2);
}

/// A scalar that leaves the other operand of `combine` unchanged.
bool is_identity(Opcode combine, const Instruction& constant) {
  if (constant.opcode != Opcode::kConstant ||
      !constant.shape.dimensions.empty())
    return false;
  const auto words = literal_words(constant);
  const auto values = literal_values(constant);
  if (!words || !values || words->size() != 1 || values->size() != 1)
    return false;
  const PrimitiveType type = constant.shape.type;
  const std::string_view word = (*words)[0];
  const char kind = primitive_type_name(type)[0];
  const bool is_integer = kind == 's' || kind == 'u';
  const bool is_float = kind == 'f' || kind == 'b';
  switch (facts_of(combine).identity) {
    case Identity::kZero:
      return (*values)[0] == 0;
    case Identity::kOne:
      return (*values)[0] == 1;
    case Identity::kLeast:
      return is_integer ? word == extreme(type, true)
                        : is_float && word == "-inf";
    case Identity::kGreatest:
      return is_integer ? word == extreme(type, false)
                        : is_float && word == "inf";
    default:
      return false;
  }
}

}  // namespace

Shape row_shape(const Shape& whole, size_t dimension) {
  Shape row;
  row.type = whole.type;
  row.dimensions = whole.dimensions;
  row.dimensions.erase(row.dimensions.begin() +
                       static_cast<ptrdiff_t>(dimension));
  return row;
}

std::optional<ScanForm> scan_form(const Module& module,
                                  const Computation& computation,
                                  const Instruction& scan) {
  const auto called = called_computation(scan);
  const std::vector<int64_t> along = integer_list(scan, "dimensions");
  if (scan.opcode != Opcode::kScan || !called || along.size() != 1 ||
      along[0] < 0 || !scan.shape.is_tuple())
    return std::nullopt;
  const Computation& step = module.at(*called);
  const auto parameters = parameters_of(step);
  const size_t results = scan.shape.elements.size();
  if (parameters.size() != scan.operands.size() ||
      !step.at(step.root).shape.is_tuple() ||
      step.at(step.root).shape.elements.size() != results)
    return std::nullopt;
  ScanForm form;
  form.step = *called;
  form.dimension = static_cast<size_t>(along[0]);
  form.inputs = count_inputs(computation, scan, parameters);
  form.carries = parameters.size() - form.inputs;
  form.is_reverse = raw_text(scan, "is_reverse") == "true";
  form.is_associative = raw_text(scan, "is_associative") == "true";
  const std::vector<int64_t> stated = integer_list(scan, "num_carries");
  if (form.inputs == 0 || form.carries > results ||
      (stated.size() == 1 && stated[0] != static_cast<int64_t>(form.carries)))
    return std::nullopt;
  form.outputs = results - form.carries;
  const Shape& first = computation.at(scan.operands[0]).shape;
  if (form.dimension >= first.dimensions.size()) return std::nullopt;
  form.steps = first.dimensions[form.dimension];
  if (form.steps < 1 || !takes_operands(computation, scan, parameters, form) ||
      !gives_results(step, parameters, scan.shape, form))
    return std::nullopt;
  return form;
}

std::optional<CumulativeScan> cumulative_scan(const Module& module,
                                              const ScanForm& form,
                                              const Computation& computation,
                                              InstructionId carry) {
  if (!form.is_associative || form.inputs != 1 || form.carries != 1 ||
      form.outputs != 1)
    return std::nullopt;
  const Computation& step = module.at(form.step);
  const Instruction& root = step.at(step.root);
  if (root.opcode != Opcode::kTuple) return std::nullopt;
  const Instruction& row = step.at(root.operands[0]);
  const Instruction& next = step.at(root.operands[1]);
  if (!combines_parameters(step, row) || !combines_parameters(step, next) ||
      row.opcode != next.opcode || !is_of_one_type(step, row, next))
    return std::nullopt;
  while (computation.at(carry).opcode == Opcode::kBroadcast)
    carry = computation.at(carry).operands[0];
  if (!is_identity(row.opcode, computation.at(carry))) return std::nullopt;
  return CumulativeScan{row.opcode, carry};
}

}  // namespace reprise
