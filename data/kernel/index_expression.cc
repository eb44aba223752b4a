// Keeps expressions in a normal form: terms sorted by atom, no zero
// coefficient, a quotient and a remainder by one divisor put together again.
// Ranges decide the rest: a remainder of what is smaller than the divisor is
// the thing itself, a quotient of it 0, a clamp that cannot bind is dropped.
// The method is interval arithmetic over affine forms, as in XLA's indexing
// maps and Halide's simplifier. Cost: interning is linear in the expressions of
// the nest.
#include "data/kernel/index_expression.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace reprise {
namespace {

int64_t floor_divide(int64_t value, int64_t divisor) {
  const int64_t quotient = value / divisor;
  return quotient -
         ((value % divisor != 0 && (value < 0) != (divisor < 0)) ? 1 : 0);
}

uint64_t mix(uint64_t hash, uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

uint64_t hash_of(const IndexExpression& expression) {
  uint64_t hash = mix(1, static_cast<uint64_t>(expression.constant));
  for (const IndexTerm& term : expression.terms) {
    hash = mix(hash, static_cast<uint64_t>(term.coefficient));
    hash = mix(hash, static_cast<uint64_t>(term.atom));
  }
  return hash;
}

void add_term(IndexExpression& expression, IndexTerm term) {
  auto place = std::lower_bound(
      expression.terms.begin(), expression.terms.end(), term.atom,
      [](const IndexTerm& left, int32_t atom) { return left.atom < atom; });
  if (place != expression.terms.end() && place->atom == term.atom) {
    place->coefficient += term.coefficient;
    if (place->coefficient == 0) expression.terms.erase(place);
  } else if (term.coefficient != 0) {
    expression.terms.insert(place, term);
  }
}

/// Fills the range and the loops from the atoms.
void finish(IndexExpression& expression, const std::vector<IndexAtom>& atoms) {
  expression.low = expression.high = expression.constant;
  expression.loops = 0;
  for (const IndexTerm& term : expression.terms) {
    const IndexAtom& atom = atoms[static_cast<size_t>(term.atom)];
    const bool positive = term.coefficient > 0;
    expression.low += term.coefficient * (positive ? atom.low : atom.high);
    expression.high += term.coefficient * (positive ? atom.high : atom.low);
    expression.loops |= atom.loops;
  }
}

}  // namespace

int32_t IndexTable::intern(IndexExpression expression) {
  finish(expression, atoms_);
  const uint64_t hash = hash_of(expression);
  for (size_t i = 0; i < hashes_.size(); ++i) {
    if (hashes_[i] == hash && expressions_[i].constant == expression.constant &&
        expressions_[i].terms == expression.terms) {
      return static_cast<int32_t>(i);
    }
  }
  expressions_.push_back(std::move(expression));
  hashes_.push_back(hash);
  return static_cast<int32_t>(expressions_.size() - 1);
}

int32_t IndexTable::intern_atom(const IndexAtom& atom) {
  const auto found = std::find(atoms_.begin(), atoms_.end(), atom);
  if (found != atoms_.end())
    return static_cast<int32_t>(found - atoms_.begin());
  atoms_.push_back(atom);
  return static_cast<int32_t>(atoms_.size() - 1);
}

int32_t IndexTable::of_atom(const IndexAtom& atom) {
  if (atom.low == atom.high) return constant(atom.low);
  IndexExpression expression;
  expression.terms.push_back({1, intern_atom(atom)});
  return intern(std::move(expression));
}

int32_t IndexTable::constant(int64_t value) {
  IndexExpression expression;
  expression.constant = value;
  return intern(std::move(expression));
}

int32_t IndexTable::loop(int32_t loop, int64_t extent) {
  IndexAtom atom;
  atom.operand = loop;
  atom.high = extent - 1;
  if (loop < 64) atom.loops = uint64_t{1} << loop;
  return of_atom(atom);
}

int32_t IndexTable::value(int32_t value, int64_t low, int64_t high,
                          uint64_t loops) {
  IndexAtom atom;
  atom.kind = IndexAtom::Kind::kValue;
  atom.operand = value;
  atom.low = low;
  atom.high = high;
  atom.loops = loops;
  return of_atom(atom);
}

int32_t IndexTable::add(int32_t left, int32_t right) {
  IndexExpression sum = at(left);
  sum.constant += at(right).constant;
  for (const IndexTerm& term : at(right).terms) add_term(sum, term);
  // c·(x mod k) + c·k·(x div k) = c·x, also when x is a quotient itself.
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const IndexAtom rest = atoms_[static_cast<size_t>(sum.terms[i].atom)];
    if (rest.kind != IndexAtom::Kind::kMod) continue;
    const IndexExpression& inner = at(rest.operand);
    int32_t base = rest.operand;
    int64_t divisor = rest.divisor;
    if (inner.terms.size() == 1 && inner.constant == 0 &&
        inner.terms[0].coefficient == 1) {
      const IndexAtom& quotient =
          atoms_[static_cast<size_t>(inner.terms[0].atom)];
      if (quotient.kind == IndexAtom::Kind::kFloorDiv) {
        base = quotient.operand;
        divisor *= quotient.divisor;
      }
    }
    for (const IndexTerm& other : sum.terms) {
      const IndexAtom& quotient = atoms_[static_cast<size_t>(other.atom)];
      if (quotient.kind != IndexAtom::Kind::kFloorDiv ||
          quotient.operand != base || quotient.divisor != divisor ||
          other.coefficient != sum.terms[i].coefficient * rest.divisor) {
        continue;
      }
      const int64_t factor = sum.terms[i].coefficient;
      const IndexTerm remove_rest{-factor, sum.terms[i].atom};
      const IndexTerm remove_quotient{-other.coefficient, other.atom};
      add_term(sum, remove_rest);
      add_term(sum, remove_quotient);
      return add(intern(std::move(sum)), scale(rest.operand, factor));
    }
  }
  return intern(std::move(sum));
}

int32_t IndexTable::scale(int32_t expression, int64_t factor) {
  if (factor == 1) return expression;
  if (factor == 0) return constant(0);
  IndexExpression scaled = at(expression);
  scaled.constant *= factor;
  for (IndexTerm& term : scaled.terms) term.coefficient *= factor;
  return intern(std::move(scaled));
}

bool IndexTable::split(const IndexExpression& expression, int64_t factor,
                       IndexExpression* quotient, IndexExpression* rest) const {
  *quotient = {};
  *rest = {};
  quotient->constant = floor_divide(expression.constant, factor);
  rest->constant = expression.constant - quotient->constant * factor;
  for (const IndexTerm& term : expression.terms) {
    if (term.coefficient % factor == 0) {
      quotient->terms.push_back({term.coefficient / factor, term.atom});
    } else {
      rest->terms.push_back(term);
    }
  }
  finish(*rest, atoms_);
  return rest->low >= 0 && rest->high < factor;
}

int32_t IndexTable::floor_div(int32_t expression, int64_t divisor) {
  if (divisor == 1) return expression;
  const IndexExpression whole = at(expression);
  IndexExpression quotient, rest;
  if (split(whole, divisor, &quotient, &rest))
    return intern(std::move(quotient));
  int32_t outer = constant(0);
  int32_t base = expression;
  if (rest.low >= 0) {
    outer = intern(std::move(quotient));
    base = intern(rest);
    if (rest.terms.size() == 1 && rest.constant == 0 &&
        rest.terms[0].coefficient == 1) {
      const IndexAtom& atom = atoms_[static_cast<size_t>(rest.terms[0].atom)];
      if (atom.kind == IndexAtom::Kind::kFloorDiv) {
        return add(outer, floor_div(atom.operand, atom.divisor * divisor));
      }
    }
    for (const IndexTerm& term : rest.terms) {
      const int64_t factor = std::gcd(term.coefficient, divisor);
      if (factor <= 1) continue;
      IndexExpression inner, low;
      if (!split(rest, factor, &inner, &low)) continue;
      return add(outer, floor_div(intern(std::move(inner)), divisor / factor));
    }
  }
  const IndexExpression& operand = at(base);
  IndexAtom atom;
  atom.kind = IndexAtom::Kind::kFloorDiv;
  atom.operand = base;
  atom.divisor = divisor;
  atom.low = floor_divide(operand.low, divisor);
  atom.high = floor_divide(operand.high, divisor);
  atom.loops = operand.loops;
  return add(outer, of_atom(atom));
}

int32_t IndexTable::mod(int32_t expression, int64_t divisor) {
  if (divisor == 1) return constant(0);
  const IndexExpression whole = at(expression);
  IndexExpression quotient, rest;
  if (split(whole, divisor, &quotient, &rest)) return intern(std::move(rest));
  int32_t base = expression;
  if (rest.low >= 0) {
    base = intern(rest);
    for (const IndexTerm& term : rest.terms) {
      const int64_t factor = std::gcd(term.coefficient, divisor);
      if (factor <= 1) continue;
      IndexExpression inner, low;
      if (!split(rest, factor, &inner, &low)) continue;
      const int32_t high =
          scale(mod(intern(std::move(inner)), divisor / factor), factor);
      return add(high, intern(std::move(low)));
    }
  }
  IndexAtom atom;
  atom.kind = IndexAtom::Kind::kMod;
  atom.operand = base;
  atom.divisor = divisor;
  atom.high = divisor - 1;
  atom.loops = at(base).loops;
  return of_atom(atom);
}

int32_t IndexTable::clamp(int32_t expression, int64_t low, int64_t high) {
  const IndexExpression& operand = at(expression);
  if (operand.low >= low && operand.high <= high) return expression;
  IndexAtom atom;
  atom.kind = IndexAtom::Kind::kClamp;
  atom.operand = expression;
  atom.low = low;
  atom.high = high;
  atom.loops = operand.loops;
  return of_atom(atom);
}

int32_t IndexTable::linearize(std::span<const int32_t> index,
                              std::span<const int64_t> dimensions) {
  int32_t position = constant(0);
  int64_t stride = 1;
  for (size_t i = dimensions.size(); i-- > 0;) {
    position = add(position, scale(index[i], stride));
    stride *= dimensions[i];
  }
  return position;
}

IndexMap IndexTable::delinearize(int32_t position,
                                 std::span<const int64_t> dimensions) {
  IndexMap index(dimensions.size());
  int64_t stride = 1;
  for (size_t i = dimensions.size(); i-- > 0;) {
    const int32_t quotient = floor_div(position, stride);
    index[i] = mod(quotient, dimensions[i]);
    stride *= dimensions[i];
  }
  return index;
}

int64_t loop_coefficient(const IndexTable& indices, int32_t expression,
                         int32_t loop) {
  for (const IndexTerm& term : indices.at(expression).terms) {
    const IndexAtom& atom = indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kLoop && atom.operand == loop)
      return term.coefficient;
  }
  return 0;
}

bool contains_value(const IndexTable& indices, int32_t expression) {
  for (const IndexTerm& term : indices.at(expression).terms) {
    const IndexAtom& atom = indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kValue) return true;
    if (atom.kind != IndexAtom::Kind::kLoop &&
        contains_value(indices, atom.operand))
      return true;
  }
  return false;
}

}  // namespace reprise
