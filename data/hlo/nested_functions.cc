// Rules are tried until none fits: what one makes, another may take on, as
// exp(x) / exp(y) becomes exp(x) exp(-y) and that exp(x + (-y)).
#include "data/hlo/nested_functions.h"

#include <utility>

#include "data/hlo/appended_ops.h"

namespace reprise {
namespace {

using Ids = std::vector<InstructionId>;

class NestedFunction {
 public:
  NestedFunction(const OpsBefore& before, Instruction* op)
      : before_(before), op_(*op), steps_(*op, 'f', before.ops) {}

  bool apply_one() {
    switch (op_.opcode) {
      case Opcode::kDivide:
        return take_quotient();
      case Opcode::kMultiply:
        return take_product();
      case Opcode::kLog:
        return take_logarithm();
      case Opcode::kPower:
        return take_power();
      case Opcode::kSqrt:
        return take_root();
      default:
        return false;
    }
  }

 private:
  Opcode opcode(InstructionId id) const {
    return (*before_.ops)[index_of(id)].opcode;
  }
  InstructionId inner(InstructionId id, size_t operand = 0) const {
    return (*before_.ops)[index_of(id)].operands[operand];
  }
  InstructionId step(Opcode opcode, Ids operands) {
    return steps_.op(opcode, std::move(operands), op_.shape);
  }
  bool make(Opcode opcode, Ids operands) {
    op_.opcode = opcode;
    op_.opcode_text.clear();
    op_.operands = std::move(operands);
    return true;
  }

  static Opcode inverse_root(Opcode root) {
    return root == Opcode::kSqrt ? Opcode::kRsqrt : Opcode::kSqrt;
  }

  /// x times a function, which stands alone where x is one.
  bool make_times(InstructionId x, Opcode function, Ids operands) {
    if (before_.constant(x) == 1.0) return make(function, std::move(operands));
    return make(Opcode::kMultiply, {x, step(function, std::move(operands))});
  }

  bool take_quotient() {
    const InstructionId x = op_.operands[0], y = op_.operands[1];
    switch (opcode(y)) {
      case Opcode::kSqrt:
      case Opcode::kRsqrt:
        return before_.is_read_once(y) &&
               make_times(x, inverse_root(opcode(y)), {inner(y)});
      case Opcode::kExp:
        return before_.merges &&
               make_times(x, Opcode::kExp, {step(Opcode::kNegate, {inner(y)})});
      case Opcode::kPower: {
        const InstructionId base = inner(y), exponent = inner(y, 1);
        return make_times(x, Opcode::kPower,
                          {base, step(Opcode::kNegate, {exponent})});
      }
      default:
        return take_quotients(x, y);
    }
  }

  bool take_quotients(InstructionId x, InstructionId y) {
    const bool is_above = opcode(x) == Opcode::kDivide;
    const bool is_below = opcode(y) == Opcode::kDivide;
    if (!is_above && !is_below) return false;
    const InstructionId above = is_above ? inner(x) : x;
    const InstructionId below = is_below ? inner(y) : y;
    const InstructionId first = is_above ? inner(x, 1) : below;
    const InstructionId last = is_below ? inner(y, 1) : above;
    return make(Opcode::kDivide,
                {is_below ? step(Opcode::kMultiply, {above, last}) : above,
                 is_above ? step(Opcode::kMultiply, {first, below}) : below});
  }

  bool take_product() {
    const InstructionId x = op_.operands[0], y = op_.operands[1];
    if (!before_.merges || opcode(x) != Opcode::kExp ||
        opcode(y) != Opcode::kExp)
      return false;
    return make(Opcode::kExp, {step(Opcode::kAdd, {inner(x), inner(y)})});
  }

  bool take_logarithm() {
    const InstructionId x = op_.operands[0];
    switch (opcode(x)) {
      case Opcode::kExp:
        return before_.merges && make(Opcode::kCopy, {inner(x)});
      case Opcode::kSqrt:
        return make(Opcode::kMultiply, {step(Opcode::kLog, {inner(x)}),
                                        steps_.number(0.5, op_.shape)});
      case Opcode::kPower: {
        const InstructionId base = inner(x), exponent = inner(x, 1);
        const InstructionId none = steps_.number(0, op_.shape);
        const InstructionId log =
            step(Opcode::kLog, {step(Opcode::kAbs, {base})});
        return make(Opcode::kSelect,
                    {steps_.compare("EQ", exponent, none), none,
                     step(Opcode::kMultiply, {log, exponent})});
      }
      default:
        return false;
    }
  }

  bool take_power() {
    const InstructionId x = op_.operands[0], y = op_.operands[1];
    if (before_.merges && opcode(x) == Opcode::kExp)
      return make(Opcode::kExp, {step(Opcode::kMultiply, {inner(x), y})});
    const std::optional<double> exponent = before_.constant(y);
    if (exponent == 2.0) return make(Opcode::kMultiply, {x, x});
    if (exponent == 3.0)
      return make(Opcode::kMultiply, {x, step(Opcode::kMultiply, {x, x})});
    if (exponent == -1.0)
      return make(Opcode::kDivide, {steps_.number(1, op_.shape), x});
    return false;
  }

  bool take_root() {
    const InstructionId x = op_.operands[0];
    return before_.merges && opcode(x) == Opcode::kMultiply &&
           inner(x) == inner(x, 1) && make(Opcode::kAbs, {inner(x)});
  }

  const OpsBefore& before_;
  Instruction& op_;
  AppendedOps steps_;
};

}  // namespace

bool simplify_nested(const OpsBefore& before, Instruction* op) {
  NestedFunction nested(before, op);
  bool changed = false;
  while (nested.apply_one()) changed = true;
  return changed;
}

}  // namespace reprise
