#include "runtime/kernels/kept_rows.h"

#include <algorithm>

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
