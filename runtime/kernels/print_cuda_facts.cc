// A small dependence analysis. A store meets itself in two iterations of a loop
// unless its index keeps them apart, which for an affine index is a question of
// strides and spans (keeps_apart), as in the tests of Banerjee and GCD; a
// runtime value in the index always may meet. Values spread what they depend on
// to their users. Cost: linear in statements, terms × loops for each store.
#include "runtime/kernels/print_cuda_facts.h"

#include <algorithm>
#include <cstdlib>

namespace reprise {

KernelFacts::KernelFacts(const Kernel& original, const Kernel& kernel,
                         const std::vector<KernelStatement>& body)
    : original_(original), kernel_(kernel), value_loops_(kernel.values.size()) {
  std::vector<int32_t> path;
  visit(body, path);
}

void KernelFacts::visit(const std::vector<KernelStatement>& block,
                        std::vector<int32_t>& path) {
  for (const KernelStatement& statement : block) {
    switch (statement.kind) {
      case KernelStatement::Kind::kLet: {
        const KernelValue& value =
            kernel_.values[static_cast<size_t>(statement.value)];
        LoopSet& loops = value_loops_[static_cast<size_t>(statement.value)];
        if (value.kind == KernelValue::Kind::kTotal ||
            value.kind == KernelValue::Kind::kScratch) {
          loops.insert(path.begin(), path.end());
        }
        if (value.index >= 0) add_index_loops(value.index, loops);
        for (const int32_t operand : value.operands) {
          if (operand < 0) continue;
          const LoopSet& more = loops_of_value(operand);
          loops.insert(more.begin(), more.end());
        }
        break;
      }
      case KernelStatement::Kind::kLoop:
        path.push_back(statement.target);
        visit(statement.body, path);
        path.pop_back();
        break;
      case KernelStatement::Kind::kStore:
        stores_.push_back({&statement, path});
        break;
      case KernelStatement::Kind::kReset:
        has_lanes_ = true;
        break;
      default:
        break;
    }
  }
}

const LoopSet& KernelFacts::loops_of_value(int32_t value) const {
  return value_loops_[static_cast<size_t>(value)];
}

void KernelFacts::add_index_loops(int32_t expression, LoopSet& loops) const {
  for (const IndexTerm& term : kernel_.indices.at(expression).terms) {
    const IndexAtom& atom = kernel_.indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kLoop) {
      loops.insert(atom.operand);
    } else if (atom.kind == IndexAtom::Kind::kValue) {
      const LoopSet& more = loops_of_value(atom.operand);
      loops.insert(more.begin(), more.end());
    } else {
      add_index_loops(atom.operand, loops);
    }
  }
}

LoopSet KernelFacts::loops_of_index(int32_t expression) const {
  LoopSet loops;
  add_index_loops(expression, loops);
  return loops;
}

void KernelFacts::add_index_values(int32_t expression,
                                   std::vector<int32_t>& values) const {
  for (const IndexTerm& term : kernel_.indices.at(expression).terms) {
    const IndexAtom& atom = kernel_.indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kValue) {
      values.push_back(atom.operand);
    } else if (atom.kind != IndexAtom::Kind::kLoop) {
      add_index_values(atom.operand, values);
    }
  }
}

std::vector<int32_t> KernelFacts::inputs_of(
    const KernelStatement& store) const {
  std::vector<int32_t> inputs{store.value};
  if (store.guard >= 0) inputs.push_back(store.guard);
  add_index_values(store.index, inputs);
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  return inputs;
}

LoopSet KernelFacts::loops_of_store(const KernelStatement& store) const {
  LoopSet loops = loops_of_index(store.index);
  for (const int32_t input : inputs_of(store)) {
    const LoopSet& more = loops_of_value(input);
    loops.insert(more.begin(), more.end());
  }
  return loops;
}

/// True if two iterations of `loop` never meet in one element, whatever the
/// other loops and the runtime values are. With c the loop's coefficient and n
/// its extent, the other terms are multiples of c·n or small: their sum spans
/// less than c. Then (index − lowest small sum) / c mod n is the iteration.
bool KernelFacts::keeps_apart(int32_t loop, int32_t index) const {
  const std::vector<IndexTerm>& terms = kernel_.indices.at(index).terms;
  const int64_t own = std::abs(loop_coefficient(kernel_.indices, index, loop));
  if (own == 0) return false;
  const int64_t period = own * kernel_.loops[static_cast<size_t>(loop)].extent;
  int64_t small = 0;
  for (const IndexTerm& term : terms) {
    const IndexAtom& atom = kernel_.indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kLoop && atom.operand == loop) continue;
    const int64_t size = std::abs(term.coefficient);
    if (size % period == 0) continue;
    const int64_t span = atom.high - atom.low;
    if (span > 0 && size > own / span) return false;
    small += size * span;
  }
  return small < own;
}

LoopSet KernelFacts::redundant_loops(const StorePlace& place) const {
  LoopSet redundant;
  if (place.statement->combine != Opcode::kParameter) return redundant;
  const LoopSet used = loops_of_store(*place.statement);
  for (const int32_t loop : place.loops) {
    if (!used.contains(loop)) redundant.insert(loop);
  }
  return redundant;
}

LoopSet KernelFacts::ordered_loops(const StorePlace& place) const {
  const LoopSet redundant = redundant_loops(place);
  const KernelStatement& store = *place.statement;
  LoopSet ordered;
  for (const int32_t loop : place.loops) {
    if (redundant.contains(loop) || keeps_apart(loop, store.index)) continue;
    // Lowering marks a loop dependent when an accumulating or scattering store
    // has it in anything but a plain term; a plain store with such a term in an
    // independent loop is therefore one of each element once.
    bool plain_terms = true;
    for (const IndexTerm& term : kernel_.indices.at(store.index).terms) {
      plain_terms = plain_terms && kernel_.indices.atom(term.atom).kind ==
                                       IndexAtom::Kind::kLoop;
    }
    const bool once = store.combine == Opcode::kParameter && store.guard < 0 &&
                      !plain_terms &&
                      kernel_.loops[static_cast<size_t>(loop)].independent &&
                      loops_of_index(store.index).contains(loop);
    if (!once) ordered.insert(loop);
  }
  return ordered;
}

bool KernelFacts::is_overwritten(int32_t argument,
                                 int32_t except_target) const {
  return std::any_of(
      stores_.begin(), stores_.end(), [&](const StorePlace& place) {
        const size_t target = static_cast<size_t>(place.statement->target);
        return place.statement->target != except_target &&
               target < original_.arguments.size() &&
               in_place_safe(original_, static_cast<size_t>(argument), target);
      });
}

/// Marks every value that uses a marked one; operands come first.
void KernelFacts::spread(std::vector<bool>& marked) const {
  for (size_t id = 0; id < marked.size(); ++id) {
    const KernelValue& value = kernel_.values[id];
    std::vector<int32_t> inputs;
    if (value.index >= 0) add_index_values(value.index, inputs);
    for (const int32_t operand : value.operands) {
      if (operand >= 0) inputs.push_back(operand);
    }
    for (const int32_t input : inputs)
      marked[id] = marked[id] || marked[static_cast<size_t>(input)];
  }
}

std::vector<bool> KernelFacts::reduced_values() const {
  std::vector<bool> reduced;
  for (const KernelValue& value : kernel_.values) {
    reduced.push_back(value.kind == KernelValue::Kind::kTotal ||
                      value.kind == KernelValue::Kind::kScratch);
  }
  spread(reduced);
  return reduced;
}

std::vector<bool> KernelFacts::lost_values(int32_t target) const {
  std::vector<bool> lost = reduced_values();
  for (size_t id = 0; id < lost.size(); ++id) {
    const KernelValue& value = kernel_.values[id];
    if (value.kind == KernelValue::Kind::kLoad &&
        static_cast<size_t>(value.source) < original_.arguments.size() &&
        is_overwritten(value.source, target)) {
      lost[id] = true;
    }
  }
  spread(lost);
  return lost;
}

}  // namespace reprise
