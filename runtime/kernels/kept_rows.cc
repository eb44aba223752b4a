#include "runtime/kernels/kept_rows.h"

#include <algorithm>
#include <string_view>

#include "data/kernel/loop_runs.h"

namespace reprise {
namespace {

/// The condition under which a store changes its element, and from where it
/// takes what it keeps.
struct KeepingStore {
  int32_t changed = -1, input = -1;
};

std::optional<KeepingStore> keeping_store(const Kernel& kernel,
                                          const KernelStatement& store) {
  if (store.combine != Opcode::kParameter || store.guard >= 0) return {};
  const KernelValue& stored = kernel.values[static_cast<size_t>(store.value)];
  if (stored.kind != KernelValue::Kind::kApply ||
      stored.opcode != Opcode::kSelect)
    return {};
  const KernelValue& kept =
      kernel.values[static_cast<size_t>(stored.operands[2])];
  if (kept.kind != KernelValue::Kind::kLoad || kept.index != store.index ||
      kept.type != kernel.arguments[static_cast<size_t>(store.target)].type)
    return {};
  return KeepingStore{.changed = stored.operands[0], .input = kept.source};
}

/// Adds the stores inside of these statements; false if one keeps nothing, or
/// something other than a let, a loop and a store is among them.
bool add_stores(const Kernel& kernel,
                const std::vector<KernelStatement>& statements,
                KeptRows& rows) {
  for (const KernelStatement& statement : statements) {
    if (statement.kind == KernelStatement::Kind::kLet) continue;
    if (statement.kind == KernelStatement::Kind::kLoop) {
      if (!add_stores(kernel, statement.body, rows)) return false;
      continue;
    }
    if (statement.kind != KernelStatement::Kind::kStore) return false;
    const std::optional<KeepingStore> store = keeping_store(kernel, statement);
    if (!store || (rows.changed >= 0 && rows.changed != store->changed))
      return false;
    rows.changed = store->changed;
    rows.in_place.emplace_back(store->input, statement.target);
  }
  return true;
}

/// Whether the value is let inside of these statements.
bool is_let_in(const std::vector<KernelStatement>& statements, int32_t value) {
  return std::ranges::any_of(statements, [&](const KernelStatement& statement) {
    return statement.kind == KernelStatement::Kind::kLoop
               ? is_let_in(statement.body, value)
               : statement.kind == KernelStatement::Kind::kLet &&
                     statement.value == value;
  });
}

bool is_inside(const std::vector<KernelStatement>& statements, int32_t loop) {
  return std::ranges::any_of(statements, [&](const KernelStatement& statement) {
    return statement.kind == KernelStatement::Kind::kLoop &&
           (statement.target == loop || is_inside(statement.body, loop));
  });
}

/// Whether an expression is the loop's variable and what is known before the
/// loop.
bool is_shifted(const Kernel& kernel, const KernelStatement& loop,
                int32_t expression) {
  std::vector<int32_t> parts;
  collect_expressions(kernel.indices, expression, parts);
  int uses = 0;
  for (const int32_t part : parts) {
    for (const IndexTerm& term : kernel.indices.at(part).terms) {
      const IndexAtom& atom = kernel.indices.atom(term.atom);
      if (atom.kind == IndexAtom::Kind::kLoop) {
        if (is_inside(loop.body, atom.operand)) return false;
        if (atom.operand != loop.target) continue;
        if (part != expression || term.coefficient != 1) return false;
        ++uses;
      } else if (atom.kind == IndexAtom::Kind::kValue &&
                 is_let_in(loop.body, atom.operand)) {
        return false;
      }
    }
  }
  return uses == 1;
}

/// False where something is done but copy.
bool add_copies(const Kernel& kernel,
                const std::vector<KernelStatement>& statements,
                std::vector<std::pair<int32_t, int32_t>>& pairs) {
  return std::ranges::all_of(statements, [&](const KernelStatement& statement) {
    if (statement.kind == KernelStatement::Kind::kLet) return true;
    if (statement.kind == KernelStatement::Kind::kLoop)
      return add_copies(kernel, statement.body, pairs);
    if (statement.kind != KernelStatement::Kind::kStore ||
        statement.combine != Opcode::kParameter || statement.guard >= 0)
      return false;
    const KernelValue& copied =
        kernel.values[static_cast<size_t>(statement.value)];
    const KernelArgument& to =
        kernel.arguments[static_cast<size_t>(statement.target)];
    pairs.emplace_back(copied.source, statement.target);
    return copied.kind == KernelValue::Kind::kLoad &&
           copied.index == statement.index && copied.type == to.type;
  });
}

}  // namespace

std::vector<ChangedRange> changed_ranges(const Kernel& kernel,
                                         const KernelStatement& loop,
                                         const KeptRows& rows) {
  const auto value_at = [&](int32_t value) -> const KernelValue& {
    return kernel.values[static_cast<size_t>(value)];
  };
  std::vector<ChangedRange> ranges;
  std::vector<int32_t> conditions{rows.changed};
  while (!conditions.empty()) {
    const KernelValue& condition = value_at(conditions.back());
    conditions.pop_back();
    if (condition.kind != KernelValue::Kind::kApply) continue;
    if (condition.opcode == Opcode::kAnd) {
      conditions.push_back(condition.operands[0]);
      conditions.push_back(condition.operands[1]);
      continue;
    }
    if (condition.opcode != Opcode::kCompare) continue;
    const KernelValue& compared = value_at(condition.operands[0]);
    const KernelValue& bound = value_at(condition.operands[1]);
    const std::string_view comparison = condition.comparison;
    if (compared.kind != KernelValue::Kind::kIndex ||
        compared.type != PrimitiveType::kS64 ||
        bound.kind != KernelValue::Kind::kLiteral ||
        !is_shifted(kernel, loop, compared.index))
      continue;
    const IndexExpression& all = kernel.indices.at(compared.index);
    const auto limit = static_cast<int64_t>(bound.literal);
    if (comparison == "GE") ranges.push_back({compared.index, limit, all.high});
    if (comparison == "LE") ranges.push_back({compared.index, all.low, limit});
  }
  return ranges;
}

std::vector<std::pair<int32_t, int32_t>> copied_in_place(
    const Kernel& kernel, const KernelStatement& loop) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  if (!add_copies(kernel, loop.body, pairs)) return {};
  return pairs;
}

std::optional<KeptRows> kept_elements(
    const Kernel& kernel, const std::vector<KernelStatement>& statements) {
  KeptRows rows;
  if (!add_stores(kernel, statements, rows) || rows.changed < 0) return {};
  return rows;
}

std::optional<KeptRows> kept_rows(const Kernel& kernel,
                                  const KernelStatement& loop) {
  const std::optional<KeptRows> rows = kept_elements(kernel, loop.body);
  if (!rows) return {};
  const auto is = [&](KernelStatement::Kind kind, const auto& also) {
    return std::any_of(loop.body.begin(), loop.body.end(),
                       [&](const KernelStatement& statement) {
                         return statement.kind == kind && also(statement);
                       });
  };
  if (!is(KernelStatement::Kind::kLoop, [](const auto&) { return true; }) ||
      !is(KernelStatement::Kind::kLet, [&](const KernelStatement& let) {
        return let.value == rows->changed;
      }))
    return {};
  return rows;
}

}  // namespace reprise
