#include "data/kernel/kernel_flops.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

/// Elements that a loop computes at once where it makes vectors.
constexpr double kVectorElements = 8;
/// Starting a loop inside of another.
constexpr double kLoopStart = 16;
constexpr double kClamp = 2, kShift = 1, kQuotient = 4;

/// Whether a library is called for each element (the end of
/// prelude_functions_f64.inc).
bool is_called(const KernelValue& value) {
  if (value.kind != KernelValue::Kind::kApply ||
      value.type != PrimitiveType::kF64)
    return false;
  switch (value.opcode) {
    case Opcode::kAcos:
    case Opcode::kAsin:
    case Opcode::kAtan:
    case Opcode::kAtan2:
    case Opcode::kCbrt:
    case Opcode::kCosine:
    case Opcode::kErf:
    case Opcode::kPower:
    case Opcode::kRemainder:
    case Opcode::kSine:
    case Opcode::kTan:
      return true;
    default:
      return false;
  }
}

class OperationCount {
 public:
  explicit OperationCount(const Kernel& kernel)
      : kernel_(kernel),
        indices_(kernel.indices),
        seen_in_(indices_.expressions().size(), -1),
        made_in_(kernel.values.size(), -1) {
    find_lets(kernel.body, -1);
  }

  double of_block(const std::vector<KernelStatement>& block, int32_t loop,
                  bool in_vectors) {
    const double each = loop < 0 || in_vectors ? 1 : kVectorElements;
    double count = 0;
    for (const KernelStatement& statement : block) {
      if (statement.kind == Kind::kLoop) {
        if (loop >= 0) count += kLoopStart;
        count += static_cast<double>(loop_of(statement).extent) *
                 of_block(statement.body, statement.target,
                          makes_vectors(statement));
        continue;
      }
      count += each * (own(statement) + of_index(index_of(statement), loop));
      if (loop >= 0 && touches_memory(statement) &&
          (!in_vectors || !is_beside_last(index_of(statement), loop)))
        count += kVectorElements;
    }
    return count;
  }

 private:
  void find_lets(const std::vector<KernelStatement>& block, int32_t loop) {
    for (const KernelStatement& statement : block) {
      if (statement.kind == Kind::kLet)
        made_in_[static_cast<size_t>(statement.value)] = loop;
      find_lets(statement.body,
                statement.kind == Kind::kLoop ? statement.target : loop);
    }
  }

  const KernelLoop& loop_of(const KernelStatement& loop) const {
    return kernel_.loops[static_cast<size_t>(loop.target)];
  }
  const KernelValue& value_of(const KernelStatement& let) const {
    return kernel_.values[static_cast<size_t>(let.value)];
  }

  /// Whether host compilers make vectors of a loop.
  bool makes_vectors(const KernelStatement& loop) const {
    bool in_order = !loop_of(loop).independent;
    for (const KernelStatement& inner : loop.body) {
      if (inner.kind == Kind::kLoop ||
          (inner.kind == Kind::kLet && is_called(value_of(inner))) ||
          (inner.kind == Kind::kStore && contains_value(indices_, inner.index)))
        return false;
      if (inner.kind == Kind::kAccumulate) in_order = false;  // By lanes.
    }
    return !in_order &&
           static_cast<double>(loop_of(loop).extent) >= kVectorElements;
  }

  /// Of a statement, without where it stands.
  double own(const KernelStatement& statement) const {
    switch (statement.kind) {
      case Kind::kLet: {
        const KernelValue& let = value_of(statement);
        if (let.kind == KernelValue::Kind::kTotal) return kLanes;
        return let.kind == KernelValue::Kind::kApply
                   ? facts_of(let.opcode).weight
                   : 0;
      }
      case Kind::kReset:
        return kLanes;
      case Kind::kAccumulate:
        return 1;
      case Kind::kStore:
        return statement.combine == Opcode::kParameter ? 0 : 1;
      default:
        return 0;
    }
  }

  int32_t index_of(const KernelStatement& statement) const {
    return statement.kind == Kind::kLet ? value_of(statement).index
                                        : statement.index;
  }
  bool touches_memory(const KernelStatement& statement) const {
    return statement.kind == Kind::kStore ||
           (statement.kind == Kind::kLet &&
            value_of(statement).kind == KernelValue::Kind::kLoad);
  }

  /// A clamp of the loop's own variable.
  bool is_border(const IndexAtom& atom, int32_t loop) const {
    if (atom.kind != IndexAtom::Kind::kClamp) return false;
    const std::vector<IndexTerm>& terms = indices_.at(atom.operand).terms;
    return terms.size() == 1 && terms[0].coefficient == 1 &&
           is_variable(indices_.atom(terms[0].atom), loop);
  }
  static bool is_variable(const IndexAtom& atom, int32_t loop) {
    return atom.kind == IndexAtom::Kind::kLoop && atom.operand == loop;
  }

  bool changes_along(int32_t expression, int32_t loop) const {
    return std::ranges::any_of(
        indices_.at(expression).terms, [&](const IndexTerm& term) {
          const IndexAtom& atom = indices_.atom(term.atom);
          return is_variable(atom, loop) || computes_along(atom, loop);
        });
  }
  /// Whether an atom is arithmetic that changes along a loop.
  bool computes_along(const IndexAtom& atom, int32_t loop) const {
    if (atom.kind == IndexAtom::Kind::kLoop) return false;
    if (atom.kind == IndexAtom::Kind::kValue)
      return made_in_[static_cast<size_t>(atom.operand)] == loop;
    return changes_along(atom.operand, loop);
  }

  /// Index arithmetic of an expression that changes along a loop, once for all
  /// who ask in the same loop.
  double of_index(int32_t expression, int32_t loop) {
    if (expression < 0 || loop < 0) return 0;
    int32_t& seen = seen_in_[static_cast<size_t>(expression)];
    if (seen == loop) return 0;
    seen = loop;
    double count = 0;
    for (const IndexTerm& term : indices_.at(expression).terms) {
      const IndexAtom& atom = indices_.atom(term.atom);
      if (!computes_along(atom, loop) || is_border(atom, loop)) continue;
      const bool is_clamp = atom.kind == IndexAtom::Kind::kClamp ||
                            atom.kind == IndexAtom::Kind::kValue;
      const bool is_shift =
          std::has_single_bit(static_cast<uint64_t>(atom.divisor));
      count += is_clamp ? kClamp : is_shift ? kShift : kQuotient;
      if (atom.kind != IndexAtom::Kind::kValue)
        count += of_index(atom.operand, loop);
    }
    return count;
  }

  /// The same element as in the iteration before, or one beside it.
  bool is_beside_last(int32_t expression, int32_t loop) const {
    const bool is_computed = std::ranges::any_of(
        indices_.at(expression).terms, [&](const IndexTerm& term) {
          const IndexAtom& atom = indices_.atom(term.atom);
          return computes_along(atom, loop) && !is_border(atom, loop);
        });
    return !is_computed &&
           std::abs(loop_coefficient(indices_, expression, loop)) <= 1;
  }

  const Kernel& kernel_;
  const IndexTable& indices_;
  std::vector<int32_t> seen_in_;  ///< [expression] The last loop that asked.
  std::vector<int32_t> made_in_;  ///< [value] The loop around its let, or -1.
};

size_t count_statements(const std::vector<KernelStatement>& block) {
  size_t count = block.size();
  for (const KernelStatement& statement : block)
    count += count_statements(statement.body);
  return count;
}

}  // namespace

double kernel_flops(const Kernel& kernel) {
  return std::max(kernel.flops,
                  OperationCount(kernel).of_block(kernel.body, -1, false));
}

size_t statement_count(const Kernel& kernel) {
  return count_statements(kernel.body);
}

}  // namespace reprise
