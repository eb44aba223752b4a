#include "runtime/kernels/row_blocks.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/print_expression.h"

namespace reprise {

bool writes_rows(const Kernel& kernel, const KernelStatement& loop) {
  std::vector<int32_t> targets;
  for (const KernelStatement& inner : loop.body) {
    if (inner.kind == KernelStatement::Kind::kLet) continue;
    if (inner.kind != KernelStatement::Kind::kStore || inner.guard >= 0 ||
        inner.combine != Opcode::kParameter ||
        contains_value(kernel.indices, inner.index))
      return false;
    targets.push_back(inner.target);
  }
  std::ranges::sort(targets);
  return std::ranges::adjacent_find(targets) != targets.end();
}

bool is_plain_load(const Kernel& kernel, const KernelStatement& statement) {
  if (statement.kind != KernelStatement::Kind::kLet) return false;
  const KernelValue& let = kernel.values[static_cast<size_t>(statement.value)];
  return let.kind == KernelValue::Kind::kLoad &&
         !contains_value(kernel.indices, let.index);
}

}  // namespace reprise
