#include "data/hlo/sum_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// Elements of a step that several dimensions share.
constexpr int64_t kMostShared = 64;

bool is_zero(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kConstant) return false;
  const Result<std::vector<double>> values = literal_values(instruction);
  return values && values->size() == 1 && values->front() == 0;
}

bool is_plain_sum(const Module& module, const Computation& entry,
                  const Instruction& reduce) {
  return reduce.opcode == Opcode::kReduce && reduce.operands.size() == 2 &&
         reduce.shape.is_array() && reduce.shape.type == PrimitiveType::kF32 &&
         combining_opcode(module, reduce) == Opcode::kAdd &&
         is_zero(entry.at(reduce.operands[1]));
}

/// Dimensions of the operand by step, the innermost first; those of extent 1
/// are in the last.
std::vector<std::vector<int64_t>> parted(const Shape& operand,
                                         std::vector<int64_t> reduced) {
  std::sort(reduced.rbegin(), reduced.rend());
  std::vector<std::vector<int64_t>> steps;
  std::vector<int64_t> rest;
  int64_t shared = kMostShared;
  for (const int64_t d : reduced) {
    const int64_t extent = operand.dimensions[static_cast<size_t>(d)];
    if (extent == 1) {
      rest.push_back(d);
      continue;
    }
    if (steps.empty() || shared * extent > kMostShared) {
      steps.emplace_back();
      shared = 1;
    }
    steps.back().push_back(d);
    shared *= extent;
  }
  if (!steps.empty())
    steps.back().insert(steps.back().end(), rest.begin(), rest.end());
  return steps;
}

/// The innermost dimension of more than one element stays.
bool keeps_minor(const Shape& operand, const std::vector<int64_t>& reduced) {
  for (size_t d = operand.dimensions.size(); d-- > 0;) {
    if (operand.dimensions[d] == 1) continue;
    return std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) ==
           reduced.end();
  }
  return false;
}

}  // namespace

std::vector<Instruction> sum_steps(const Module& module,
                                   const Computation& entry,
                                   const Instruction& reduce) {
  if (!is_plain_sum(module, entry, reduce)) return {};
  const Shape& operand = entry.at(reduce.operands[0]).shape;
  const std::vector<int64_t> reduced = integer_list(reduce, "dimensions");
  if (!keeps_minor(operand, reduced)) return {};
  const std::vector<std::vector<int64_t>> wanted = parted(operand, reduced);
  if (wanted.size() < 2) return {};
  std::vector<Instruction> steps;
  std::vector<int64_t> left(operand.dimensions.size());  // Of the operand's.
  for (size_t d = 0; d < left.size(); ++d) left[d] = static_cast<int64_t>(d);
  for (const std::vector<int64_t>& dimensions : wanted) {
    Instruction& step = steps.emplace_back(reduce);
    step.name = fmt::format("{}/{}", reduce.name, steps.size());
    std::vector<int64_t> places, kept, extents;
    for (size_t k = 0; k < left.size(); ++k) {
      if (std::find(dimensions.begin(), dimensions.end(), left[k]) !=
          dimensions.end()) {
        places.push_back(static_cast<int64_t>(k));
        continue;
      }
      kept.push_back(left[k]);
      extents.push_back(operand.dimensions[static_cast<size_t>(left[k])]);
    }
    for (Attribute& attribute : step.attributes) {
      if (attribute.name == "dimensions") attribute.value = places;
    }
    step.shape = Shape{};
    step.shape.type = operand.type;
    step.shape.dimensions = std::move(extents);
    left = std::move(kept);
  }
  steps.back().name = reduce.name;
  steps.back().shape = reduce.shape;
  return steps;
}

}  // namespace reprise
