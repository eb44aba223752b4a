// Ops on the bits of elements, in shifts and masks that kernels have:
// bitcast-convert between widths, where one wide element is several narrow ones
// (the first the least significant), and reduce-precision by XLA's rounding
// (elemental_ir_emitter.cc: to nearest even, then out of range to infinity or
// zero).
#include "data/hlo/hlo.h"
#include "data/kernel/trace.h"

namespace reprise {
namespace {

PrimitiveType unsigned_of(int bits) {
  switch (bits) {
    case 8:
      return PrimitiveType::kU8;
    case 16:
      return PrimitiveType::kU16;
    case 32:
      return PrimitiveType::kU32;
    default:
      return PrimitiveType::kU64;
  }
}

/// Bits of exponent and mantissa.
struct FloatFormat {
  int exponent = 8, mantissa = 23;
};

FloatFormat format_of(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF64:
      return {11, 52};
    case PrimitiveType::kF16:
      return {5, 10};
    case PrimitiveType::kBF16:
      return {8, 7};
    default:
      return {8, 23};
  }
}

uint64_t low_bits(int count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

int bits_attribute(const Instruction& instruction, const char* name) {
  const std::vector<int64_t> bits = integer_list(instruction, name);
  return bits.size() == 1 && bits[0] >= 0 && bits[0] < 64
             ? static_cast<int>(bits[0])
             : -1;
}

}  // namespace

int32_t ElementTrace::bits_of(int32_t node, PrimitiveType type) {
  return nodes_[static_cast<size_t>(node)].value.type == type
             ? node
             : apply(Opcode::kBitcastConvert, type, node);
}

int32_t ElementTrace::total_order_key(int32_t node) {
  const PrimitiveType type = nodes_[static_cast<size_t>(node)].value.type;
  if (!is_computable(Opcode::kIsFinite, type)) return node;
  const int width = primitive_type_bits(type);
  const PrimitiveType word = width == 16   ? PrimitiveType::kS16
                             : width == 32 ? PrimitiveType::kS32
                                           : PrimitiveType::kS64;
  const int32_t bits = bits_of(node, word);
  const int32_t sign = apply(Opcode::kShiftRightArithmetic, word, bits,
                             literal(word, static_cast<uint64_t>(width - 1)));
  return apply(
      Opcode::kXor, word, bits,
      apply(Opcode::kAnd, word, sign, literal(word, low_bits(width - 1))));
}

int32_t ElementTrace::trace_bitcast_convert(const Instruction& bitcast,
                                            const IndexMap& map) {
  const Shape& from = operand_shape(group_, bitcast, 0);
  const PrimitiveType type = bitcast.shape.type;
  const int wide = primitive_type_bits(from.type),
            narrow = primitive_type_bits(type);
  if (wide == narrow) {
    return apply(Opcode::kBitcastConvert, type,
                 value(bitcast.operands[0], map));
  }
  if (wide > narrow) {
    const PrimitiveType word = unsigned_of(wide);
    const IndexMap whole(map.begin(), map.end() - 1);
    const int32_t bits = bits_of(value(bitcast.operands[0], whole), word);
    const int32_t by = index_node(word, indices_.scale(map.back(), narrow));
    const int32_t part =
        apply(Opcode::kConvert, unsigned_of(narrow),
              apply(Opcode::kShiftRightLogical, word, bits, by));
    return bits_of(part, type);
  }
  const PrimitiveType word = unsigned_of(narrow);
  int32_t result = -1;
  for (int64_t part = 0; part < narrow / wide; ++part) {
    IndexMap inner = map;
    inner.push_back(indices_.constant(part));
    const int32_t bits =
        apply(Opcode::kConvert, word,
              bits_of(value(bitcast.operands[0], inner), unsigned_of(wide)));
    const int32_t moved =
        apply(Opcode::kShiftLeft, word, bits,
              literal(word, static_cast<uint64_t>(part * wide)));
    result = result < 0 ? moved : apply(Opcode::kOr, word, result, moved);
  }
  return bits_of(result, type);
}

int32_t ElementTrace::trace_reduce_precision(const Instruction& reduce,
                                             const IndexMap& map) {
  const PrimitiveType type = reduce.shape.type;
  const FloatFormat from = format_of(type);
  const FloatFormat to{bits_attribute(reduce, "exponent_bits"),
                       bits_attribute(reduce, "mantissa_bits")};
  if (to.exponent < 1 || to.mantissa < 0) {
    fail_with(ErrorKind::kInvalid,
              reduce.name + ": malformed exponent_bits or mantissa_bits");
    return literal(type, 0);
  }
  const int32_t element = value(reduce.operands[0], map);
  const PrimitiveType word = unsigned_of(primitive_type_bits(type));
  const auto of = [&](uint64_t bits) { return literal(word, bits); };
  const auto both_of = [&](Opcode opcode, int32_t a, int32_t b) {
    return apply(opcode, word, a, b);
  };
  int32_t bits = bits_of(element, word);
  if (to.mantissa < from.mantissa) {
    const int dropped = from.mantissa - to.mantissa;
    const int32_t odd = both_of(Opcode::kAnd,
                                both_of(Opcode::kShiftRightLogical, bits,
                                        of(static_cast<uint64_t>(dropped))),
                                of(1));
    const int32_t bias = both_of(Opcode::kAdd, odd, of(low_bits(dropped - 1)));
    bits = both_of(Opcode::kAnd, both_of(Opcode::kAdd, bits, bias),
                   of(low_bits(primitive_type_bits(type)) ^ low_bits(dropped)));
  }
  if (to.exponent < from.exponent) {
    bits =
        clamp_exponent(bits, word, from.mantissa, from.exponent, to.exponent);
  }
  const int32_t rounded = bits_of(bits, type);
  const int32_t is_nan =
      apply(Opcode::kCompare, PrimitiveType::kPred, element, element, -1, "NE");
  // Without mantissa bits there is no NaN.
  const uint64_t infinity = low_bits(from.exponent) << from.mantissa;
  return apply(Opcode::kSelect, type, is_nan,
               to.mantissa > 0 ? element : literal(type, infinity), rounded);
}

int32_t ElementTrace::clamp_exponent(int32_t bits, PrimitiveType word,
                                     int mantissa, int from, int to) {
  const auto of = [&](uint64_t value) { return literal(word, value); };
  const uint64_t infinity = low_bits(from) << mantissa;
  const uint64_t sign = uint64_t{1} << (from + mantissa);
  const uint64_t bias = low_bits(from - 1), reach = low_bits(to - 1);
  const int32_t exponent = apply(Opcode::kAnd, word, bits, of(infinity));
  const int32_t zero = apply(Opcode::kAnd, word, bits, of(sign));
  const int32_t over = apply(Opcode::kCompare, PrimitiveType::kPred, exponent,
                             of((bias + reach) << mantissa), -1, "GT");
  const int32_t under = apply(Opcode::kCompare, PrimitiveType::kPred, exponent,
                              of((bias - reach) << mantissa), -1, "LE");
  bits = apply(Opcode::kSelect, word, over,
               apply(Opcode::kOr, word, zero, of(infinity)), bits);
  return apply(Opcode::kSelect, word, under, zero, bits);
}

}  // namespace reprise
