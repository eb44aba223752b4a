#include "data/hlo/expand_opcodes.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "data/hlo/expand_failed_check.h"
#include "data/hlo/expand_map.h"
#include "data/hlo/expand_ragged_dot.h"
#include "data/hlo/expand_scan.h"
#include "data/hlo/expand_symmetric_product.h"
#include "data/hlo/expansion_ops.h"
#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"

namespace reprise {
namespace {

/// A permute between no ranks, as of a shift by one on one rank: nobody
/// receives, and what receives nothing has zeros.
bool is_permute_of_none(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kCollectivePermute ||
      !instruction.shape.is_array() ||
      instruction.find_attribute("source_target_pairs") == nullptr)
    return false;
  const auto pairs = source_target_pairs(instruction);
  return pairs && pairs->empty();
}

bool is_expandable(const Instruction& instruction) {
  return instruction.opcode == Opcode::kScan ||
         is_permute_of_none(instruction) ||
         (instruction.opcode == Opcode::kMap &&
          called_computation(instruction)) ||
         instruction.opcode == Opcode::kRaggedDot ||
         is_symmetric_product(instruction) || is_failed_check(instruction) ||
         (instruction.opcode == Opcode::kTriangularSolve &&
          is_complex(instruction.shape.type));
}

void renumber_calls(const std::vector<ComputationId>& now,
                    Instruction* instruction) {
  for (Attribute& attribute : instruction->attributes) {
    if (auto* one = std::get_if<ComputationId>(&attribute.value)) {
      *one = now[index_of(*one)];
    } else if (auto* many =
                   std::get_if<std::vector<ComputationId>>(&attribute.value)) {
      for (ComputationId& id : *many) id = now[index_of(id)];
    }
  }
}

Computation expanded(const Computation& computation, RebuiltModule* rebuilt) {
  Computation made = computation;
  made.instructions.clear();
  std::vector<InstructionId> now;
  for (const Instruction& original : computation.instructions) {
    Instruction instruction = original;
    renumber_references(now, &instruction);
    renumber_calls(rebuilt->now, &instruction);
    std::optional<InstructionId> in_place;
    if (original.opcode == Opcode::kScan) {
      in_place =
          expand_scan(computation, original, instruction, rebuilt, &made);
    } else if (original.opcode == Opcode::kMap) {
      if (const auto function = called_computation(instruction)) {
        in_place =
            expand_map(instruction, rebuilt->made[index_of(*function)], &made);
      }
    } else if (original.opcode == Opcode::kRaggedDot) {
      in_place = expand_ragged_dot(computation, instruction, rebuilt, &made);
    } else if (is_symmetric_product(original)) {
      in_place = expand_symmetric_product(instruction, &made);
    } else if (is_failed_check(original)) {
      in_place = expand_failed_check(instruction, &made);
    } else if (is_permute_of_none(original)) {
      in_place = ExpansionOps(instruction, &made.instructions)
                     .zeros(instruction.shape);
    } else if (is_expandable(original)) {
      instruction = triangular_solve_call(instruction);
    }
    if (!in_place) {
      made.instructions.push_back(std::move(instruction));
      in_place =
          InstructionId{static_cast<uint32_t>(made.instructions.size() - 1)};
    }
    now.push_back(*in_place);
  }
  made.root = now[index_of(computation.root)];
  return made;
}

}  // namespace

bool has_expandable(const Module& module) {
  return std::ranges::any_of(
      module.computations, [](const Computation& computation) {
        return std::ranges::any_of(computation.instructions, is_expandable);
      });
}

Module expand_opcodes(const Module& module) {
  RebuiltModule rebuilt{.from = module};
  for (const Computation& computation : module.computations) {
    Computation made = expanded(computation, &rebuilt);
    rebuilt.now.push_back(rebuilt.add(std::move(made)));
  }
  Module made = module;
  made.computations = std::move(rebuilt.made);
  made.entry = rebuilt.now[index_of(module.entry)];
  return made;
}

}  // namespace reprise
