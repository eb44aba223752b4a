#include "runtime/kernels/row_blocks.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/print_expression.h"

namespace reprise {

namespace {

/// From here on more is lost by what g++ keeps in memory than the columns cost.
constexpr int32_t kMuch = 32;
/// What a narrow load of every third element or less often counts for: of rows
/// that are written out g++ gathers each element by itself.
constexpr int32_t kStridedLoad = 2;

bool is_narrow_access(const Kernel& kernel, const KernelStatement& inner) {
  PrimitiveType type = PrimitiveType::kF32;
  if (inner.kind == KernelStatement::Kind::kStore) {
    type = kernel.arguments[static_cast<size_t>(inner.target)].type;
  } else if (inner.kind == KernelStatement::Kind::kLet) {
    const KernelValue& let = kernel.values[static_cast<size_t>(inner.value)];
    if (let.kind == KernelValue::Kind::kLoad) type = let.type;
  }
  return is_narrow(type);
}

/// A load that goes back by more than an element: g++ knows how to turn round a
/// vector, not every other element of one.
bool is_backward_load(const Kernel& kernel, const KernelStatement& loop,
                      const KernelStatement& inner) {
  if (inner.kind != KernelStatement::Kind::kLet) return false;
  const KernelValue& let = kernel.values[static_cast<size_t>(inner.value)];
  return let.kind == KernelValue::Kind::kLoad &&
         loop_coefficient(kernel.indices, let.index, loop.target) < -1;
}

bool computes_much(const Kernel& kernel, const KernelStatement& loop) {
  int32_t weight = 0;
  for (const KernelStatement& inner : loop.body) {
    if (inner.kind != KernelStatement::Kind::kLet) continue;
    const KernelValue& let = kernel.values[static_cast<size_t>(inner.value)];
    if (let.kind == KernelValue::Kind::kApply)
      weight += facts_of(let.opcode).weight;
    if (let.kind == KernelValue::Kind::kLoad && is_narrow(let.type) &&
        loop_coefficient(kernel.indices, let.index, loop.target) > 2)
      weight += kStridedLoad;
  }
  return weight >= kMuch;
}

}  // namespace

bool goes_through_columns(const Kernel& kernel, const KernelStatement& loop) {
  // A block more must not overflow the loop's variable.
  constexpr int64_t kLongest = int64_t{1} << 30;
  if (kernel.loops[static_cast<size_t>(loop.target)].extent > kLongest)
    return false;
  std::vector<int32_t> targets;
  bool is_hard = false;
  for (const KernelStatement& inner : loop.body) {
    is_hard = is_hard || is_narrow_access(kernel, inner) ||
              is_backward_load(kernel, loop, inner);
    if (inner.kind == KernelStatement::Kind::kLet) continue;
    if (inner.kind != KernelStatement::Kind::kStore || inner.guard >= 0 ||
        inner.combine != Opcode::kParameter ||
        contains_value(kernel.indices, inner.index))
      return false;
    targets.push_back(inner.target);
  }
  std::ranges::sort(targets);
  return std::ranges::adjacent_find(targets) != targets.end() ||
         (is_hard && computes_much(kernel, loop));
}

bool is_plain_load(const Kernel& kernel, const KernelStatement& statement) {
  if (statement.kind != KernelStatement::Kind::kLet) return false;
  const KernelValue& let = kernel.values[static_cast<size_t>(statement.value)];
  return let.kind == KernelValue::Kind::kLoad &&
         !contains_value(kernel.indices, let.index);
}

}  // namespace reprise
