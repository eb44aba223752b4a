// Modules that tests of data/hlo read from text.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "data/element.h"
#include "data/hlo/hlo.h"

namespace reprise {

/// Calls inside of a call, with results that are tuples.
inline constexpr const char* kNested = R"(HloModule nested

%inner (ia: f32[4]) -> (f32[4], f32[4]) {
  %ia = f32[4] parameter(0)
  %neg = f32[4] negate(%ia)
  ROOT %pair = (f32[4], f32[4]) tuple(%neg, %ia)
}

%outer (oa: f32[4]) -> f32[4] {
  %oa = f32[4] parameter(0)
  %in = (f32[4], f32[4]) call(%oa), to_apply=%inner
  %left = f32[4] get-tuple-element(%in), index=0
  %right = f32[4] get-tuple-element(%in), index=1
  ROOT %sum = f32[4] add(%left, %right)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4] parameter(0)
  %once = f32[4] call(%x), to_apply=%outer
  %twice = f32[4] call(%once), to_apply=%outer
  ROOT %out = f32[4] multiply(%once, %twice)
}
)";

inline Module module_of(const std::string& text) {
  auto module = parse_hlo(text, "in.hlo");
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message);
  return module ? std::move(*module) : Module();
}

/// `opcode(operand, …)` of the entry's ops of f32, constants as their number.
inline std::string arithmetic(const Computation& computation) {
  std::string text;
  const auto name = [&](InstructionId id) {
    const Instruction* read = &computation.at(id);
    if (read->opcode == Opcode::kBroadcast)
      read = &computation.at(read->operands[0]);
    if (read->opcode != Opcode::kConstant) return read->name;
    return fmt::format("{}",
                       static_cast<float>(literal_values(*read)->front()));
  };
  for (const Instruction& op : computation.instructions) {
    if (!runs_elementwise(op.opcode)) continue;
    text += op.name + "=" + std::string(opcode_name(op.opcode)) + "(";
    for (size_t i = 0; i < op.operands.size(); ++i)
      text += (i == 0 ? "" : ", ") + name(op.operands[i]);
    text += ")\n";
  }
  return text;
}

/// `opcode(operand type, …) type` of the entry's instructions, in order.
inline std::string signatures(const Computation& computation) {
  std::string text;
  for (const Instruction& instruction : computation.instructions) {
    text += std::string(opcode_name(instruction.opcode)) + "(";
    for (const InstructionId operand : instruction.operands) {
      const Instruction& read = computation.at(operand);
      text += read.name + ":" +
              std::string(primitive_type_name(read.shape.type)) + " ";
    }
    text += ")" + std::string(primitive_type_name(instruction.shape.type));
    text += "\n";
  }
  return text;
}

}  // namespace reprise
