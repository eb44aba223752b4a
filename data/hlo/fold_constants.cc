// One pass in text order: an op with a constant operand is read as `x + c`,
// `c - x` or `x * c`; where x is of such a form itself, both constants become
// one. Operands stand before their readers, so chains fold as they come. A sum
// of copies becomes such a product first.
#include "data/hlo/fold_constants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "data/element.h"
#include "data/hlo/appended_ops.h"
#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/hlo/nested_functions.h"

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

/// The same numbers in other places.
bool is_placing(Opcode opcode) {
  return opcode == Opcode::kReshape || opcode == Opcode::kTranspose ||
         opcode == Opcode::kBroadcast;
}

/// What simplify_nested may leave without a reader.
bool is_nested(Opcode opcode) {
  return opcode == Opcode::kDivide || opcode == Opcode::kExp ||
         opcode == Opcode::kMultiply || opcode == Opcode::kPower ||
         opcode == Opcode::kSqrt;
}

std::vector<int64_t> dimensions_of(const Instruction& op) {
  const Attribute* found = op.find_attribute("dimensions");
  const auto* dimensions =
      found == nullptr ? nullptr
                       : std::get_if<std::vector<int64_t>>(&found->value);
  return dimensions == nullptr ? std::vector<int64_t>{} : *dimensions;
}

/// Those of more than one element.
std::vector<int64_t> long_dimensions(const Shape& shape) {
  std::vector<int64_t> found;
  for (size_t d = 0; d < shape.dimensions.size(); ++d)
    if (shape.dimensions[d] != 1) found.push_back(static_cast<int64_t>(d));
  return found;
}

std::vector<int64_t> extents(const Shape& shape,
                             const std::vector<int64_t>& dimensions) {
  std::vector<int64_t> found;
  found.reserve(dimensions.size());
  for (const int64_t d : dimensions)
    found.push_back(shape.dimensions[static_cast<size_t>(d)]);
  return found;
}

class Folder {
 public:
  Folder(const Module& module, Computation* computation,
         const ConstantFolding& how)
      : module_(module), computation_(*computation), how_(how) {}

  void run() {
    const std::vector<uint32_t> readers = use_counts(computation_);
    std::vector<Instruction> old = std::move(computation_.instructions);
    computation_.instructions.clear();
    for (Instruction& instruction : old) {
      renumber_references(renumbered_, &instruction);
      if (how_.copies) count_copies(&instruction);
      fold(&instruction);
      take_reciprocals(&instruction);
      simplify(&instruction);
      readers_.resize(computation_.instructions.size(), 0);
      readers_.push_back(readers[renumbered_.size()]);
      renumbered_.push_back(InstructionId(
          static_cast<uint32_t>(computation_.instructions.size())));
      computation_.instructions.push_back(std::move(instruction));
    }
    computation_.root = renumbered_[index_of(computation_.root)];
    if (!has_folded_) return;
    drop_unread(  // What only folded ops read.
        [this](const Instruction& op) {
          return op.opcode == Opcode::kConstant || is_placing(op.opcode) ||
                 op.opcode == Opcode::kRsqrt || read(op).has_value() ||
                 (how_.nested && is_nested(op.opcode));
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

  /// What `id` is, or what it has from elsewhere through `between`, the ops
  /// from `id` on that nothing else reads.
  std::optional<WithConstant> read_behind(
      InstructionId id, std::vector<InstructionId>* between) const {
    const Instruction* op = &computation_.at(id);
    while (how_.copies && is_placing(op->opcode) &&
           readers_[index_of(id)] == 1) {
      between->push_back(id);
      id = op->operands[0];
      op = &computation_.at(id);
    }
    return read(*op);
  }

  void fold(Instruction* op) {
    const std::optional<WithConstant> outer = read(*op);
    if (!outer || !std::isfinite(outer->constant)) return;
    std::optional<WithConstant> now;
    std::vector<InstructionId> between;
    const auto inner =
        how_.combines ? read_behind(outer->of, &between) : std::nullopt;
    if (inner) now = combined(op->shape.type, *outer, *inner);
    if (!now) between.clear();
    if (!now && op->opcode == Opcode::kDivide) now = outer;
    if (!now) return;
    AppendedOps steps(*op, 'k', &computation_.instructions);
    for (size_t i = between.size(); i-- > 0;) {
      Instruction moved = computation_.at(between[i]);
      moved.name.clear();
      moved.operands = {now->of};
      now->of = steps.append(std::move(moved));
    }
    const InstructionId number = steps.number(now->constant, op->shape);
    op->opcode_text.clear();
    op->operands = {now->of, number};
    op->opcode = now->form == Form::kTimes  ? Opcode::kMultiply
                 : now->form == Form::kPlus ? Opcode::kAdd
                                            : Opcode::kSubtract;
    if (now->form == Form::kMinusFrom)
      std::swap(op->operands[0], op->operands[1]);
    has_folded_ = true;
  }

  /// Of a sum of copies, what was copied and how often.
  struct Copies {
    InstructionId of{};
    double number = 1;
    bool is_whole = false;      ///< No copies are left.
    std::vector<int64_t> left;  ///< Else where the sum has what was copied.
  };

  /// Through a reshape that adds or drops dimensions of one element, as a
  /// repetition has it, too.
  std::optional<Copies> copies_in(const Instruction& sum) const {
    const Instruction& read = computation_.at(sum.operands[0]);
    const bool is_reshaped = read.opcode == Opcode::kReshape;
    const Instruction& broadcast =
        is_reshaped ? computation_.at(read.operands[0]) : read;
    if (broadcast.opcode != Opcode::kBroadcast) return std::nullopt;
    const std::vector<int64_t> before = long_dimensions(broadcast.shape);
    const std::vector<int64_t> after = long_dimensions(read.shape);
    if (extents(broadcast.shape, before) != extents(read.shape, after))
      return std::nullopt;
    const std::vector<int64_t> kept = dimensions_of(broadcast);
    Copies copies{.of = broadcast.operands[0], .left = kept};
    size_t summed = 0;
    for (const int64_t dimension : dimensions_of(sum)) {
      const auto at = std::ranges::find(after, dimension);
      if (at == after.end()) continue;
      const int64_t added = before[static_cast<size_t>(at - after.begin())];
      if (std::ranges::count(kept, added) > 0) return std::nullopt;
      copies.number *= static_cast<double>(extents(read.shape, {dimension})[0]);
      for (size_t i = 0; i < kept.size(); ++i)
        copies.left[i] -= kept[i] > added;
      ++summed;
    }
    const Shape& copied = computation_.at(copies.of).shape;
    copies.is_whole = std::ranges::is_sorted(kept) &&
                      element_count(copied) == element_count(sum.shape);
    const bool is_each_long = summed == dimensions_of(sum).size();
    if (summed == 0 || (!copies.is_whole && (is_reshaped || !is_each_long)))
      return std::nullopt;
    return copies;
  }

  /// A sum of copies is their number times what was copied.
  void count_copies(Instruction* op) {
    if (op->opcode != Opcode::kReduce || op->operands.size() != 2 ||
        !is_folded(op->shape.type) || constant(op->operands[1]) != 0.0 ||
        combining_opcode(module_, *op) != Opcode::kAdd)
      return;
    const std::optional<Copies> copies = copies_in(*op);
    if (!copies || !std::isfinite(rounded(op->shape.type, copies->number)))
      return;
    const Shape shape = computation_.at(copies->of).shape;
    AppendedOps steps(*op, 'k', &computation_.instructions);
    const InstructionId number = steps.number(copies->number, shape);
    std::erase_if(op->attributes,
                  [](const Attribute& a) { return a.name != "metadata"; });
    op->opcode_text.clear();
    has_folded_ = true;
    if (copies->is_whole && shape.dimensions == op->shape.dimensions) {
      op->opcode = Opcode::kMultiply;
      op->operands = {copies->of, number};
      return;
    }
    op->operands = {steps.op(Opcode::kMultiply, {copies->of, number}, shape)};
    op->opcode = copies->is_whole ? Opcode::kReshape : Opcode::kBroadcast;
    if (!copies->is_whole)
      op->attributes.insert(op->attributes.begin(),
                            {"dimensions", copies->left});
  }

  bool has_reciprocals(PrimitiveType type) const {
    return how_.reciprocals != Reciprocals::kNone && is_folded(type) &&
           (how_.reciprocals == Reciprocals::kAll ||
            type == PrimitiveType::kF16);
  }

  /// Whether a quotient by `broadcast` is one of less than its elements, which
  /// are repeated then.
  bool is_repeated_quotient(const Instruction& op,
                            const Instruction& broadcast) const {
    const Instruction& divided = computation_.at(op.operands[0]);
    if (element_count(broadcast.shape) ==
        element_count(computation_.at(broadcast.operands[0]).shape))
      return true;
    if (divided.opcode != Opcode::kBroadcast) return false;
    return computation_.at(divided.operands[0]).shape.dimensions.empty() ||
           dimensions_of(divided) == dimensions_of(broadcast);
  }

  /// A function of what `op` reads, in which others may come to nothing.
  void simplify(Instruction* op) {
    if (!how_.nested || !is_folded(op->shape.type)) return;
    const OpsBefore before = {
        .ops = &computation_.instructions,
        .constant = [this](InstructionId id) { return constant(id); },
        .is_read_once =
            [this](InstructionId id) { return readers_[index_of(id)] == 1; },
        .merges = how_.combines};
    if (simplify_nested(before, op)) has_folded_ = true;
  }

  InstructionId reciprocal(const Instruction& of, InstructionId divisor,
                           AppendedOps* steps) {
    const Shape shape = computation_.at(divisor).shape;
    if (computation_.at(divisor).opcode == Opcode::kRsqrt)
      return steps->op(Opcode::kSqrt, computation_.at(divisor).operands, shape);
    Instruction inverse;
    inverse.name = of.name;
    inverse.opcode = Opcode::kDivide;
    inverse.shape = shape;
    inverse.operands = {steps->number(1, shape), divisor};
    simplify(&inverse);
    inverse.name.clear();
    return steps->append(std::move(inverse));
  }

  void take_reciprocals(Instruction* op) {
    if (op->opcode != Opcode::kDivide || !has_reciprocals(op->shape.type) ||
        constant(op->operands[1]))
      return;
    Instruction broadcast = computation_.at(op->operands[1]);
    if (broadcast.opcode != Opcode::kBroadcast ||
        is_repeated_quotient(*op, broadcast))
      return;
    const InstructionId divisor = broadcast.operands[0];
    if (readers_[index_of(divisor)] != 1) return;
    AppendedOps steps(*op, 'k', &computation_.instructions);
    broadcast.operands = {reciprocal(*op, divisor, &steps)};
    ++readers_[index_of(divisor)];
    broadcast.name.clear();
    op->operands[1] = steps.append(std::move(broadcast));
    op->opcode = Opcode::kMultiply;
    op->opcode_text.clear();
    has_folded_ = true;
  }

  const Module& module_;
  Computation& computation_;
  const ConstantFolding how_;
  std::vector<InstructionId> renumbered_;  ///< [old instruction]
  std::vector<uint32_t> readers_;          ///< [instruction]
  bool has_folded_ = false;
};

}  // namespace

void fold_constants(const Module& module, Computation* computation,
                    const ConstantFolding& how) {
  Folder(module, computation, how).run();
}

ConstantFolding constant_folding(const Module& module) {
  const auto notes = [&](std::string_view note) {
    return has_note(module.attributes, note);
  };
  return {.combines = !notes("reprise_constants=\"separate\""),
          .reciprocals =
              notes("reprise_quotients=\"reciprocals\"")  ? Reciprocals::kAll
              : notes("reprise_quotients=\"reciprocal\"") ? Reciprocals::kHalf
                                                          : Reciprocals::kNone};
}

}  // namespace reprise
