// One spelling of scalars for all printers. Literals are bits, never decimal
// text; an op whose type is narrower than its local (bf16, f16) is rounded at
// once. Index arithmetic is done in int where every partial sum fits, else in
// 64 bits.
#include "runtime/kernels/print_expression.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace reprise {
namespace {

const char* comparison_text(const char* direction) {
  const std::string_view text(direction, 2);
  if (text == "EQ") return "==";
  if (text == "NE") return "!=";
  if (text == "LT") return "<";
  if (text == "LE") return "<=";
  return text == "GT" ? ">" : ">=";
}

bool fits_int(const Kernel& kernel) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  for (const IndexExpression& expression : kernel.indices.expressions()) {
    if (expression.low < -kLimit || expression.high > kLimit) return false;
    int64_t size = std::abs(expression.constant);
    for (const IndexTerm& term : expression.terms) {
      const IndexAtom& inner = kernel.indices.atom(term.atom);
      size += std::abs(term.coefficient) *
              std::max(std::abs(inner.low), std::abs(inner.high));
    }
    if (size > kLimit) return false;
  }
  for (const KernelLoop& loop : kernel.loops) {
    if (loop.extent > kLimit) return false;
  }
  return true;
}

}  // namespace

TypeNames names_of(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
      return {"unsigned char", "bool", "(bool)", "(unsigned char)", "pred"};
    case PrimitiveType::kS8:
      return {"signed char", "signed char", "", "", "s8"};
    case PrimitiveType::kS16:
      return {"short", "short", "", "", "s16"};
    case PrimitiveType::kS32:
      return {"int", "int", "", "", "s32"};
    case PrimitiveType::kS64:
      return {"rk_s64", "rk_s64", "", "", "s64"};
    case PrimitiveType::kU8:
      return {"unsigned char", "unsigned char", "", "", "u8"};
    case PrimitiveType::kU16:
      return {"unsigned short", "unsigned short", "", "", "u16"};
    case PrimitiveType::kU32:
      return {"unsigned", "unsigned", "", "", "u32"};
    case PrimitiveType::kU64:
      return {"rk_u64", "rk_u64", "", "", "u64"};
    case PrimitiveType::kBF16:
      return {"unsigned short", "float", "rk_load_bf16", "rk_store_bf16",
              "f32"};
    case PrimitiveType::kF16:
      return {"unsigned short", "float", "rk_load_f16", "rk_store_f16", "f32"};
    case PrimitiveType::kF64:
      return {"double", "double", "", "", "f64"};
    default:
      return {"float", "float", "", "", "f32"};
  }
}

std::string literal_text(PrimitiveType type, uint64_t bits) {
  switch (type) {
    case PrimitiveType::kF32:
      return fmt::format("rk_float_of({:#x}u)", bits);
    case PrimitiveType::kF64:
      return fmt::format("rk_double_of({:#x}ull)", bits);
    case PrimitiveType::kBF16:
    case PrimitiveType::kF16:
      return fmt::format("{}((unsigned short){:#x})", names_of(type).load,
                         bits);
    default:
      return fmt::format("({}){:#x}ull", names_of(type).local, bits);
  }
}

std::string rounded(PrimitiveType type, std::string text) {
  if (type == PrimitiveType::kBF16) return "rk_round_bf16(" + text + ")";
  if (type == PrimitiveType::kF16) return "rk_round_f16(" + text + ")";
  return text;
}

ExpressionPrinter::ExpressionPrinter(const Kernel& kernel)
    : wide_loops(kernel.loops.size(), false),
      wide_values(kernel.values.size(), false),
      kernel_(kernel),
      index_type_(fits_int(kernel) ? "int" : "rk_s64") {}

std::string ExpressionPrinter::loop(int32_t id) const {
  return fmt::format("i{}{}", id,
                     wide_loops[static_cast<size_t>(id)] ? "[u]" : "");
}

std::string ExpressionPrinter::name(int32_t value) const {
  return fmt::format("v{}{}", value,
                     wide_values[static_cast<size_t>(value)] ? "[u]" : "");
}

std::string ExpressionPrinter::atom(const IndexAtom& atom) const {
  switch (atom.kind) {
    case IndexAtom::Kind::kLoop:
      return loop(atom.operand);
    case IndexAtom::Kind::kValue:
      return fmt::format("({})rk_clamp<rk_s64>({}, (rk_s64){}, {})",
                         index_type_, atom.low, name(atom.operand), atom.high);
    case IndexAtom::Kind::kFloorDiv:
      // Never negative, which the compiler does not know: a signed division
      // would be several instructions, a shift or a mask is one.
      if (std::has_single_bit(static_cast<uint64_t>(atom.divisor))) {
        return fmt::format(
            "({}) >> {}", index(atom.operand),
            std::countr_zero(static_cast<uint64_t>(atom.divisor)));
      }
      return fmt::format("({}) / {}", index(atom.operand), atom.divisor);
    case IndexAtom::Kind::kMod:
      if (std::has_single_bit(static_cast<uint64_t>(atom.divisor)))
        return fmt::format("({}) & {}", index(atom.operand), atom.divisor - 1);
      return fmt::format("({}) % {}", index(atom.operand), atom.divisor);
    case IndexAtom::Kind::kClamp:
      return fmt::format("rk_clamp<{}>({}, {}, {})", index_type_, atom.low,
                         index(atom.operand), atom.high);
  }
  return {};
}

std::string ExpressionPrinter::index(int32_t expression) const {
  const IndexExpression& sum = kernel_.indices.at(expression);
  std::string text = fmt::format("{}", sum.constant);
  for (const IndexTerm& term : sum.terms) {
    text += fmt::format(" + {} * ({})", term.coefficient,
                        atom(kernel_.indices.atom(term.atom)));
  }
  return text;
}

std::string ExpressionPrinter::apply(const KernelValue& value) const {
  const auto operand = [this, &value](int i) {
    return name(value.operands[i]);
  };
  const TypeNames names = names_of(value.type);
  switch (value.opcode) {
    case Opcode::kCompare:
      return fmt::format("{} {} {}", operand(0),
                         comparison_text(value.comparison), operand(1));
    case Opcode::kSelect:
      return fmt::format("{} ? {} : {}", operand(0), operand(1), operand(2));
    case Opcode::kConvert:
      return rounded(value.type,
                     fmt::format("rk_to_{}({})", names.suffix, operand(0)));
    case Opcode::kBitcastConvert: {
      const PrimitiveType from =
          kernel_.values[static_cast<size_t>(value.operands[0])].type;
      const TypeNames source = names_of(from);
      const std::string bits = fmt::format("{}({})", source.store, operand(0));
      return fmt::format("{}(__builtin_bit_cast({}, ({}){}))", names.load,
                         names.memory, source.memory, bits);
    }
    default:
      break;
  }
  std::string text = std::string(facts_of(value.opcode).function) + "(";
  for (int i = 0; i < 3 && value.operands[i] >= 0; ++i) {
    text += (i > 0 ? ", " : "") + operand(i);
  }
  return rounded(value.type, text + ")");
}

std::string ExpressionPrinter::load(const KernelValue& value) const {
  return fmt::format("{}(a{}[{}])", names_of(value.type).load, value.source,
                     index(value.index));
}

std::string combined(Opcode combine, PrimitiveType type, const std::string& old,
                     const std::string& added) {
  return rounded(
      type, fmt::format("{}({}, {})", facts_of(combine).function, old, added));
}

}  // namespace reprise
