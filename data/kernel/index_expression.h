// Integer index expressions over loop variables: sums of coefficient × atom,
// where an atom is a loop variable, a runtime value, or a quotient, remainder
// or clamp of another expression. Every expression knows its range, which is
// what simplifies reshapes, transposes, slices and broadcasts to plain strides.
//
// Expressions are interned: equal expressions have equal indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise {

struct IndexAtom {
  enum class Kind : uint8_t {
    kLoop,   ///< Loop variable `operand`, in [0, high].
    kValue,  ///< Kernel value `operand` (an integer), clamped to [low, high].
    kFloorDiv,  ///< Expression `operand` / divisor, the operand being >= 0.
    kMod,       ///< Expression `operand` % divisor, the operand being >= 0.
    kClamp,     ///< Expression `operand` clamped to [low, high].
  };
  Kind kind = Kind::kLoop;
  int32_t operand = 0;
  int64_t divisor = 1;
  int64_t low = 0, high = 0;
  uint64_t loops = 0;  ///< Bit l: depends on loop l.
  bool operator==(const IndexAtom&) const = default;
};

struct IndexTerm {
  int64_t coefficient = 1;
  int32_t atom = 0;
  bool operator==(const IndexTerm&) const = default;
};

struct IndexExpression {
  int64_t constant = 0;
  std::vector<IndexTerm> terms;  ///< By atom, ascending; no zero coefficients.
  int64_t low = 0, high = 0;     ///< Inclusive range of the expression.
  uint64_t loops = 0;            ///< Bit l: depends on loop l.
  bool operator==(const IndexExpression&) const = default;
};

/// One index expression for each dimension of an op's shape.
using IndexMap = std::vector<int32_t>;

/// Owns atoms and expressions; the builders return indices of simplified
/// expressions.
class IndexTable {
 public:
  int32_t constant(int64_t value);
  /// Loops from 64 on are left out of the `loops` masks.
  int32_t loop(int32_t loop, int64_t extent);
  /// `loops`: the loops which the value depends on.
  int32_t value(int32_t value, int64_t low, int64_t high, uint64_t loops);
  int32_t add(int32_t left, int32_t right);
  int32_t scale(int32_t expression, int64_t factor);
  /// Requires: the expression is never negative, divisor > 0.
  int32_t floor_div(int32_t expression, int64_t divisor);
  int32_t mod(int32_t expression, int64_t divisor);
  int32_t clamp(int32_t expression, int64_t low, int64_t high);
  /// Row-major position of a multi-index in an array of these dimensions.
  int32_t linearize(std::span<const int32_t> index,
                    std::span<const int64_t> dimensions);
  /// Multi-index of a row-major position.
  IndexMap delinearize(int32_t position, std::span<const int64_t> dimensions);

  const IndexExpression& at(int32_t expression) const {
    return expressions_[static_cast<size_t>(expression)];
  }
  const IndexAtom& atom(int32_t atom) const {
    return atoms_[static_cast<size_t>(atom)];
  }
  const std::vector<IndexExpression>& expressions() const {
    return expressions_;
  }
  const std::vector<IndexAtom>& atoms() const { return atoms_; }

 private:
  int32_t intern(IndexExpression expression);
  int32_t intern_atom(const IndexAtom& atom);
  int32_t of_atom(const IndexAtom& atom);
  /// Splits expression = factor × quotient + rest, with rest in [0, factor);
  /// false if unknown.
  bool split(const IndexExpression& expression, int64_t factor,
             IndexExpression* quotient, IndexExpression* rest) const;

  std::vector<IndexAtom> atoms_;
  std::vector<IndexExpression> expressions_;
  std::vector<uint64_t> hashes_;
};

/// What one iteration of a loop adds to the expression; 0 also where the loop
/// is part of divisions or clamps alone.
int64_t loop_coefficient(const IndexTable& indices, int32_t expression,
                         int32_t loop);

/// True if a runtime value is part of the expression.
bool contains_value(const IndexTable& indices, int32_t expression);

}  // namespace reprise
