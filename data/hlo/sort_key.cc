// Two values are the same function of an even and of the next odd parameter
// where value numbering, which takes the two for one, gives them one number.
#include "data/hlo/sort_key.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/element.h"
#include "data/hlo/appended_ops.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// What the comparator gives, behind the copies of its form.
InstructionId compared(const Computation& entry) {
  InstructionId id = entry.at(entry.root).operands.front();
  while (entry.at(id).opcode == Opcode::kCopy)
    id = entry.at(id).operands.front();
  return id;
}

/// Numbers values so that two have one number where they are the same function,
/// one of even parameters and the other of the odd ones after them.
class ValueNumbers {
 public:
  static constexpr int64_t kNone = -1, kSeveral = -2;
  struct Value {
    uint32_t number = 0;
    int64_t parameter = kNone;  ///< That it reads.
  };

  explicit ValueNumbers(const Computation& entry) {
    for (const Instruction& instruction : entry.instructions)
      values_.push_back(value_of(instruction));
  }
  const Value& of(InstructionId id) const { return values_[index_of(id)]; }

 private:
  static constexpr size_t kMostAlike = 16;
  /// Opcode, literal, pair of parameters, operands' numbers.
  using Meaning =
      std::tuple<std::string, std::string, int64_t, std::vector<uint32_t>>;

  Value value_of(const Instruction& instruction) {
    Value value;
    std::vector<uint32_t> operands;
    for (const InstructionId operand : instruction.operands) {
      operands.push_back(of(operand).number);
      const int64_t read = of(operand).parameter;
      if (read == kNone) continue;
      value.parameter =
          value.parameter == kNone || value.parameter == read ? read : kSeveral;
    }
    int64_t pair = kNone;
    if (instruction.opcode == Opcode::kParameter) {
      value.parameter = instruction.parameter_number;
      pair = instruction.parameter_number / 2;
    }
    auto& alike = alike_[{std::string(written_opcode(instruction)),
                          instruction.literal, pair, std::move(operands)}];
    const auto same =
        std::find_if(alike.begin(), alike.end(), [&](const auto& other) {
          return is_same_op(*other.first, instruction);
        });
    value.number = same != alike.end() ? same->second
                                       : static_cast<uint32_t>(values_.size());
    if (same == alike.end() && alike.size() < kMostAlike)
      alike.emplace_back(&instruction, value.number);
    return value;
  }

  static bool is_same_op(const Instruction& a, const Instruction& b) {
    const auto meaning = [](const Instruction& instruction) {
      std::vector<Attribute> kept;
      for (const Attribute& attribute : instruction.attributes)
        if (attribute.name != "metadata") kept.push_back(attribute);
      return kept;
    };
    return a.shape == b.shape && meaning(a) == meaning(b);
  }

  std::vector<Value> values_;
  std::map<Meaning, std::vector<std::pair<const Instruction*, uint32_t>>>
      alike_;
};

}  // namespace

std::optional<InlinedModule> sort_key(const InlinedModule& comparator) {
  const Computation& entry = comparator.entry_computation();
  if (entry.at(entry.root).operands.size() != 1) return std::nullopt;
  const Instruction& compare = entry.at(compared(entry));
  if (compare.opcode != Opcode::kCompare) return std::nullopt;
  const std::string direction = compare_direction(compare);
  if (direction != "LT" && direction != "GT") return std::nullopt;
  if (!has_plain_elements(entry.at(compare.operands[0]).shape.type))
    return std::nullopt;
  const InstructionId key_of = compare.operands[0];
  const ValueNumbers values(entry);
  const ValueNumbers::Value x = values.of(key_of),
                            y = values.of(compare.operands[1]);
  if (x.number != y.number || x.parameter < 0 || x.parameter % 2 != 0 ||
      y.parameter != x.parameter + 1)
    return std::nullopt;

  InlinedModule key = comparator;
  Computation& function = key.computations[index_of(key.entry)];
  Instruction& root = function.instructions[index_of(function.root)];
  Instruction& copy = function.instructions[index_of(root.operands.front())];
  copy.operands = {key_of};
  root.shape.elements.front() = copy.shape = function.at(key_of).shape;
  drop_unread(
      [](const Instruction& instruction) {
        return instruction.opcode != Opcode::kParameter;
      },
      &function);
  return key;
}

bool sorts_by_partial_order(const InlinedModule& comparator) {
  const Computation& entry = comparator.entry_computation();
  const Instruction& compare = entry.at(compared(entry));
  return is_plain_float(entry.at(compare.operands[0]).shape.type) &&
         !compares_total_order(compare);
}

bool sorts_descending(const InlinedModule& comparator) {
  const Computation& entry = comparator.entry_computation();
  return compare_direction(entry.at(compared(entry))) == "GT";
}

}  // namespace reprise
