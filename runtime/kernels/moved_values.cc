#include "runtime/kernels/moved_values.h"

#include <cstddef>

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

class MoveFinder {
 public:
  explicit MoveFinder(const Kernel& kernel)
      : kernel_(kernel),
        stores_(kernel.values.size(), 0),
        other_uses_(kernel.values.size(), 0) {}

  std::vector<bool> run() {
    for (const IndexAtom& atom : kernel_.indices.atoms()) {
      if (atom.kind == IndexAtom::Kind::kValue) note_other(atom.operand);
    }
    for (const KernelValue& value : kernel_.values) {
      for (const int32_t operand : value.operands) note_other(operand);
    }
    find(kernel_.body);
    std::vector<bool> moved(kernel_.values.size(), false);
    for (size_t i = 0; i < moved.size(); ++i)
      moved[i] = stores_[i] > 0 && other_uses_[i] == 0;
    return moved;
  }

 private:
  void note_other(int32_t value) {
    if (value >= 0) ++other_uses_[static_cast<size_t>(value)];
  }

  void find(const std::vector<KernelStatement>& block) {
    std::vector<bool> let_here(kernel_.values.size(), false);
    for (const KernelStatement& statement : block) {
      note_other(statement.guard);
      if (statement.kind == Kind::kLoop) {
        find(statement.body);
        continue;
      }
      if (statement.value < 0) continue;
      const auto value = static_cast<size_t>(statement.value);
      const KernelValue& let = kernel_.values[value];
      if (statement.kind == Kind::kLet) {
        let_here[value] = true;
      } else if (statement.kind == Kind::kStore &&
                 statement.combine == Opcode::kParameter && let_here[value] &&
                 let.kind == KernelValue::Kind::kLoad &&
                 let.type ==
                     kernel_.arguments[static_cast<size_t>(statement.target)]
                         .type) {
        ++stores_[value];
      } else {
        note_other(statement.value);
      }
    }
  }

  const Kernel& kernel_;
  std::vector<int> stores_, other_uses_;  ///< [value]
};

}  // namespace

std::vector<bool> moved_values(const Kernel& kernel) {
  return MoveFinder(kernel).run();
}

}  // namespace reprise
