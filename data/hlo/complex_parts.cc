#include "data/hlo/complex_parts.h"

#include <algorithm>
#include <utility>

namespace reprise {

bool has_complex(const Shape& shape) {
  return is_complex(shape.type) ||
         std::any_of(shape.elements.begin(), shape.elements.end(), has_complex);
}

Shape part_shape(Shape shape) {
  shape.type = part_type(shape.type);
  return shape;
}

std::string part_literal(std::string_view literal, bool imaginary) {
  if (literal.starts_with('c'))  // Behind its shape.
    literal.remove_prefix(std::min(literal.find(' '), literal.size()));
  std::string part;
  bool in_pair = false, in_second = false;
  for (const char c : literal) {
    if (c == '(' || c == ')') {
      in_pair = c == '(';
      in_second = false;
    } else if (in_pair && c == ',') {
      in_second = true;
    } else if (!in_pair || (c != ' ' && in_second == imaginary)) {
      part.push_back(c);
    }
  }
  return part;
}

ComplexOps::ComplexOps(const Instruction& origin, std::vector<Instruction>* to)
    : AppendedOps(origin, 'c', to), shape_(part_shape(origin.shape)) {}

InstructionId ComplexOps::element(InstructionId tuple, size_t index) {
  Instruction element;
  element.opcode = Opcode::kGetTupleElement;
  element.shape = shape_of(tuple).elements[index];
  element.operands = {tuple};
  element.attributes = {
      {"index", std::vector<int64_t>{static_cast<int64_t>(index)}}};
  return append(std::move(element));
}

InstructionId ComplexOps::tuple(std::vector<InstructionId> values) {
  Instruction tuple;
  tuple.opcode = Opcode::kTuple;
  tuple.shape.type = PrimitiveType::kTuple;
  for (const InstructionId value : values)
    tuple.shape.elements.push_back(shape_of(value));
  tuple.operands = std::move(values);
  return append(std::move(tuple));
}

InstructionId ComplexOps::add(InstructionId a, InstructionId b) {
  return op(Opcode::kAdd, {a, b});
}
InstructionId ComplexOps::subtract(InstructionId a, InstructionId b) {
  return op(Opcode::kSubtract, {a, b});
}
InstructionId ComplexOps::multiply(InstructionId a, InstructionId b) {
  return op(Opcode::kMultiply, {a, b});
}
InstructionId ComplexOps::divide(InstructionId a, InstructionId b) {
  return op(Opcode::kDivide, {a, b});
}
InstructionId ComplexOps::select(InstructionId which, InstructionId a,
                                 InstructionId b) {
  return op(Opcode::kSelect, {which, a, b});
}

std::optional<ComplexParts> ComplexOps::apply(
    Opcode opcode, const std::vector<ComplexParts>& operands) {
  if (operands.size() == 1) return apply_unary(opcode, operands[0]);
  if (operands.size() != 2) return std::nullopt;
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
      return each(opcode, operands[0], operands[1]);
    case Opcode::kMultiply:
      return product(operands[0], operands[1]);
    case Opcode::kDivide:
      return quotient(operands[0], operands[1]);
    case Opcode::kPower:
      return power(operands[0], operands[1]);
    default:
      return std::nullopt;
  }
}

std::optional<ComplexParts> ComplexOps::apply_unary(Opcode opcode,
                                                    ComplexParts z) {
  const auto of = [&](Opcode function, InstructionId part) {
    return op(function, {part});
  };
  switch (opcode) {
    case Opcode::kNegate:
      return ComplexParts{negate(z.re), negate(z.im)};
    case Opcode::kExp:
      return exp(z);
    case Opcode::kExpm1:
      return expm1(z);
    case Opcode::kLog:
      return log(z);
    case Opcode::kLog1p:
      return log1p(z);
    case Opcode::kSqrt:
      return sqrt(z);
    case Opcode::kRsqrt:
      return rsqrt(z);
    case Opcode::kCbrt:
      return cbrt(z);
    case Opcode::kSign:
      return sign(z);
    case Opcode::kTanh:
      return tanh(z);
    case Opcode::kTan: {  // -i tanh(i z)
      const ComplexParts turned = tanh({negate(z.im), z.re});
      return ComplexParts{turned.im, negate(turned.re)};
    }
    case Opcode::kSine:
      return ComplexParts{
          multiply(of(Opcode::kSine, z.re), of(Opcode::kCosh, z.im)),
          multiply(of(Opcode::kCosine, z.re), of(Opcode::kSinh, z.im))};
    case Opcode::kCosine:
      return ComplexParts{
          multiply(of(Opcode::kCosine, z.re), of(Opcode::kCosh, z.im)),
          negate(multiply(of(Opcode::kSine, z.re), of(Opcode::kSinh, z.im)))};
    case Opcode::kSinh:
      return ComplexParts{
          multiply(of(Opcode::kSinh, z.re), of(Opcode::kCosine, z.im)),
          multiply(of(Opcode::kCosh, z.re), of(Opcode::kSine, z.im))};
    case Opcode::kCosh:
      return ComplexParts{
          multiply(of(Opcode::kCosh, z.re), of(Opcode::kCosine, z.im)),
          multiply(of(Opcode::kSinh, z.re), of(Opcode::kSine, z.im))};
    case Opcode::kLogistic: {
      const ComplexParts small = exp({negate(z.re), negate(z.im)});
      const InstructionId one = number(1);
      return quotient({one, number(0)}, {add(one, small.re), small.im});
    }
    default:
      return std::nullopt;
  }
}

ComplexParts ComplexOps::each(Opcode opcode, ComplexParts a, ComplexParts b) {
  return {op(opcode, {a.re, b.re}), op(opcode, {a.im, b.im})};
}

ComplexParts ComplexOps::product(ComplexParts a, ComplexParts b) {
  return {subtract(multiply(a.re, b.re), multiply(a.im, b.im)),
          add(multiply(a.re, b.im), multiply(a.im, b.re))};
}

/// Both scaled by the divisor's larger part; by zero, each part by zero.
ComplexParts ComplexOps::quotient(ComplexParts a, ComplexParts b) {
  const InstructionId scale = op(
      Opcode::kMaximum, {op(Opcode::kAbs, {b.re}), op(Opcode::kAbs, {b.im})});
  const ComplexParts unit{divide(b.re, scale), divide(b.im, scale)};
  const InstructionId square =
      add(multiply(unit.re, unit.re), multiply(unit.im, unit.im));
  const ComplexParts turned = product(a, {unit.re, negate(unit.im)});
  const InstructionId by_zero = compare("EQ", scale, number(0));
  const auto part = [&](InstructionId above, InstructionId whole) {
    return select(by_zero, divide(whole, scale),
                  divide(divide(above, square), scale));
  };
  return {part(turned.re, a.re), part(turned.im, a.im)};
}

/// max sqrt(1 + (min / max)^2); min where that is no number: of (0, 0), of
/// infinities, of NaN.
InstructionId ComplexOps::abs(ComplexParts z) {
  const InstructionId a = op(Opcode::kAbs, {z.re}),
                      b = op(Opcode::kAbs, {z.im});
  const InstructionId most = op(Opcode::kMaximum, {a, b});
  const InstructionId least = op(Opcode::kMinimum, {a, b});
  const InstructionId ratio = divide(least, most);
  const InstructionId found = multiply(
      most, op(Opcode::kSqrt, {add(number(1), multiply(ratio, ratio))}));
  return select(compare("EQ", found, found), found, least);
}

InstructionId ComplexOps::compare_parts(bool equal, ComplexParts a,
                                        ComplexParts b) {
  const std::string_view direction = equal ? "EQ" : "NE";
  const InstructionId re = compare(direction, a.re, b.re);
  const InstructionId im = compare(direction, a.im, b.im);
  Instruction both;
  both.opcode = equal ? Opcode::kAnd : Opcode::kOr;
  both.shape = shape_of(re);
  both.operands = {re, im};
  return append(std::move(both));
}

ComplexParts ComplexOps::exp(ComplexParts z) {
  const InstructionId size = op(Opcode::kExp, {z.re});
  return {multiply(size, op(Opcode::kCosine, {z.im})),
          multiply(size, op(Opcode::kSine, {z.im}))};
}

/// expm1(x) cos y - 2 sin(y / 2)^2.
ComplexParts ComplexOps::expm1(ComplexParts z) {
  const InstructionId half = op(Opcode::kSine, {multiply(z.im, number(0.5))});
  const InstructionId re = subtract(
      multiply(op(Opcode::kExpm1, {z.re}), op(Opcode::kCosine, {z.im})),
      multiply(number(2), multiply(half, half)));
  return {re, multiply(op(Opcode::kExp, {z.re}), op(Opcode::kSine, {z.im}))};
}

ComplexParts ComplexOps::log(ComplexParts z) {
  return {op(Opcode::kLog, {abs(z)}), op(Opcode::kAtan2, {z.im, z.re})};
}

/// Near 0 by log1p(x (x + 2) + y^2) / 2.
ComplexParts ComplexOps::log1p(ComplexParts z) {
  const InstructionId one = number(1), above = add(z.re, one);
  const InstructionId near = multiply(
      number(0.5), op(Opcode::kLog1p, {add(multiply(z.re, add(z.re, number(2))),
                                           multiply(z.im, z.im))}));
  const InstructionId is_near = compare("LT", abs(z), one);
  return {select(is_near, near, op(Opcode::kLog, {abs({above, z.im})})),
          op(Opcode::kAtan2, {z.im, above})};
}

/// Whether the sign bit is set, -0 included: it says on which side of a cut.
InstructionId ComplexOps::is_negative(InstructionId a) {
  const auto as_bits = [&](InstructionId from) {
    const InstructionId bits = op(Opcode::kBitcastConvert, {from});
    to_[index_of(bits)].shape.type = shape_.type == PrimitiveType::kF64
                                         ? PrimitiveType::kS64
                                         : PrimitiveType::kS32;
    return bits;
  };
  return compare("LT", as_bits(a), as_bits(number(0)));
}

/// t = sqrt((|z| + |x|) / 2) is one part, y / 2t the other.
ComplexParts ComplexOps::sqrt(ComplexParts z) {
  const InstructionId half = number(0.5), zero = number(0);
  const InstructionId large = op(
      Opcode::kSqrt,
      {add(multiply(half, abs(z)), multiply(half, op(Opcode::kAbs, {z.re})))});
  const InstructionId small =
      divide(multiply(half, op(Opcode::kAbs, {z.im})), large);
  const InstructionId other = select(compare("EQ", large, zero), zero, small);
  const InstructionId is_right = compare("GE", z.re, zero);
  const InstructionId im = select(is_right, other, large);
  return {select(is_right, large, other),
          select(is_negative(z.im), negate(im), im)};
}

/// The conjugate of the root, by the size.
ComplexParts ComplexOps::rsqrt(ComplexParts z) {
  const ComplexParts root = sqrt(z);
  const InstructionId size = abs(z);
  return {divide(root.re, size), divide(negate(root.im), size)};
}

ComplexParts ComplexOps::cbrt(ComplexParts z) {
  const InstructionId size = op(Opcode::kCbrt, {abs(z)});
  const InstructionId angle =
      divide(op(Opcode::kAtan2, {z.im, z.re}), number(3));
  return {multiply(size, op(Opcode::kCosine, {angle})),
          multiply(size, op(Opcode::kSine, {angle}))};
}

/// (sinh x cosh x + i sin y cos y) / (sinh(x)^2 + cos(y)^2). Beyond x = 40, of
/// which f32 holds the squares, the result is 1 to the last bit of f64.
ComplexParts ComplexOps::tanh(ComplexParts z) {
  const InstructionId x = op(Opcode::kClamp, {number(-40), z.re, number(40)});
  const InstructionId sinh = op(Opcode::kSinh, {x});
  const InstructionId cosine = op(Opcode::kCosine, {z.im});
  const InstructionId below =
      add(multiply(sinh, sinh), multiply(cosine, cosine));
  return {divide(multiply(sinh, op(Opcode::kCosh, {x})), below),
          divide(multiply(op(Opcode::kSine, {z.im}), cosine), below)};
}

ComplexParts ComplexOps::sign(ComplexParts z) {
  const InstructionId size = abs(z);
  const InstructionId is_zero = compare("EQ", size, number(0));
  return {select(is_zero, z.re, divide(z.re, size)),
          select(is_zero, z.im, divide(z.im, size))};
}

/// exp(w log z); of 0, 1 to the power 0 and else 0 where Re w > 0.
ComplexParts ComplexOps::power(ComplexParts z, ComplexParts w) {
  const InstructionId zero = number(0), one = number(1);
  const ComplexParts usual = exp(product(w, log(z)));
  const InstructionId of_zero = compare("EQ", abs(z), zero);
  const InstructionId to_zero = compare("EQ", abs(w), zero);
  const InstructionId upward = compare("GT", w.re, zero);
  const auto part = [&](InstructionId value, InstructionId to_0) {
    return select(to_zero, to_0,
                  select(of_zero, select(upward, zero, value), value));
  };
  return {part(usual.re, one), part(usual.im, zero)};
}

InstructionId ComplexOps::interleaved(ComplexParts parts) {
  const auto last = [&](InstructionId part) {
    Instruction column;
    column.opcode = Opcode::kReshape;
    column.shape.type = shape_of(part).type;
    column.shape.dimensions = shape_of(part).dimensions;
    column.shape.dimensions.push_back(1);
    column.operands = {part};
    return append(std::move(column));
  };
  Instruction both;
  both.opcode = Opcode::kConcatenate;
  both.operands = {last(parts.re), last(parts.im)};
  both.shape = shape_of(both.operands[0]);
  const auto dimension = static_cast<int64_t>(both.shape.dimensions.size()) - 1;
  both.shape.dimensions.back() = 2;
  both.attributes = {{"dimensions", std::vector<int64_t>{dimension}}};
  return append(std::move(both));
}

}  // namespace reprise
