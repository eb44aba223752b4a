#include "data/hlo/complex_calls.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "data/hlo/combiner.h"
#include "data/hlo/declared_type.h"
#include "data/hlo/hlo.h"
#include "data/hlo/split_complex.h"

namespace reprise {
namespace {

/// A tuple's elements with parts side by side.
Shape split_shape(const Shape& shape) {
  if (!shape.is_tuple()) return part_shape(shape);
  Shape split = shape;
  split.elements.clear();
  for (const Shape& element : shape.elements) {
    split.elements.insert(split.elements.end(),
                          is_complex(element.type) ? 2 : 1,
                          split_shape(element));
  }
  return split;
}

/// One part of an array in which they lie in turn.
InstructionId part_of(InstructionId both, Shape whole, int64_t which,
                      ComplexOps* ops) {
  std::vector<SliceDimension> places;
  whole.dimensions.pop_back();
  for (const int64_t extent : whole.dimensions) places.push_back({0, extent});
  places.push_back({which, which + 1});
  Instruction flat, cut;
  flat.opcode = Opcode::kReshape;
  flat.shape = whole;
  cut.opcode = Opcode::kSlice;
  cut.shape = std::move(whole);
  cut.shape.dimensions.push_back(1);
  cut.operands = {both};
  cut.attributes = {slice_attribute(places)};
  flat.operands = {ops->append(std::move(cut))};
  return ops->append(std::move(flat));
}

/// Of the computations that the instruction calls.
void set_forms_of_callees(const Module& module, const Instruction& caller,
                          std::vector<ComplexForm>* forms) {
  const auto set = [&](std::string_view attribute, ComplexForm form) {
    const auto id = called_computation(caller, attribute);
    if (id) (*forms)[index_of(*id)] = form;
  };
  if (caller.opcode == Opcode::kSort) set("to_apply", ComplexForm::kComparator);
  for (const char* callee :
       {"body", "condition", "true_computation", "false_computation"})
    set(callee, ComplexForm::kTuple);
  const Attribute* branches = caller.find_attribute("branch_computations");
  const auto* ids =
      branches == nullptr
          ? nullptr
          : std::get_if<std::vector<ComputationId>>(&branches->value);
  for (size_t i = 0; ids != nullptr && i < ids->size(); ++i)
    (*forms)[index_of((*ids)[i])] = ComplexForm::kTuple;
  if (!combines_arrays(caller.opcode) || !has_complex(caller.shape)) return;
  const auto combined = combining_opcode(module, caller);
  if (combined == Opcode::kAdd || combined == Opcode::kParameter)
    set("to_apply", ComplexForm::kPart);
}

}  // namespace

bool combines_arrays(Opcode opcode) {
  return opcode == Opcode::kReduce || opcode == Opcode::kReduceWindow ||
         opcode == Opcode::kScatter || opcode == Opcode::kAllReduce ||
         opcode == Opcode::kReduceScatter;
}

std::vector<ComplexForm> complex_forms(const Module& module) {
  std::vector<ComplexForm> forms(module.computations.size(), ComplexForm::kTwo);
  for (const Computation& computation : module.computations) {
    for (const Instruction& caller : computation.instructions)
      set_forms_of_callees(module, caller, &forms);
  }
  forms[index_of(module.entry)] = ComplexForm::kEntry;
  return forms;
}

std::vector<int64_t> first_part_numbers(const Computation& computation,
                                        ComplexForm form) {
  std::vector<int64_t> first;
  int64_t next = 0;
  for (const Instruction* parameter : parameters_of(computation)) {
    const bool is_pair = is_complex(parameter->shape.type);
    const bool is_second = first.size() % 2 == 1;
    if (form == ComplexForm::kEntry || form == ComplexForm::kTuple) {
      first.push_back(next++);
    } else if (form == ComplexForm::kComparator && is_pair) {
      first.push_back(is_second ? next - 3 : next);
      next += is_second ? 0 : 4;
    } else {
      first.push_back(next);
      next += is_pair ? 2 : 1;
    }
  }
  return first;
}

Shape split_result_shape(const Shape& shape) {
  if (!is_complex(shape.type)) return split_shape(shape);
  Shape pair;
  pair.type = PrimitiveType::kTuple;
  pair.elements = {part_shape(shape), part_shape(shape)};
  return pair;
}

ComplexParts interleaved_parameter(const Instruction& parameter,
                                   std::vector<Instruction>* to) {
  ComplexOps ops(parameter, to);
  Instruction made = parameter;
  made.shape = Shape{};
  made.shape.type = part_type(parameter.shape.type);
  made.shape.dimensions = parameter.shape.dimensions;
  made.shape.dimensions.push_back(2);
  declare_type(parameter.shape, &made);
  const Shape whole = made.shape;
  const InstructionId both = ops.append(std::move(made));
  const InstructionId re = part_of(both, whole, 0, &ops);
  return {re, part_of(both, whole, 1, &ops)};
}

std::string_view name_before_split(const Instruction& instruction) {
  std::string_view name = instruction.name;
  for (const std::string_view part : {kRealPart, kImaginaryPart}) {
    if (name.ends_with(part)) name.remove_suffix(part.size());
  }
  return name;
}

}  // namespace reprise
