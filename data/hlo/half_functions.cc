// XLA computes these by formulas, in the type of the result: in f16 each of the
// formula's ops rounds, which is a tenth to a half of the last bits, and of
// log1p near 0 more.
#include "data/hlo/half_functions.h"

#include <array>
#include <span>
#include <utility>

#include "data/hlo/appended_ops.h"

namespace reprise {
namespace {

using Id = InstructionId;

/// Highest power first.
constexpr std::array<double, 7> kLog1pNumerator = {
    4.5270000862445199635215E-5, 4.9854102823193375972212E-1,
    6.5787325942061044846969E0,  2.9911919328553073277375E1,
    6.0949667980987787057556E1,  5.7112963590585538103336E1,
    2.0039553499201281259648E1};
constexpr std::array<double, 7> kLog1pDenominator = {
    1.,
    1.5062909083469192043167E1,
    8.3047565967567209469434E1,
    2.2176239823732856465394E2,
    3.0909872225312059774938E2,
    2.1642788614495947685003E2,
    6.0118660497603843919306E1};
constexpr double kLog1pIsSmall = 0.41421356237309504880;  // sqrt(2) - 1

class HalfSteps {
 public:
  HalfSteps(std::vector<Instruction>* ops, Instruction* op)
      : op_(*op),
        x_(op->operands.empty() ? Id{} : op->operands[0]),
        steps_(*op, 'h', ops) {}

  void make_rsqrt() {
    make(Opcode::kDivide, {number(1), step(Opcode::kSqrt, {x_})});
  }
  void make_cbrt() {
    const Id size = step(Opcode::kAbs, {x_});
    const Id root = step(Opcode::kPower, {size, number(1. / 3)});
    const Id is_below = steps_.compare("LT", x_, number(0));
    // A zero has its own sign.
    const Id is_none = steps_.compare("EQ", x_, number(0));
    const Id above = step(Opcode::kSelect, {is_none, x_, root});
    make(Opcode::kSelect, {is_below, step(Opcode::kNegate, {root}), above});
  }
  void make_log1p() {
    const Id square = step(Opcode::kMultiply, {x_, x_});
    const Id ratio = step(Opcode::kDivide, {polynomial(kLog1pNumerator),
                                            polynomial(kLog1pDenominator)});
    const Id cube = step(Opcode::kMultiply, {x_, square});
    const Id half = step(Opcode::kMultiply, {number(-0.5), square});
    const Id rest =
        step(Opcode::kAdd, {half, step(Opcode::kMultiply, {cube, ratio})});
    const Id is_near =
        steps_.compare("LT", step(Opcode::kAbs, {x_}), number(kLog1pIsSmall));
    const Id far = step(Opcode::kLog, {step(Opcode::kAdd, {x_, number(1)})});
    make(Opcode::kSelect, {is_near, step(Opcode::kAdd, {x_, rest}), far});
  }
  void make_expm1() {
    const Id one = number(1), half = number(0.5);
    const Id halved = step(Opcode::kMultiply, {x_, half});
    const Id exp = step(Opcode::kExp, {x_});
    const Id near = step(Opcode::kMultiply, {step(Opcode::kTanh, {halved}),
                                             step(Opcode::kAdd, {exp, one})});
    const Id is_none = steps_.compare("EQ", halved, number(0));
    const Id is_far = steps_.compare("GT", step(Opcode::kAbs, {x_}), half);
    make(Opcode::kSelect, {is_far, step(Opcode::kSubtract, {exp, one}),
                           step(Opcode::kSelect, {is_none, x_, near})});
  }

 private:
  Id number(double value) { return steps_.number(value, op_.shape); }
  Id step(Opcode opcode, std::vector<Id> operands) {
    return steps_.op(opcode, std::move(operands), op_.shape);
  }
  void make(Opcode opcode, std::vector<Id> operands) {
    op_.opcode = opcode;
    op_.opcode_text.clear();
    op_.operands = std::move(operands);
  }
  Id polynomial(std::span<const double> coefficients) {
    Id sum = number(coefficients[0]);
    for (const double coefficient : coefficients.subspan(1)) {
      sum = step(Opcode::kAdd,
                 {step(Opcode::kMultiply, {sum, x_}), number(coefficient)});
    }
    return sum;
  }

  Instruction& op_;
  const Id x_;
  AppendedOps steps_;
};

void take_steps(HalfFunctions which, std::vector<Instruction>* ops,
                Instruction* op) {
  if (op->shape.type != PrimitiveType::kF16) return;
  HalfSteps half(ops, op);
  if (which.expm1 && op->opcode == Opcode::kExpm1) half.make_expm1();
  if (!which.others) return;
  if (op->opcode == Opcode::kRsqrt) half.make_rsqrt();
  if (op->opcode == Opcode::kCbrt) half.make_cbrt();
  if (op->opcode == Opcode::kLog1p) half.make_log1p();
}

}  // namespace

void round_in_half(HalfFunctions which, Computation* computation) {
  if (!which.expm1 && !which.others) return;
  std::vector<Instruction> steps;
  std::vector<InstructionId> now;
  for (Instruction& op : computation->instructions) {
    renumber_references(now, &op);
    take_steps(which, &steps, &op);
    now.push_back(InstructionId(static_cast<uint32_t>(steps.size())));
    steps.push_back(std::move(op));
  }
  computation->root = now[index_of(computation->root)];
  computation->instructions = std::move(steps);
}

HalfFunctions half_functions(const Module& module) {
  return {.expm1 = has_note(module.attributes, "reprise_half_expm1=\"steps\""),
          .others =
              has_note(module.attributes, "reprise_half_functions=\"steps\"")};
}

}  // namespace reprise
