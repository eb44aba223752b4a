#include "runtime/kernels/blended_selects.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

/// Of 58 loops with such conditions in the plans of two steps g++ 12 made
/// vectors of all but one where they were up to 2 or the statements up to 15,
/// and of one in 14 others.
constexpr size_t kFewConditions = 2, kFewStatements = 15;

/// Selects of a loop's own statements by what is made outside of it.
std::vector<size_t> asked_outside(const Kernel& kernel,
                                  const KernelStatement& loop) {
  std::vector<size_t> selects;
  std::vector<int32_t> made_here;  // Ascending, as lets of a block are.
  for (const KernelStatement& inner : loop.body) {
    if (inner.kind == Kind::kLoop) return {};
    if (inner.kind != Kind::kLet) continue;
    made_here.push_back(inner.value);
    const auto place = static_cast<size_t>(inner.value);
    const KernelValue& let = kernel.values[place];
    if (let.kind == KernelValue::Kind::kApply &&
        let.opcode == Opcode::kSelect && let.type != PrimitiveType::kPred &&
        !std::ranges::binary_search(made_here, let.operands[0]))
      selects.push_back(place);
  }
  return selects;
}

size_t count_conditions(const Kernel& kernel,
                        const std::vector<size_t>& selects) {
  std::set<int32_t> conditions;
  for (const size_t select : selects)
    conditions.insert(kernel.values[select].operands[0]);
  return conditions.size();
}

void find(const Kernel& kernel, const std::vector<KernelStatement>& block,
          std::vector<bool>& blended) {
  for (const KernelStatement& statement : block) {
    if (statement.kind != Kind::kLoop) continue;
    find(kernel, statement.body, blended);
    const std::vector<size_t> selects = asked_outside(kernel, statement);
    if (statement.body.size() <= kFewStatements ||
        count_conditions(kernel, selects) <= kFewConditions)
      continue;
    for (const size_t select : selects) blended[select] = true;
  }
}

}  // namespace

std::vector<bool> blended_selects(const Kernel& kernel) {
  std::vector<bool> blended(kernel.values.size(), false);
  find(kernel, kernel.body, blended);
  return blended;
}

}  // namespace reprise
