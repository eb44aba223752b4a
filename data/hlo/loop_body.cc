#include "data/hlo/loop_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "data/hlo/appended_ops.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// Reshapes that are looked through for a row.
constexpr int kMostReshapes = 16;

/// Ops that have no effect but their value and no computation of their own.
bool may_be_one(const Instruction& op) {
  return op.opcode == Opcode::kGetTupleElement ||
         op.opcode == Opcode::kConcatenate || op.opcode == Opcode::kReshape ||
         op.opcode == Opcode::kDynamicSlice ||
         (op.opcode == Opcode::kConstant && op.shape.dimensions.empty());
}

/// All that an op is but its name, and where it comes from.
std::string identity_of(const Instruction& op) {
  std::string text =
      fmt::format("{} {} {} ", opcode_name(op.opcode),
                  shape_text(op.shape, /*with_layout=*/false), op.literal);
  for (const InstructionId operand : op.operands)
    text += fmt::format("{},", index_of(operand));
  for (const Attribute& attribute : op.attributes) {
    if (attribute.name == "metadata") continue;
    text += fmt::format(" {}=", attribute.name);
    if (const auto* raw = std::get_if<RawText>(&attribute.value))
      text += raw->text;
    if (const auto* list =
            std::get_if<std::vector<int64_t>>(&attribute.value)) {
      for (const int64_t number : *list) text += fmt::format("{},", number);
    }
  }
  return text;
}

bool moves_only(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBroadcast:
    case Opcode::kConcatenate:
    case Opcode::kConvert:
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kSlice:
    case Opcode::kTranspose:
      return true;
    default:
      return false;
  }
}

/// Of the types that indices have: others have no number below 0.
bool is_signed(PrimitiveType type) {
  return type == PrimitiveType::kS32 || type == PrimitiveType::kS64;
}

}  // namespace

LoopBody::LoopBody(const Computation& body, size_t counter, int64_t trips,
                   std::vector<std::optional<int64_t>> starts)
    : starts_(std::move(starts)), counter_(counter), trips_(trips) {
  read_through_tuples(body);
  users_ = users_of(body_);
  const Instruction& root = body_.at(body_.root);
  const std::vector<const Instruction*> parameters = parameters_of(body_);
  is_valid_ = parameters.size() == 1 && root.opcode == Opcode::kTuple &&
              root.operands.size() == parameters[0]->shape.elements.size() &&
              starts_.size() == root.operands.size();
  for (const Instruction& op : body_.instructions) {
    const bool takes_all =
        op.opcode != Opcode::kGetTupleElement &&
        std::any_of(op.operands.begin(), op.operands.end(),
                    [&](InstructionId read) {
                      return at(read).opcode == Opcode::kParameter;
                    });
    is_valid_ = is_valid_ && !takes_all &&
                op.find_attribute("control-predecessors") == nullptr;
  }
  if (is_valid_) note_elements();
}

/// Equal picks are one, so an element is read at one place.
void LoopBody::note_elements() {
  reads_.resize(starts_.size());
  for (uint32_t i = 0; i < body_.instructions.size(); ++i) {
    const auto found = element(InstructionId{i});
    if (!found) continue;
    is_valid_ = is_valid_ && !reads_[*found];
    reads_[*found] = InstructionId{i};
  }
  is_valid_ = is_valid_ && reads_[counter_];
  for (uint32_t i = 0; i < body_.instructions.size(); ++i) {
    const Instruction& op = body_.instructions[i];
    const auto found = element(InstructionId{i});
    moves_.push_back(found ? (is_kept(*found) ? 0 : kMostMoves + 1)
                           : moves_of(op));
    affine_.push_back(found ? counted(*found) : affine(op));
  }
}

int LoopBody::moves_of(const Instruction& op) const {
  if (op.opcode == Opcode::kConstant) return 0;
  if (!moves_only(op.opcode)) return kMostMoves + 1;
  int moves = 1;
  for (const InstructionId operand : op.operands)
    moves = std::min(moves + moves_[index_of(operand)], kMostMoves + 1);
  return moves;
}

void LoopBody::read_through_tuples(const Computation& body) {
  body_ = body;
  body_.instructions.clear();
  std::unordered_map<std::string, InstructionId> known;
  std::vector<InstructionId> now;
  for (const Instruction& original : body.instructions) {
    Instruction op = original;
    renumber_references(now, &op);
    const std::optional<size_t> index = picked_element(op);
    if (index && body_.at(op.operands[0]).opcode == Opcode::kTuple) {
      now.push_back(body_.at(op.operands[0]).operands[*index]);
      continue;
    }
    const InstructionId next{static_cast<uint32_t>(body_.instructions.size())};
    const InstructionId id =
        may_be_one(op) ? known.emplace(identity_of(op), next).first->second
                       : next;
    now.push_back(id);
    if (id == next) body_.instructions.push_back(std::move(op));
  }
  body_.root = now[index_of(body.root)];
  drop_unread([](const Instruction& op) { return op.opcode == Opcode::kTuple; },
              &body_);
}

std::optional<size_t> LoopBody::element(InstructionId id) const {
  const std::optional<size_t> index = picked_element(body_.at(id));
  if (!index || body_.at(body_.at(id).operands[0]).opcode != Opcode::kParameter)
    return std::nullopt;
  return index;
}

bool LoopBody::is_kept(size_t element) const {
  return this->element(next(element)) == element;
}

std::optional<InstructionId> LoopBody::only_user(InstructionId id) const {
  if (users(id).size() != 1) return std::nullopt;
  const std::vector<InstructionId>& read = at(users(id)[0]).operands;
  if (std::count(read.begin(), read.end(), id) != 1) return std::nullopt;
  return users(id)[0];
}

/// Of an element that each step adds the same number to.
std::optional<StepPlace> LoopBody::counted(size_t element) const {
  const Instruction& op = at(next(element));
  if (op.opcode != Opcode::kAdd || !starts_[element]) return std::nullopt;
  for (const size_t old : {size_t{0}, size_t{1}}) {
    const auto more = integer_constant(at(op.operands[1 - old]));
    if (this->element(op.operands[old]) == element && more &&
        std::abs(*more) == 1)
      return StepPlace{*more, *starts_[element]};
  }
  return std::nullopt;
}

std::optional<StepPlace> LoopBody::affine(const Instruction& op) const {
  constexpr int64_t kMostOffset = int64_t{1} << 40;
  if (const auto number = integer_constant(op)) {
    return std::abs(*number) <= kMostOffset
               ? std::optional(StepPlace{0, *number})
               : std::nullopt;
  }
  switch (op.opcode) {
    case Opcode::kConvert:  // To fewer bits it may wrap around.
      if (primitive_type_bits(op.shape.type) < 32) return std::nullopt;
      return affine(op.operands[0]);
    case Opcode::kCopy:
    case Opcode::kReshape:
      return affine(op.operands[0]);
    case Opcode::kAdd:
    case Opcode::kSubtract: {
      const auto a = affine(op.operands[0]), b = affine(op.operands[1]);
      if (!a || !b) return std::nullopt;
      const int64_t sign = op.opcode == Opcode::kAdd ? 1 : -1;
      const StepPlace sum{a->sign + sign * b->sign,
                          a->offset + sign * b->offset};
      if (std::abs(sum.sign) > 1 || std::abs(sum.offset) > kMostOffset)
        return std::nullopt;
      return sum;
    }
    case Opcode::kSelect:
      return chosen(op);
    default:
      return std::nullopt;
  }
}

/// `index < 0 ? index + extent : index`, of an index that always is or never.
std::optional<StepPlace> LoopBody::chosen(const Instruction& select) const {
  const Instruction& test = at(select.operands[0]);
  if (test.opcode != Opcode::kCompare || compare_direction(test) != "LT" ||
      !is_signed(at(test.operands[0]).shape.type) ||
      affine(test.operands[1]) != StepPlace{0, 0})
    return std::nullopt;
  const auto tested = affine(test.operands[0]);
  if (!tested) return std::nullopt;
  const int64_t first = tested->offset,
                last = tested->sign * (trips_ - 1) + tested->offset;
  if ((first < 0) != (last < 0)) return std::nullopt;
  return affine(select.operands[first < 0 ? 1 : 2]);
}

std::optional<StepPlace> LoopBody::place(InstructionId index) const {
  const auto found = affine(index);
  const bool is_forward = found == StepPlace{1, 0},
             is_backward = found == StepPlace{-1, trips_ - 1};
  return is_forward || is_backward ? found : std::nullopt;
}

std::optional<InstructionId> LoopBody::row_index(InstructionId slice) const {
  const Instruction& op = at(slice);
  const bool is_update = op.opcode == Opcode::kDynamicUpdateSlice;
  if (!is_update && op.opcode != Opcode::kDynamicSlice) return std::nullopt;
  const Shape& array = at(op.operands[0]).shape;
  const Shape& row = is_update ? at(op.operands[1]).shape : op.shape;
  const size_t first = is_update ? 2 : 1;
  if (array.dimensions.empty() || array.dimensions[0] != trips_ ||
      row.dimensions[0] != 1 ||
      op.operands.size() != first + array.dimensions.size())
    return std::nullopt;
  for (size_t d = 1; d < array.dimensions.size(); ++d) {
    if (row.dimensions[d] != array.dimensions[d] ||
        affine(op.operands[first + d]) != StepPlace{0, 0})
      return std::nullopt;
  }
  return op.operands[first];
}

std::optional<StackRow> LoopBody::row(InstructionId value) const {
  InstructionId id = value;
  for (int i = 0; i < kMostReshapes && at(id).opcode == Opcode::kReshape; ++i)
    id = at(id).operands[0];
  if (at(id).opcode != Opcode::kDynamicSlice) return std::nullopt;
  const auto index = row_index(id);
  const auto array = element(at(id).operands[0]);
  if (!index || !array || !is_kept(*array)) return std::nullopt;
  const auto found = place(*index);
  if (!found) return std::nullopt;
  return StackRow{*array, *found, *index};
}

}  // namespace reprise
