// One pass in text order: an op with a constant operand is read as `x + c`,
// `c - x` or `x * c`; where x is of such a form itself, both constants become
// one. Operands stand before their readers, so chains fold as they come.
#include "data/hlo/fold_constants.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "data/element.h"
#include "data/hlo/appended_ops.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

enum class Form : uint8_t { kPlus, kMinusFrom, kTimes };

/// `of` + c, c - `of`, or `of` * c.
struct WithConstant {
  Form form = Form::kPlus;
  InstructionId of{};
  double constant = 0;
};

/// A sum, product or quotient of two numbers of the type, rounded to it. (Of
/// f32 the detour over f64 changes nothing: 53 bits are 2 x 24 + 2 and more.)
double rounded(PrimitiveType type, double value) {
  if (!is_plain_float(type)) return value;
  std::array<std::byte, sizeof(double)> bytes{};
  store_element(type, value, bytes.data());
  return load_element(type, bytes.data());
}

class Folder {
 public:
  Folder(Computation* computation, const ConstantFolding& how)
      : computation_(*computation), how_(how) {}

  void run() {
    std::vector<Instruction> old = std::move(computation_.instructions);
    computation_.instructions.clear();
    for (Instruction& instruction : old) {
      renumber_references(renumbered_, &instruction);
      fold(&instruction);
      if (how_.half_reciprocals) take_reciprocals(&instruction);
      renumbered_.push_back(InstructionId(
          static_cast<uint32_t>(computation_.instructions.size())));
      computation_.instructions.push_back(std::move(instruction));
    }
    computation_.root = renumbered_[index_of(computation_.root)];
    if (!has_folded_) return;
    drop_unread(  // What only folded ops read.
        [this](const Instruction& op) {
          return op.opcode == Opcode::kConstant ||
                 op.opcode == Opcode::kBroadcast || read(op).has_value();
        },
        &computation_);
  }

 private:
  bool is_folded(PrimitiveType type) const {
    return type == PrimitiveType::kF32 || type == PrimitiveType::kF64 ||
           (how_.half && type == PrimitiveType::kF16);
  }

  /// The number that every element of a constant is.
  std::optional<double> constant(InstructionId id) const {
    const Instruction* found = &computation_.at(id);
    if (found->opcode == Opcode::kBroadcast)
      found = &computation_.at(found->operands[0]);
    if (found->opcode != Opcode::kConstant || !found->shape.is_array() ||
        !found->shape.dimensions.empty())
      return std::nullopt;
    const Result<std::vector<double>> values = literal_values(*found);
    if (!values || values->size() != 1 || !std::isfinite(values->front()))
      return std::nullopt;
    return rounded(found->shape.type, values->front());
  }

  std::optional<WithConstant> read(const Instruction& op) const {
    if (!is_folded(op.shape.type) || op.operands.size() != 2 ||
        computation_.at(op.operands[0]).shape.type != op.shape.type ||
        computation_.at(op.operands[1]).shape.type != op.shape.type)
      return std::nullopt;
    const std::optional<double> left = constant(op.operands[0]);
    const std::optional<double> right = constant(op.operands[1]);
    if (left.has_value() == right.has_value()) return std::nullopt;
    const InstructionId of = op.operands[left ? 1 : 0];
    const double number = left ? *left : *right;
    switch (op.opcode) {
      case Opcode::kAdd:
        return WithConstant{Form::kPlus, of, number};
      case Opcode::kSubtract:
        return left ? WithConstant{Form::kMinusFrom, of, number}
                    : WithConstant{Form::kPlus, of, -number};
      case Opcode::kMultiply:
        return WithConstant{Form::kTimes, of, number};
      case Opcode::kDivide:
        if (left || number == 0) return std::nullopt;
        return WithConstant{Form::kTimes, of,
                            rounded(op.shape.type, 1 / number)};
      default:
        return std::nullopt;
    }
  }

  /// Both constants as one, if they meet in one op.
  static std::optional<WithConstant> combined(PrimitiveType type,
                                              const WithConstant& outer,
                                              const WithConstant& inner) {
    WithConstant both = inner;
    if (outer.form == Form::kTimes && inner.form == Form::kTimes) {
      both.constant = rounded(type, outer.constant * inner.constant);
    } else if (outer.form == Form::kPlus && inner.form != Form::kTimes) {
      both.constant = rounded(type, outer.constant + inner.constant);
    } else {
      return std::nullopt;
    }
    if (!std::isfinite(both.constant)) return std::nullopt;
    return both;
  }

  void fold(Instruction* op) {
    const std::optional<WithConstant> outer = read(*op);
    if (!outer || !std::isfinite(outer->constant)) return;
    std::optional<WithConstant> now;
    const auto inner =
        how_.combines ? read(computation_.at(outer->of)) : std::nullopt;
    if (inner) now = combined(op->shape.type, *outer, *inner);
    if (!now && op->opcode == Opcode::kDivide) now = outer;
    if (!now) return;
    const InstructionId number =
        AppendedOps(*op, 'k', &computation_.instructions)
            .number(now->constant, op->shape);
    op->opcode_text.clear();
    op->operands = {now->of, number};
    op->opcode = now->form == Form::kTimes  ? Opcode::kMultiply
                 : now->form == Form::kPlus ? Opcode::kAdd
                                            : Opcode::kSubtract;
    if (now->form == Form::kMinusFrom)
      std::swap(op->operands[0], op->operands[1]);
    has_folded_ = true;
  }

  void take_reciprocals(Instruction* op) {
    if (op->opcode != Opcode::kDivide ||
        op->shape.type != PrimitiveType::kF16 || constant(op->operands[1]))
      return;
    Instruction broadcast = computation_.at(op->operands[1]);
    if (broadcast.opcode != Opcode::kBroadcast) return;
    const Shape shape = computation_.at(broadcast.operands[0]).shape;
    AppendedOps steps(*op, 'k', &computation_.instructions);
    const InstructionId one = steps.number(1, shape);
    const InstructionId reciprocal =
        steps.op(Opcode::kDivide, {one, broadcast.operands[0]}, shape);
    broadcast.name.clear();
    broadcast.operands = {reciprocal};
    op->operands[1] = steps.append(std::move(broadcast));
    op->opcode = Opcode::kMultiply;
    op->opcode_text.clear();
    has_folded_ = true;
  }

  Computation& computation_;
  const ConstantFolding how_;
  std::vector<InstructionId> renumbered_;  ///< [old instruction]
  bool has_folded_ = false;
};

}  // namespace

void fold_constants(Computation* computation, const ConstantFolding& how) {
  Folder(computation, how).run();
}

ConstantFolding constant_folding(const Module& module) {
  return {.combines =
              !has_note(module.attributes, "reprise_constants=\"separate\""),
          .half_reciprocals =
              has_note(module.attributes, "reprise_quotients=\"reciprocal\"")};
}

}  // namespace reprise
