// Complex numbers as pairs of real arrays: functions of them as ops on these.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"
#include "data/hlo/module.h"

namespace reprise {

/// Behind the name of a complex instruction, in those of its parts.
inline constexpr std::string_view kRealPart = "/re", kImaginaryPart = "/im";

/// Real and imaginary part of a complex array.
struct ComplexParts {
  InstructionId re{}, im{};
};

/// Of an array, or of any array of a tuple.
bool has_complex(const Shape& shape);
/// The shape of either part: dimensions and layout are kept.
Shape part_shape(Shape shape);

/// The text of one part of a complex constant: `{(1,2),(3,4)}` -> `{1,3}`.
std::string part_literal(std::string_view literal, bool imaginary);

/// Appends the ops that one instruction of complex numbers becomes. Its
/// functions are those of C99's <complex.h>, each by a formula that neither
/// overflows nor cancels where the result does not; of infinities and NaN they
/// give some infinity or NaN. Source: W. Kahan, Branch cuts for complex
/// elementary functions, 1987; division scaled as in R. L. Smith, Algorithm
/// 116: Complex division, CACM 1962.
class ComplexOps : public AppendedOps {
 public:
  /// `to`: the computation's instructions so far; `origin`: what is replaced.
  ComplexOps(const Instruction& origin, std::vector<Instruction>* to);

  /// Of the parts' shape and type.
  InstructionId op(Opcode opcode, std::vector<InstructionId> operands) {
    return AppendedOps::op(opcode, std::move(operands), shape_);
  }
  InstructionId number(double value) {
    return AppendedOps::number(value, shape_);
  }
  InstructionId element(InstructionId tuple, size_t index);
  InstructionId tuple(std::vector<InstructionId> values);
  /// Both parts in one array, in turn along a last dimension.
  InstructionId interleaved(ComplexParts parts);

  /// An elementwise opcode of complex operands that gives complex numbers;
  /// nothing for one that has no formula here.
  std::optional<ComplexParts> apply(Opcode opcode,
                                    const std::vector<ComplexParts>& operands);
  InstructionId abs(ComplexParts z);
  /// EQ, or else NE.
  InstructionId compare_parts(bool equal, ComplexParts a, ComplexParts b);

 private:
  std::optional<ComplexParts> apply_unary(Opcode opcode, ComplexParts z);
  InstructionId add(InstructionId a, InstructionId b);
  InstructionId subtract(InstructionId a, InstructionId b);
  InstructionId multiply(InstructionId a, InstructionId b);
  InstructionId divide(InstructionId a, InstructionId b);
  InstructionId select(InstructionId which, InstructionId a, InstructionId b);
  InstructionId negate(InstructionId a) { return op(Opcode::kNegate, {a}); }
  ComplexParts each(Opcode opcode, ComplexParts a, ComplexParts b);
  ComplexParts product(ComplexParts a, ComplexParts b);
  ComplexParts quotient(ComplexParts a, ComplexParts b);
  ComplexParts exp(ComplexParts z);
  ComplexParts expm1(ComplexParts z);
  ComplexParts log(ComplexParts z);
  ComplexParts log1p(ComplexParts z);
  ComplexParts sqrt(ComplexParts z);
  ComplexParts rsqrt(ComplexParts z);
  ComplexParts cbrt(ComplexParts z);
  ComplexParts tanh(ComplexParts z);
  ComplexParts sign(ComplexParts z);
  ComplexParts power(ComplexParts z, ComplexParts w);
  InstructionId is_negative(InstructionId a);

  Shape shape_;  ///< Of parts.
};

}  // namespace reprise
