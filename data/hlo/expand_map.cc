#include "data/hlo/expand_map.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/hlo/expansion_ops.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

bool is_of_one_element(const Instruction& op, const Instruction& map) {
  if (!op.shape.is_array() || !op.shape.dimensions.empty()) return false;
  if (op.opcode == Opcode::kParameter) {
    return op.parameter_number >= 0 &&
           static_cast<size_t>(op.parameter_number) < map.operands.size();
  }
  return op.opcode == Opcode::kConstant ||
         facts_of(op.opcode).lowering == Lowering::kElement;
}

}  // namespace

std::optional<InstructionId> expand_map(const Instruction& map,
                                        const Computation& function,
                                        Computation* to) {
  if (!std::ranges::all_of(function.instructions, [&](const Instruction& op) {
        return is_of_one_element(op, map);
      }))
    return std::nullopt;
  ExpansionOps ops(map, &to->instructions);
  std::vector<InstructionId> values;
  for (const Instruction& of_element : function.instructions) {
    if (of_element.opcode == Opcode::kParameter) {
      values.push_back(
          map.operands[static_cast<size_t>(of_element.parameter_number)]);
      continue;
    }
    Instruction op = of_element;
    op.name.clear();
    renumber_references(values, &op);
    Shape whole = map.shape;
    whole.type = op.shape.type;
    if (op.opcode == Opcode::kConstant) {
      const InstructionId one = ops.append(std::move(op));
      values.push_back(ops.broadcast(one, {}, std::move(whole)));
    } else {
      op.shape = std::move(whole);
      values.push_back(ops.append(std::move(op)));
    }
  }
  return values[index_of(function.root)];
}

}  // namespace reprise
