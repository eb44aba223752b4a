// Each computation is built anew. What its instructions gave stands in a map:
// one value, or the two parts of a complex array. In tuples the parts take two
// places side by side. A computation that is called takes parts in the form
// that its caller can pass: two parameters, or one tuple (loops and branches),
// or in turn for both elements (comparators of sorts); one that adds two
// complex numbers is called for either part, and adds two real ones.
#include "data/hlo/split_complex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/hlo/complex_calls.h"
#include "data/hlo/complex_parts.h"
#include "data/hlo/matrix_operation.h"

namespace reprise {
namespace {

/// What an instruction became.
struct Value {
  InstructionId re{};
  std::optional<InstructionId> im;
};

/// Moves elements, whatever they are: the same of either part.
bool moves(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAllGather:
    case Opcode::kAllToAll:
    case Opcode::kBitcast:
    case Opcode::kBroadcast:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCollectivePermute:
    case Opcode::kConcatenate:
    case Opcode::kConvert:
    case Opcode::kCopy:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGather:
    case Opcode::kOptimizationBarrier:
    case Opcode::kPad:
    case Opcode::kReshape:
    case Opcode::kReverse:
    case Opcode::kSelect:
    case Opcode::kSlice:
    case Opcode::kTranspose:
      return true;
    default:
      return false;
  }
}

/// One computation, built anew.
class Splitter {
 public:
  Splitter(const Computation& from, ComplexForm form,
           const std::vector<ComplexForm>& forms)
      : from_(from),
        form_(form),
        forms_(forms),
        numbers_(first_part_numbers(from, form)) {}

  Computation run() {
    Computation split = from_;
    if (form_ == ComplexForm::kPart) {
      for (Instruction& instruction : split.instructions)
        instruction.shape = part_shape(instruction.shape);
      return split;
    }
    for (const Instruction& instruction : from_.instructions) {
      const bool gives_complex = form_ == ComplexForm::kEntry &&
                                 instruction.opcode == Opcode::kTuple &&
                                 has_complex(instruction.shape) &&
                                 &instruction == &from_.at(from_.root);
      values_.push_back(gives_complex ? results(instruction)
                                      : convert(instruction));
    }
    Value root = values_[index_of(from_.root)];
    if (root.im) {
      ComplexOps ops(from_.at(from_.root), &to_);
      root.re = form_ == ComplexForm::kEntry
                    ? ops.interleaved({root.re, *root.im})
                    : ops.tuple({root.re, *root.im});
    }
    split.root = root.re;
    split.instructions = std::move(to_);
    return split;
  }

 private:
  [[nodiscard]] const Shape& shape_of(InstructionId id) const {
    return from_.at(id).shape;
  }
  [[nodiscard]] const Value& value(const Instruction& instruction,
                                   size_t operand) const {
    return values_[index_of(instruction.operands[operand])];
  }
  [[nodiscard]] bool takes_complex(const Instruction& instruction) const {
    return std::any_of(
        instruction.operands.begin(), instruction.operands.end(),
        [&](InstructionId id) { return has_complex(shape_of(id)); });
  }
  [[nodiscard]] std::optional<ComplexForm> form_of_callee(
      const Instruction& caller) const {
    const auto id = called_computation(caller);
    return id ? std::optional(forms_[index_of(*id)]) : std::nullopt;
  }

  Value convert(const Instruction& instruction);
  Value convert_complex(const Instruction& instruction);
  Value parameter(const Instruction& instruction);
  Value constant(const Instruction& instruction);
  Value element_of(const Instruction& get);
  Value converted_type(const Instruction& instruction, ComplexOps* ops);
  Value function(const Instruction& instruction);
  Value by_part(const Instruction& instruction);
  Value combined_among_ranks(const Instruction& instruction);
  Value product(const Instruction& instruction);
  Value spliced(const Instruction& instruction);
  Value around_tuples(const Instruction& instruction);
  Value results(const Instruction& root);
  Value without_parts(const Instruction& instruction);
  Value parted(const Instruction& instruction, InstructionId made,
               ComplexOps* ops);
  Value copy(Instruction instruction);

  const Computation& from_;
  const ComplexForm form_;
  const std::vector<ComplexForm>& forms_;
  std::vector<Instruction> to_;
  std::vector<Value> values_;  ///< By instruction of `from_`.
  const std::vector<int64_t> numbers_;
};

/// As it stands, its references renumbered.
Value Splitter::copy(Instruction instruction) {
  for (InstructionId& operand : instruction.operands)
    operand = values_[index_of(operand)].re;
  for (Attribute& attribute : instruction.attributes) {
    auto* ids = std::get_if<std::vector<InstructionId>>(&attribute.value);
    for (size_t i = 0; ids != nullptr && i < ids->size(); ++i)
      (*ids)[i] = values_[index_of((*ids)[i])].re;
  }
  to_.push_back(std::move(instruction));
  return {InstructionId{static_cast<uint32_t>(to_.size() - 1)}, {}};
}

Value Splitter::convert(const Instruction& instruction) {
  if (instruction.opcode == Opcode::kParameter) return parameter(instruction);
  if (instruction.opcode == Opcode::kGetTupleElement)
    return element_of(instruction);
  if (!has_complex(instruction.shape) && !takes_complex(instruction))
    return copy(instruction);
  return convert_complex(instruction);
}

Value Splitter::convert_complex(const Instruction& instruction) {
  const Opcode opcode = instruction.opcode;
  ComplexOps ops(instruction, &to_);
  switch (opcode) {
    case Opcode::kConstant:
      return constant(instruction);
    case Opcode::kIota: {
      Instruction real = instruction;
      real.shape = part_shape(real.shape);
      return {ops.append(std::move(real)), ops.number(0)};
    }
    case Opcode::kComplex:
      return {value(instruction, 0).re, value(instruction, 1).re};
    case Opcode::kReal:
    case Opcode::kImag: {
      const Value& from = value(instruction, 0);
      if (!from.im) return without_parts(instruction);
      return {opcode == Opcode::kReal ? from.re : *from.im, {}};
    }
    case Opcode::kTuple:
    case Opcode::kSort:
    case Opcode::kCall:
    case Opcode::kFusion:
    case Opcode::kFft:
      return spliced(instruction);
    case Opcode::kAllReduce:
    case Opcode::kReduceScatter:
      return combined_among_ranks(instruction);
    case Opcode::kWhile:
    case Opcode::kConditional:
      return around_tuples(instruction);
    case Opcode::kDot:
    case Opcode::kConvolution:
      return product(instruction);
    case Opcode::kConvert:
      return converted_type(instruction, &ops);
    case Opcode::kCustomCall:
      return matrix_operation(instruction).kind != MatrixKind::kNone
                 ? spliced(instruction)
                 : without_parts(instruction);
    default:
      break;
  }
  if (combines_arrays(opcode)) {
    return form_of_callee(instruction) == ComplexForm::kPart &&
                   instruction.shape.is_array()
               ? by_part(instruction)
               : spliced(instruction);
  }
  if (moves(opcode)) {
    return instruction.shape.is_array() ? by_part(instruction)
                                        : spliced(instruction);
  }
  return function(instruction);
}

Value Splitter::parameter(const Instruction& instruction) {
  Instruction made = instruction;
  ComplexOps ops(instruction, &to_);
  made.parameter_number =
      numbers_[static_cast<size_t>(instruction.parameter_number)];
  if (!is_complex(instruction.shape.type)) {
    made.shape = split_result_shape(made.shape);
    return {ops.append(std::move(made)), {}};
  }
  if (form_ == ComplexForm::kEntry) {
    const ComplexParts parts = interleaved_parameter(instruction, &to_);
    return {parts.re, parts.im};
  }
  if (form_ == ComplexForm::kTuple) {
    made.shape = split_result_shape(instruction.shape);
    return parted(instruction, ops.append(std::move(made)), &ops);
  }
  made.shape = part_shape(made.shape);
  Instruction second = made;
  second.parameter_number += form_ == ComplexForm::kComparator ? 2 : 1;
  made.name += kRealPart;
  second.name += kImaginaryPart;
  const InstructionId re = ops.append(std::move(made));
  return {re, ops.append(std::move(second))};
}

Value Splitter::constant(const Instruction& instruction) {
  ComplexOps ops(instruction, &to_);
  const auto part = [&](bool imaginary) {
    Instruction real = instruction;
    real.name += imaginary ? kImaginaryPart : kRealPart;
    real.shape = part_shape(real.shape);
    real.literal = part_literal(instruction.literal, imaginary);
    return ops.append(std::move(real));
  };
  const InstructionId re = part(false);
  return {re, part(true)};
}

/// An element's place behind the parts of those before it.
Value Splitter::element_of(const Instruction& get) {
  const Shape& tuple = shape_of(get.operands[0]);
  if (!has_complex(tuple)) return copy(get);
  const std::vector<int64_t> index = integer_list(get, "index");
  size_t place = index.empty() ? 0 : static_cast<size_t>(index[0]);
  const Value& from = value(get, 0);
  ComplexOps ops(get, &to_);
  for (size_t i = 0, last = place; i < last; ++i)
    place += is_complex(tuple.elements[i].type) ? 1 : 0;
  const InstructionId re = ops.element(from.re, place);
  if (!is_complex(get.shape.type)) return {re, {}};
  return {re, ops.element(from.re, place + 1)};
}

Value Splitter::converted_type(const Instruction& instruction,
                               ComplexOps* ops) {
  if (!is_complex(instruction.shape.type)) {  // Leaves the imaginary part.
    Instruction real = instruction;
    real.operands = {value(instruction, 0).re};
    return {ops->append(std::move(real)), {}};
  }
  if (value(instruction, 0).im) return by_part(instruction);
  const InstructionId re =
      ops->op(Opcode::kConvert, {value(instruction, 0).re});
  return {re, ops->number(0)};
}

Value Splitter::function(const Instruction& instruction) {
  std::vector<ComplexParts> parts;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const Value& operand = value(instruction, i);
    if (!operand.im) return without_parts(instruction);
    parts.push_back({operand.re, *operand.im});
  }
  ComplexOps ops(instruction, &to_);
  if (instruction.opcode == Opcode::kAbs && parts.size() == 1)
    return {ops.abs(parts[0]), {}};
  if (instruction.opcode == Opcode::kCompare && parts.size() == 2) {
    const Attribute* found = instruction.find_attribute("direction");
    const auto* raw =
        found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
    const std::string direction = raw == nullptr ? "" : raw->text;
    if (direction == "EQ" || direction == "NE")
      return {ops.compare_parts(direction == "EQ", parts[0], parts[1]), {}};
  }
  const auto found = is_complex(instruction.shape.type)
                         ? ops.apply(instruction.opcode, parts)
                         : std::nullopt;
  if (!found) return without_parts(instruction);
  return {found->re, found->im};
}

/// The instruction of the real parts, and again of the imaginary ones.
Value Splitter::by_part(const Instruction& instruction) {
  ComplexOps ops(instruction, &to_);
  const auto part = [&](bool imaginary) {
    Instruction real = instruction;
    real.name += imaginary ? kImaginaryPart : kRealPart;
    real.shape = part_shape(real.shape);
    for (size_t i = 0; i < real.operands.size(); ++i) {
      const Value& operand = value(instruction, i);
      real.operands[i] =
          imaginary ? operand.im.value_or(operand.re) : operand.re;
    }
    std::erase_if(real.attributes, [](const Attribute& attribute) {
      return attribute.name == "control-predecessors";
    });
    return ops.append(std::move(real));
  };
  const InstructionId re = part(false);
  return {re, part(true)};
}

/// A sum, which stays one collective where it can; a computation that takes
/// both parts of both sides has no collective.
Value Splitter::combined_among_ranks(const Instruction& instruction) {
  if (form_of_callee(instruction) != ComplexForm::kPart)
    return without_parts(instruction);
  return instruction.opcode == Opcode::kReduceScatter &&
                 instruction.shape.is_array()
             ? by_part(instruction)
             : spliced(instruction);
}

/// (a + b i) (c + d i) by four products, as XLA's.
Value Splitter::product(const Instruction& instruction) {
  const Value &x = value(instruction, 0), &y = value(instruction, 1);
  if (!x.im || !y.im) return without_parts(instruction);
  ComplexOps ops(instruction, &to_);
  int count = 0;
  const auto times = [&](InstructionId a, InstructionId b) {
    Instruction real = instruction;
    real.name += fmt::format("/p{}", ++count);
    real.shape = part_shape(real.shape);
    real.operands = {a, b};
    return ops.append(std::move(real));
  };
  const InstructionId re =
      ops.op(Opcode::kSubtract, {times(x.re, y.re), times(*x.im, *y.im)});
  return {re, ops.op(Opcode::kAdd, {times(x.re, *y.im), times(*x.im, y.re)})};
}

/// Parts side by side as operands, and in the result.
Value Splitter::spliced(const Instruction& instruction) {
  Instruction made = instruction;
  made.operands.clear();
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const Value& operand = value(instruction, i);
    made.operands.push_back(operand.re);
    if (operand.im) made.operands.push_back(*operand.im);
  }
  made.shape = split_result_shape(made.shape);
  ComplexOps ops(instruction, &to_);
  return parted(instruction, ops.append(std::move(made)), &ops);
}

/// A loop or a conditional, whose callees take one value each.
Value Splitter::around_tuples(const Instruction& instruction) {
  ComplexOps ops(instruction, &to_);
  Instruction made = instruction;
  for (size_t i = 0; i < made.operands.size(); ++i) {
    const Value& operand = value(instruction, i);
    made.operands[i] =
        operand.im ? ops.tuple({operand.re, *operand.im}) : operand.re;
  }
  made.shape = split_result_shape(made.shape);
  return parted(instruction, ops.append(std::move(made)), &ops);
}

/// What an instruction made in place of another is to its readers.
Value Splitter::parted(const Instruction& instruction, InstructionId made,
                       ComplexOps* ops) {
  if (!is_complex(instruction.shape.type)) return {made, {}};
  if (to_[index_of(made)].shape.is_tuple()) {
    const InstructionId re = ops->element(made, 0);
    return {re, ops->element(made, 1)};
  }
  const InstructionId re = ops->op(Opcode::kReal, {made});
  return {re, ops->op(Opcode::kImag, {made})};
}

/// A custom call in place of what has no form in parts: `complex OPCODE`, for
/// lowering to refuse by its name and place.
Value Splitter::without_parts(const Instruction& instruction) {
  const std::string target = custom_call_target(instruction);
  Instruction call = instruction;
  call.opcode = Opcode::kCustomCall;
  call.opcode_text.clear();
  std::erase_if(call.attributes, [](const Attribute& attribute) {
    return attribute.name != "metadata";
  });
  call.attributes.push_back(
      {"custom_call_target",
       RawText{fmt::format("\"{}{}\"", kComplexCall,
                           target.empty() ? opcode_name(instruction.opcode)
                                          : std::string_view(target))}});
  return spliced(call);
}

/// The entry's results, each complex one with its parts interleaved.
Value Splitter::results(const Instruction& root) {
  ComplexOps ops(root, &to_);
  Instruction made = root;
  for (size_t i = 0; i < root.operands.size(); ++i) {
    const Value& operand = value(root, i);
    made.operands[i] =
        operand.im ? ops.interleaved({operand.re, *operand.im}) : operand.re;
    made.shape.elements[i] = to_[index_of(made.operands[i])].shape;
  }
  return {ops.append(std::move(made)), {}};
}

}  // namespace

bool uses_complex(const Module& module) {
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      if (has_complex(instruction.shape)) return true;
    }
  }
  return false;
}

Module split_complex(const Module& module) {
  const std::vector<ComplexForm> forms = complex_forms(module);
  Module split = module;
  for (size_t i = 0; i < forms.size(); ++i)
    split.computations[i] =
        Splitter(module.computations[i], forms[i], forms).run();
  std::erase_if(split.attributes, [](const Attribute& attribute) {
    return attribute.name == "entry_computation_layout";
  });
  return split;
}

}  // namespace reprise
