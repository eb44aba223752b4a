// Parts are found in three passes over the outermost statements: lets that
// depend on nothing a part makes are everyone's; each other statement begins as
// a part of its own; and parts that share lanes, totals or scratch become one
// with all between.
#include "data/kernel/kernel_parts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

/// What statements of different parts may not share.
enum class Shared : uint8_t { kLanes, kValue, kScratch };
using Resource = std::pair<Shared, int32_t>;

class PartFinder {
 public:
  explicit PartFinder(const Kernel& kernel)
      : kernel_(kernel), is_made_(kernel.values.size(), false) {}

  KernelParts run() {
    KernelParts found;
    for (size_t i = 0; i < kernel_.body.size(); ++i) {
      if (is_everyones(kernel_.body[i])) {
        found.always.push_back(i);
        const KernelValue& let = value(kernel_.body[i].value);
        if (let.kind == KernelValue::Kind::kLoad)
          found.read_always.push_back(let.source);
      } else {
        append(i);
      }
    }
    merge_shared();
    number();
    found.parts = std::move(parts_);
    return found;
  }

 private:
  const KernelValue& value(int32_t id) const {
    return kernel_.values[static_cast<size_t>(id)];
  }

  template <typename Use>
  void each_read(const KernelValue& value, const Use& use) const {
    for (const int32_t operand : value.operands) {
      if (operand >= 0) use(operand);
    }
    each_index_value(value.index, use);
  }

  /// Each value that an index expression depends on.
  template <typename Use>
  void each_index_value(int32_t expression, const Use& use) const {
    if (expression < 0) return;
    for (const IndexTerm& term : kernel_.indices.at(expression).terms) {
      const IndexAtom& atom = kernel_.indices.atom(term.atom);
      if (atom.kind == IndexAtom::Kind::kValue) use(atom.operand);
      if (atom.kind != IndexAtom::Kind::kValue &&
          atom.kind != IndexAtom::Kind::kLoop)
        each_index_value(atom.operand, use);
    }
  }

  /// A let that depends on nothing which a part makes.
  bool is_everyones(const KernelStatement& statement) const {
    if (statement.kind != Kind::kLet) return false;
    const KernelValue& let = value(statement.value);
    bool made = let.kind == KernelValue::Kind::kTotal ||
                let.kind == KernelValue::Kind::kScratch;
    each_read(let, [&](int32_t read) {
      made = made || is_made_[static_cast<size_t>(read)];
    });
    return !made;
  }

  void append(size_t place) {
    const KernelStatement& statement = kernel_.body[place];
    if (statement.kind == Kind::kLet)
      is_made_[static_cast<size_t>(statement.value)] = true;
    const auto part = static_cast<int32_t>(parts_.size());
    parts_.emplace_back().statements = {place};
    note(statement, part);
  }

  void note(Resource resource, int32_t part) {
    const auto [at, is_new] = uses_.try_emplace(resource, part, part);
    if (!is_new) at->second.second = part;
  }

  void note_value(int32_t id, int32_t part) {
    if (is_made_[static_cast<size_t>(id)]) note({Shared::kValue, id}, part);
  }

  void note(const KernelStatement& statement, int32_t part) {
    const auto use = [&](int32_t id) { note_value(id, part); };
    switch (statement.kind) {
      case Kind::kLet: {
        const KernelValue& let = value(statement.value);
        use(statement.value);
        each_read(let, use);
        if (let.kind == KernelValue::Kind::kTotal)
          note({Shared::kLanes, let.source}, part);
        if (let.kind == KernelValue::Kind::kScratch)
          note({Shared::kScratch, let.source}, part);
        return;
      }
      case Kind::kLoop:
        break;
      case Kind::kReset:
      case Kind::kAccumulate:
        note({Shared::kLanes, statement.target}, part);
        break;
      case Kind::kScratchStore:
        note({Shared::kScratch, statement.target}, part);
        break;
      case Kind::kStore:
        if (statement.guard >= 0) use(statement.guard);
        break;
    }
    if (statement.value >= 0) use(statement.value);
    each_index_value(statement.index, use);
    for (const KernelStatement& inner : statement.body) note(inner, part);
  }

  bool is_shareable(const KernelStatement& statement) const {
    return statement.kind == Kind::kLoop &&
           kernel_.loops[static_cast<size_t>(statement.target)].independent;
  }

  /// Parts that use one thing, with those between, and neighbours that no
  /// threads can share.
  void merge_shared() {
    std::vector<bool> joined(parts_.size() + 1, false);  // With the one before.
    std::vector<bool> alone(parts_.size(), true);
    for (const auto& [resource, range] : uses_) {
      for (int32_t part = range.first; part <= range.second; ++part) {
        if (range.first == range.second) continue;
        alone[static_cast<size_t>(part)] = false;
        if (part > range.first) joined[static_cast<size_t>(part)] = true;
      }
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!is_shareable(kernel_.body[parts_[i].statements.front()]))
        alone[i] = false;
    }
    std::vector<KernelPart> merged;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (i > 0 && (joined[i] || (!alone[i] && !alone[i - 1]))) {
        merged.back().statements.push_back(parts_[i].statements.front());
      } else {
        merged.push_back(std::move(parts_[i]));
      }
    }
    parts_ = std::move(merged);
  }

  void number() {
    double all = 0;
    int64_t at = 0;
    for (KernelPart& part : parts_) {
      const KernelStatement& first = kernel_.body[part.statements.front()];
      part.begin = at;
      at += part.statements.size() == 1 && is_shareable(first)
                ? kernel_.loops[static_cast<size_t>(first.target)].extent
                : 1;
      part.end = at;
      part.share = 0;
      for (const size_t place : part.statements)
        part.share += work_of(kernel_.body[place]);
      all += part.share;
    }
    for (KernelPart& part : parts_) part.share /= std::max(all, 1.0);
  }

  double work_of(const KernelStatement& statement) const {
    if (statement.kind == Kind::kLet) {
      const KernelValue& let = value(statement.value);
      if (let.kind == KernelValue::Kind::kApply)
        return facts_of(let.opcode).weight;
      return let.kind == KernelValue::Kind::kLiteral ? 0 : 1;
    }
    if (statement.kind != Kind::kLoop) return 1;
    double work = 0;
    for (const KernelStatement& inner : statement.body) work += work_of(inner);
    return work *
           static_cast<double>(
               kernel_.loops[static_cast<size_t>(statement.target)].extent);
  }

  const Kernel& kernel_;
  std::vector<bool> is_made_;  ///< [value] By a part, outside of its loops.
  std::vector<KernelPart> parts_;
  std::map<Resource, std::pair<int32_t, int32_t>> uses_;  ///< First and last.
};

}  // namespace

KernelParts kernel_parts(const Kernel& kernel) {
  return PartFinder(kernel).run();
}

int64_t kernel_iterations(const Kernel& kernel) {
  return kernel_parts(kernel).iterations();
}

}  // namespace reprise
