#include "data/hlo/loop_body.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "data/hlo/appended_ops.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

std::optional<size_t> picked_element(const Instruction& picked) {
  const std::vector<int64_t> index = integer_list(picked, "index");
  if (picked.opcode != Opcode::kGetTupleElement || index.size() != 1)
    return std::nullopt;
  return static_cast<size_t>(index[0]);
}

/// Ops that have no effect but their value and no computation of their own.
bool may_be_one(const Instruction& op) {
  return op.opcode == Opcode::kGetTupleElement ||
         op.opcode == Opcode::kConcatenate || op.opcode == Opcode::kReshape ||
         op.opcode == Opcode::kDynamicSlice ||
         (op.opcode == Opcode::kConstant && op.shape.dimensions.empty());
}

bool same_but_for_name(const Instruction& a, const Instruction& b) {
  if (a.opcode != b.opcode || a.operands != b.operands ||
      a.literal != b.literal || a.shape.type != b.shape.type ||
      a.shape.dimensions != b.shape.dimensions)
    return false;
  const auto own = [](const Instruction& op) {
    std::vector<Attribute> attributes = op.attributes;
    std::erase_if(attributes,
                  [](const Attribute& one) { return one.name == "metadata"; });
    return attributes;
  };
  return own(a) == own(b);
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

std::optional<int64_t> integer_constant(const Instruction& op) {
  if (op.opcode != Opcode::kConstant || !op.shape.dimensions.empty())
    return std::nullopt;
  const auto values = literal_values(op);
  constexpr double kMost = 1LL << 40;
  if (!values || !((*values)[0] >= -kMost && (*values)[0] <= kMost))
    return std::nullopt;
  return static_cast<int64_t>((*values)[0]);
}

LoopBody::LoopBody(const Computation& body, size_t counter, int64_t trips,
                   std::vector<std::optional<int64_t>> starts)
    : starts_(std::move(starts)), counter_(counter), trips_(trips) {
  read_through_tuples(body);
  users_ = users_of(body_);
  const Instruction& root = body_.at(body_.root);
  const std::vector<const Instruction*> parameters = parameters_of(body_);
  is_valid_ = parameters.size() == 1 && root.opcode == Opcode::kTuple &&
              root.operands.size() == parameters[0]->shape.elements.size();
  for (uint32_t i = 0; i < body_.instructions.size(); ++i) {
    const Instruction& op = body_.instructions[i];
    if (element(InstructionId{i}) == counter_) counter_id_ = InstructionId{i};
    const bool takes_all =
        op.opcode != Opcode::kGetTupleElement &&
        std::any_of(op.operands.begin(), op.operands.end(),
                    [&](InstructionId read) {
                      return at(read).opcode == Opcode::kParameter;
                    });
    is_valid_ = is_valid_ && !takes_all &&
                op.find_attribute("control-predecessors") == nullptr;
  }
}

void LoopBody::read_through_tuples(const Computation& body) {
  body_ = body;
  body_.instructions.clear();
  std::vector<InstructionId> now;
  for (const Instruction& original : body.instructions) {
    Instruction op = original;
    renumber_references(now, &op);
    const std::optional<size_t> index = picked_element(op);
    if (index && body_.at(op.operands[0]).opcode == Opcode::kTuple) {
      now.push_back(body_.at(op.operands[0]).operands[*index]);
      continue;
    }
    if (const auto same = equal_before(op)) {
      now.push_back(*same);
      continue;
    }
    now.push_back(
        InstructionId{static_cast<uint32_t>(body_.instructions.size())});
    body_.instructions.push_back(std::move(op));
  }
  body_.root = now[index_of(body.root)];
  std::vector<uint32_t> uses = use_counts(body_);
  std::vector<bool> dropped(uses.size(), false);
  for (size_t i = uses.size(); i-- > 0;) {
    const Instruction& op = body_.instructions[i];
    if (uses[i] > 0 || op.opcode != Opcode::kTuple) continue;
    dropped[i] = true;
    for (const InstructionId operand : op.operands) --uses[index_of(operand)];
  }
  drop_instructions(dropped, &body_);
}

std::optional<InstructionId> LoopBody::equal_before(const Instruction& op) {
  if (!may_be_one(op)) return std::nullopt;
  const auto found = std::find_if(
      body_.instructions.begin(), body_.instructions.end(),
      [&](const Instruction& other) { return same_but_for_name(op, other); });
  if (found == body_.instructions.end()) return std::nullopt;
  return InstructionId{
      static_cast<uint32_t>(found - body_.instructions.begin())};
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

std::optional<InstructionId> LoopBody::only_reader(size_t element) const {
  std::optional<InstructionId> found;
  for (uint32_t i = 0; i < body_.instructions.size(); ++i) {
    if (this->element(InstructionId{i}) != element) continue;
    if (found) return std::nullopt;
    found = only_user(InstructionId{i});
    if (!found) return std::nullopt;
  }
  return found;
}

bool LoopBody::is_invariant(InstructionId id) const {
  const Instruction& op = at(id);
  if (const auto kept = element(id)) return is_kept(*kept);
  if (op.opcode == Opcode::kConstant) return true;
  return moves_only(op.opcode) &&
         std::all_of(op.operands.begin(), op.operands.end(),
                     [&](InstructionId read) { return is_invariant(read); });
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

std::optional<StepPlace> LoopBody::affine(InstructionId index) const {
  const Instruction& op = at(index);
  if (const auto counter = element(index)) return counted(*counter);
  if (const auto number = integer_constant(op)) return StepPlace{0, *number};
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
      return sum.sign * sum.sign <= 1 ? std::optional(sum) : std::nullopt;
    }
    case Opcode::kSelect: {
      // `index < 0 ? index + extent : index`, of an index that always is or
      // never.
      const Instruction& test = at(op.operands[0]);
      if (test.opcode != Opcode::kCompare || compare_direction(test) != "LT" ||
          !is_signed(at(test.operands[0]).shape.type) ||
          affine(test.operands[1]) != StepPlace{0, 0})
        return std::nullopt;
      const auto tested = affine(test.operands[0]);
      if (!tested) return std::nullopt;
      const int64_t first = tested->offset,
                    last = tested->sign * (trips_ - 1) + tested->offset;
      if ((first < 0) != (last < 0)) return std::nullopt;
      return affine(op.operands[first < 0 ? 1 : 2]);
    }
    default:
      return std::nullopt;
  }
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
  while (at(id).opcode == Opcode::kReshape) id = at(id).operands[0];
  if (at(id).opcode != Opcode::kDynamicSlice) return std::nullopt;
  const auto index = row_index(id);
  const auto array = element(at(id).operands[0]);
  if (!index || !array || !is_kept(*array)) return std::nullopt;
  const auto found = place(*index);
  if (!found) return std::nullopt;
  return StackRow{*array, *found, *index};
}

}  // namespace reprise
