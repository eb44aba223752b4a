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

}  // namespace

std::optional<KeptRows> kept_rows(const Kernel& kernel,
                                  const KernelStatement& loop) {
  KeptRows rows;
  if (!add_stores(kernel, loop.body, rows) || rows.changed < 0) return {};
  const auto is = [&](KernelStatement::Kind kind, const auto& also) {
    return std::any_of(loop.body.begin(), loop.body.end(),
                       [&](const KernelStatement& statement) {
                         return statement.kind == kind && also(statement);
                       });
  };
  if (!is(KernelStatement::Kind::kLoop, [](const auto&) { return true; }) ||
      !is(KernelStatement::Kind::kLet, [&](const KernelStatement& let) {
        return let.value == rows.changed;
      }))
    return {};
  return rows;
}

}  // namespace reprise
