// Makes the facts from the rows of opcode_table.inc, as constants of the
// program.
#include "data/hlo/opcode.h"

#include <array>
#include <string_view>
#include <unordered_map>

namespace reprise {
namespace {

constexpr uint8_t kAny = OpcodeFacts::kAny;
/// More than a few additions: a nest does not compute such a value twice.
constexpr int32_t kReductionWeight = 16;

// NOLINTBEGIN(bugprone-macro-parentheses): arguments are enumerators.
constexpr OpcodeFacts kFacts[] = {
#define REPRISE_ELEMENTWISE(id, text, operands, run, operand_types, call, \
                            count, cost, result_type, neutral)            \
  {.name = text,                                                          \
   .least_operands = operands,                                            \
   .most_operands = operands,                                             \
   .lowering = Lowering::run,                                             \
   .flops = FlopsRule::count,                                             \
   .elementwise = true,                                                   \
   .types = ElementTypes::operand_types,                                  \
   .function = #call,                                                     \
   .weight = cost,                                                        \
   .result = ResultType::result_type,                                     \
   .identity = Identity::neutral},
#define REPRISE_OPCODE(id, text, least, most, drawn, run, count, moved) \
  {.name = text,                                                        \
   .least_operands = least,                                             \
   .most_operands = most,                                               \
   .kind = OpcodeKind::drawn,                                           \
   .lowering = Lowering::run,                                           \
   .flops = FlopsRule::count,                                           \
   .bytes = BytesRule::moved,                                           \
   .weight = Lowering::run == Lowering::kReduction ? kReductionWeight : 1},
#include "data/hlo/opcode_table.inc"
};
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace

const OpcodeFacts& facts_of(Opcode opcode) {
  return kFacts[static_cast<size_t>(opcode)];
}

std::string_view opcode_name(Opcode opcode) { return facts_of(opcode).name; }

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Opcode> map;
    for (size_t i = 0; i < std::size(kFacts); ++i)
      map.emplace(kFacts[i].name, static_cast<Opcode>(i));
    return map;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

bool is_collective(Opcode opcode) {
  return facts_of(opcode).lowering == Lowering::kCollective;
}

bool runs_elementwise(Opcode opcode) {
  return facts_of(opcode).lowering == Lowering::kElement;
}

bool is_view(Opcode opcode) {
  const Lowering lowering = facts_of(opcode).lowering;
  return lowering == Lowering::kView || lowering == Lowering::kReshape;
}

bool is_reshape(Opcode opcode) {
  return facts_of(opcode).lowering == Lowering::kReshape;
}

}  // namespace reprise
