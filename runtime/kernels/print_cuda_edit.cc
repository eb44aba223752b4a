// Copies of statements with parts left out. Pruning walks backward, since all
// references are to what stands before: a statement stays if a later one needs
// it, as in dead code elimination. A segment is a run of statements of which
// nothing later uses a value, the most that one launch could hold. Cost: linear
// in statements.
#include "runtime/kernels/print_cuda_edit.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

using Block = StatementBlock;
using Kind = KernelStatement::Kind;

/// Statements without those that nothing needs; every store is needed.
class Pruner {
 public:
  explicit Pruner(const Kernel& kernel) : kernel_(kernel) {}

  /// Backward, since all references are to what stands before.
  Block prune(const Block& block) {
    Block kept;
    for (size_t i = block.size(); i-- > 0;) {
      KernelStatement statement = block[i];
      if (statement.kind == Kind::kLoop) {
        statement.body = prune(statement.body);
        if (statement.body.empty()) continue;
      } else if (!is_needed(statement)) {
        continue;
      }
      need(statement);
      kept.push_back(std::move(statement));
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

 private:
  bool is_needed(const KernelStatement& statement) const {
    switch (statement.kind) {
      case Kind::kLet:
        return values_.contains(statement.value);
      case Kind::kReset:
      case Kind::kAccumulate:
        return accumulators_.contains(statement.target);
      case Kind::kScratchStore:
        return scratches_.contains(statement.target);
      default:
        return true;
    }
  }
  void need_index(int32_t expression) {
    for (const IndexTerm& term : kernel_.indices.at(expression).terms) {
      const IndexAtom& atom = kernel_.indices.atom(term.atom);
      if (atom.kind == IndexAtom::Kind::kValue) {
        values_.insert(atom.operand);
      } else if (atom.kind != IndexAtom::Kind::kLoop) {
        need_index(atom.operand);
      }
    }
  }
  void need(const KernelStatement& statement) {
    if (statement.index >= 0) need_index(statement.index);
    if (statement.guard >= 0) values_.insert(statement.guard);
    if (statement.kind != Kind::kLet) {
      if (statement.value >= 0) values_.insert(statement.value);
      return;
    }
    const KernelValue& value =
        kernel_.values[static_cast<size_t>(statement.value)];
    if (value.index >= 0) need_index(value.index);
    if (value.kind == KernelValue::Kind::kTotal)
      accumulators_.insert(value.source);
    if (value.kind == KernelValue::Kind::kScratch)
      scratches_.insert(value.source);
    for (const int32_t operand : value.operands) {
      if (operand >= 0) values_.insert(operand);
    }
  }

  const Kernel& kernel_;
  std::set<int32_t> values_, accumulators_, scratches_;
};

/// What a top-level statement reads of earlier ones: values, then accumulators
/// and scratches under other numbers.
void add_uses(const Kernel& kernel, const KernelStatement& statement,
              std::set<int64_t>& uses, std::set<int64_t>& definitions) {
  constexpr int64_t kAccumulator = int64_t{1} << 32,
                    kScratch = int64_t{2} << 32;
  const auto use_index = [&](auto&& self, int32_t expression) -> void {
    if (expression < 0) return;
    for (const IndexTerm& term : kernel.indices.at(expression).terms) {
      const IndexAtom& atom = kernel.indices.atom(term.atom);
      if (atom.kind == IndexAtom::Kind::kValue) uses.insert(atom.operand);
      if (atom.kind != IndexAtom::Kind::kValue &&
          atom.kind != IndexAtom::Kind::kLoop) {
        self(self, atom.operand);
      }
    }
  };
  use_index(use_index, statement.index);
  if (statement.guard >= 0) uses.insert(statement.guard);
  switch (statement.kind) {
    case Kind::kLet: {
      definitions.insert(statement.value);
      const KernelValue& value =
          kernel.values[static_cast<size_t>(statement.value)];
      use_index(use_index, value.index);
      for (const int32_t operand : value.operands) {
        if (operand >= 0) uses.insert(operand);
      }
      if (value.kind == KernelValue::Kind::kTotal)
        uses.insert(kAccumulator + value.source);
      if (value.kind == KernelValue::Kind::kScratch)
        uses.insert(kScratch + value.source);
      break;
    }
    case Kind::kReset:
      definitions.insert(kAccumulator + statement.target);
      break;
    case Kind::kAccumulate:
      uses.insert(kAccumulator + statement.target);
      uses.insert(statement.value);
      break;
    case Kind::kScratchStore:
      definitions.insert(kScratch + statement.target);
      uses.insert(statement.value);
      break;
    case Kind::kStore:
      uses.insert(statement.value);
      break;
    case Kind::kLoop:
      for (const KernelStatement& inner : statement.body)
        add_uses(kernel, inner, uses, definitions);
      break;
  }
}

}  // namespace

StatementBlock pruned(const Kernel& kernel, const StatementBlock& block) {
  return Pruner(kernel).prune(block);
}

StatementBlock StatementEdit::apply(const StatementBlock& block) {
  StatementBlock edited;
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kStore) {
      const auto found = stores.find(next_++);
      if (found != stores.end()) {
        edited.insert(edited.end(), found->second.begin(), found->second.end());
      } else if (!drop_other_stores) {
        edited.push_back(statement);
      }
    } else if (statement.kind == Kind::kLoop) {
      KernelStatement loop = statement;
      loop.body = apply(statement.body);
      if (opened_loops.contains(loop.target)) {
        edited.insert(edited.end(), loop.body.begin(), loop.body.end());
      } else {
        edited.push_back(std::move(loop));
      }
    } else if (statement.kind != Kind::kLet ||
               !dropped_lets.contains(statement.value)) {
      edited.push_back(statement);
    }
  }
  return edited;
}

StatementNest nest_of(const Block& body) {
  StatementNest nest;
  nest.inner = &body;
  while (true) {
    const KernelStatement* loop = nullptr;
    for (const KernelStatement& statement : *nest.inner) {
      if (statement.kind == Kind::kReset) nest.lanes = true;
      if (statement.kind != Kind::kLoop) continue;
      if (loop != nullptr) nest.regular = false;
      loop = &statement;
    }
    if (loop == nullptr || nest.lanes || !nest.regular) break;
    nest.path.push_back(loop->target);
    nest.inner = &loop->body;
  }
  if (nest.lanes) nest.regular = true;
  return nest;
}

std::vector<Block> segments_of(const Kernel& kernel) {
  std::vector<Block> segments;
  std::set<int64_t> used_later;
  Block open;
  for (size_t i = kernel.body.size(); i-- > 0;) {
    std::set<int64_t> uses, definitions;
    add_uses(kernel, kernel.body[i], uses, definitions);
    const bool leaves =
        std::any_of(definitions.begin(), definitions.end(),
                    [&](int64_t id) { return used_later.contains(id); });
    const bool acts = kernel.body[i].kind == Kind::kLoop ||
                      kernel.body[i].kind == Kind::kStore;
    if (!leaves && !acts) continue;  // Dead.
    if (used_later.empty() && !open.empty()) {
      std::reverse(open.begin(), open.end());
      segments.push_back(std::move(open));
      open.clear();
    }
    for (const int64_t id : definitions) used_later.erase(id);
    for (const int64_t id : uses) {
      if (!definitions.contains(id)) used_later.insert(id);
    }
    open.push_back(kernel.body[i]);
  }
  if (!open.empty()) {
    std::reverse(open.begin(), open.end());
    segments.push_back(std::move(open));
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

}  // namespace reprise
