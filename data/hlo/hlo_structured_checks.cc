// Checks of tuples, control flow and collectives: what a caller passes fits
// what its computations take and give.

#include "data/hlo/hlo.h"
#include "data/hlo/hlo_checks.h"
#include "data/hlo/hlo_verifier.h"

namespace reprise {
namespace {

Status check_tuple(const CheckedInstruction& checked) {
  Shape expected;
  expected.type = PrimitiveType::kTuple;
  for (size_t i = 0; i < checked.operand_count(); ++i) {
    expected.elements.push_back(checked.operand(i));
  }
  return checked.expect_shape("result", checked.result(), expected);
}

Status check_get_tuple_element(const CheckedInstruction& checked) {
  const std::vector<int64_t> index = integer_list(checked.instruction, "index");
  const Shape& tuple = checked.operand(0);
  if (index.size() != 1)
    return checked.invalid("get-tuple-element needs index=N");
  if (!tuple.is_tuple() || index[0] < 0 ||
      static_cast<size_t>(index[0]) >= tuple.elements.size()) {
    return checked.invalid(fmt::format("index={} is no element of {}", index[0],
                                       shape_text(tuple, false)));
  }
  return checked.expect_shape("result", checked.result(),
                              tuple.elements[static_cast<size_t>(index[0])]);
}

/// Operands against a callee's parameters, result against its root.
Status check_callee(const CheckedInstruction& checked,
                    std::string_view attribute) {
  const auto id = called_computation(checked.instruction, attribute);
  if (!id) {
    return checked.invalid(fmt::format(
        "{} needs {}=", opcode_name(checked.instruction.opcode), attribute));
  }
  const Computation& callee = checked.module.at(*id);
  const std::vector<const Instruction*> parameters = parameters_of(callee);
  if (parameters.size() != checked.operand_count()) {
    return checked.invalid(fmt::format("`{}` takes {} operands, found {}",
                                       callee.name, parameters.size(),
                                       checked.operand_count()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto same = checked.expect_shape(
        fmt::format("operand {}", i), checked.operand(i), parameters[i]->shape);
    if (!same) return same;
  }
  return checked.expect_shape("result", checked.result(),
                              callee.at(callee.root).shape);
}

Status check_while(const CheckedInstruction& checked) {
  const auto body = check_callee(checked, "body");
  if (!body) return body;
  const auto id = called_computation(checked.instruction, "condition");
  if (!id) return checked.invalid("while needs condition=");
  const Computation& condition = checked.module.at(*id);
  const std::vector<const Instruction*> parameters = parameters_of(condition);
  if (parameters.size() != 1 ||
      !same_dimensions(parameters[0]->shape, checked.operand(0))) {
    return checked.invalid(fmt::format(
        "condition `{}` does not take the loop's state", condition.name));
  }
  const Shape& root = condition.at(condition.root).shape;
  if (root.type != PrimitiveType::kPred || !root.dimensions.empty()) {
    return checked.invalid(
        fmt::format("condition `{}` gives {}, expected pred[]", condition.name,
                    shape_text(root, false)));
  }
  return checked.expect_shape("result", checked.result(), checked.operand(0));
}

/// A reduction's computation takes two values for each reduced array.
Status check_reducer(const CheckedInstruction& checked, size_t arrays) {
  const auto id = called_computation(checked.instruction);
  if (!id) {
    return checked.invalid(fmt::format(
        "{} needs to_apply=", opcode_name(checked.instruction.opcode)));
  }
  const Computation& reducer = checked.module.at(*id);
  const size_t parameters = parameters_of(reducer).size();
  if (parameters == 2 * arrays) return {};
  return checked.invalid(fmt::format("`{}` takes {} parameters, expected {}",
                                     reducer.name, parameters, 2 * arrays));
}

/// Operand i of a collective and its result: an element of the tuple, or the
/// only one.
Status check_collective_pair(const CheckedInstruction& checked, size_t i,
                             const Shape& result) {
  const Shape& operand = checked.operand(i);
  const Opcode opcode = checked.instruction.opcode;
  if (opcode != Opcode::kAllGather && opcode != Opcode::kReduceScatter) {
    return checked.expect_shape("result", result, operand);
  }
  // torch_xla threads scalars through its collectives as tokens.
  if (operand.dimensions.empty())
    return checked.expect_shape("result", result, operand);
  const std::vector<int64_t> dimension =
      integer_list(checked.instruction, "dimensions");
  const Shape& whole = opcode == Opcode::kAllGather ? result : operand;
  const Shape& part = opcode == Opcode::kAllGather ? operand : result;
  bool fits = whole.type == part.type &&
              whole.dimensions.size() == part.dimensions.size() &&
              dimension.size() == 1;
  for (size_t d = 0; fits && d < whole.dimensions.size(); ++d) {
    fits = static_cast<int64_t>(d) == dimension[0]
               ? part.dimensions[d] == 0 ||
                     whole.dimensions[d] % part.dimensions[d] == 0
               : whole.dimensions[d] == part.dimensions[d];
  }
  fits = fits && dimension[0] >= 0 &&
         dimension[0] < static_cast<int64_t>(whole.dimensions.size());
  if (fits) return {};
  return checked.invalid(
      fmt::format("{} of {} cannot give {}", opcode_name(opcode),
                  shape_text(operand, false), shape_text(result, false)));
}

Status check_collective(const CheckedInstruction& checked) {
  const auto groups = replica_groups(checked.instruction, 1);
  if (!groups) return tl::unexpected<Error>(groups.error());
  const bool is_tuple = checked.result().is_tuple();
  const size_t results = is_tuple ? checked.result().elements.size() : 1;
  const Opcode opcode = checked.instruction.opcode;
  if (opcode == Opcode::kAllToAll && !is_tuple) return {};
  if (results != checked.operand_count()) {
    return checked.invalid(fmt::format("{} has {} operands and {} results",
                                       opcode_name(opcode),
                                       checked.operand_count(), results));
  }
  for (size_t i = 0; i < results; ++i) {
    const Shape& result =
        is_tuple ? checked.result().elements[i] : checked.result();
    const auto same = check_collective_pair(checked, i, result);
    if (!same) return same;
  }
  if (opcode == Opcode::kAllReduce || opcode == Opcode::kReduceScatter) {
    return check_reducer(checked, 1);
  }
  return {};
}

Status check_sort(const CheckedInstruction& checked) {
  if (checked.operand_count() > 1) return check_tuple(checked);
  return checked.expect_shape("result", checked.result(), checked.operand(0));
}

}  // namespace

Status check_structured_operation(const CheckedInstruction& checked) {
  switch (checked.instruction.opcode) {
    case Opcode::kParameter:
      if (checked.instruction.parameter_number >= 0) return {};
      return checked.invalid("a parameter number is negative");
    case Opcode::kTuple:
      return check_tuple(checked);
    case Opcode::kGetTupleElement:
      return check_get_tuple_element(checked);
    case Opcode::kCall:
      return check_callee(checked, "to_apply");
    case Opcode::kFusion:
      return check_callee(checked, "calls");
    case Opcode::kWhile:
      return check_while(checked);
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
      if (checked.operand_count() % 2 != 0) {
        return checked.invalid(
            "a reduction needs one initial value for each array");
      }
      return check_reducer(checked, checked.operand_count() / 2);
    case Opcode::kAllGather:
    case Opcode::kAllReduce:
    case Opcode::kAllToAll:
    case Opcode::kReduceScatter:
      return check_collective(checked);
    case Opcode::kSort:
      return check_sort(checked);
    case Opcode::kCopy:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kOptimizationBarrier:
      if (checked.operand_count() != 1) return {};
      return checked.expect_shape("result", checked.result(),
                                  checked.operand(0));
    default:
      return {};
  }
}

}  // namespace reprise
