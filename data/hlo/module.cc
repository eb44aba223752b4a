#include "data/hlo/module.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "data/hlo/appended_ops.h"

namespace reprise {

int64_t header_count(const Module& module, std::string_view name) {
  constexpr int64_t kMost = int64_t{1} << 20;
  int64_t count = 1;
  for (const Attribute& attribute : module.attributes) {
    const auto* raw = std::get_if<RawText>(&attribute.value);
    if (attribute.name != name || raw == nullptr) continue;
    std::from_chars(raw->text.data(), raw->text.data() + raw->text.size(),
                    count);
  }
  return std::clamp<int64_t>(count, 1, kMost);
}

std::vector<ComputationId> program_parts(const Module& module) {
  std::vector<bool> is_part(module.computations.size(), false);
  is_part[index_of(module.entry)] = true;
  for (const Computation& computation : module.computations) {
    for (const Instruction& caller : computation.instructions) {
      if (facts_of(caller.opcode).lowering != Lowering::kCaller) continue;
      for (const Attribute& attribute : caller.attributes) {
        if (const auto* one = std::get_if<ComputationId>(&attribute.value))
          is_part[index_of(*one)] = true;
        const auto* all =
            std::get_if<std::vector<ComputationId>>(&attribute.value);
        for (size_t i = 0; all != nullptr && i < all->size(); ++i)
          is_part[index_of((*all)[i])] = true;
      }
    }
  }
  std::vector<ComputationId> parts;
  for (size_t i = 0; i < is_part.size(); ++i) {
    if (is_part[i]) parts.push_back(ComputationId{static_cast<uint32_t>(i)});
  }
  return parts;
}

bool has_note(const std::vector<Attribute>& attributes, std::string_view note) {
  return std::any_of(
      attributes.begin(), attributes.end(), [&](const Attribute& attribute) {
        const auto* raw = std::get_if<RawText>(&attribute.value);
        return attribute.name == "frontend_attributes" && raw != nullptr &&
               raw->text.find(note) != std::string::npos;
      });
}

void add_note(std::string_view note, std::vector<Attribute>* attributes) {
  for (Attribute& attribute : *attributes) {
    auto* raw = std::get_if<RawText>(&attribute.value);
    if (attribute.name != "frontend_attributes" || raw == nullptr ||
        !raw->text.ends_with('}'))
      continue;
    raw->text.pop_back();
    raw->text += fmt::format("{}{}}}", raw->text == "{" ? "" : ",", note);
    return;
  }
  attributes->push_back(
      {"frontend_attributes", RawText{fmt::format("{{{}}}", note)}});
}

const Attribute* Instruction::find_attribute(
    std::string_view attribute_name) const {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == attribute_name) return &attribute;
  }
  return nullptr;
}

std::string_view written_opcode(const Instruction& instruction) {
  return instruction.opcode_text.empty() ? opcode_name(instruction.opcode)
                                         : instruction.opcode_text;
}

Opcode wrapped_opcode(const Instruction& instruction) {
  const std::string_view text = instruction.opcode_text;
  if (text.empty()) return instruction.opcode;
  const auto wrapped = opcode_from_name(text.substr(0, text.rfind('-')));
  // Dumps before 2023 print the wrapping computation beside the sugar.
  const bool names_wrapper =
      wrapped != Opcode::kFusion && called_computation(instruction, "calls");
  return wrapped && !names_wrapper ? *wrapped : instruction.opcode;
}

const Shape& computed_shape(const Instruction& instruction) {
  const std::vector<Shape>& elements = instruction.shape.elements;
  if (elements.size() < 2) return instruction.shape;
  switch (instruction.opcode) {
    case Opcode::kAllGatherStart:
    case Opcode::kAsyncStart:
    case Opcode::kCollectivePermuteStart:
      return elements[1];
    case Opcode::kCopyStart:
      return elements[0];
    default:
      return instruction.shape;
  }
}

Instruction unwrapped(const Instruction& start) {
  Instruction plain = start;
  plain.opcode = wrapped_opcode(start);
  plain.opcode_text.clear();
  plain.shape = computed_shape(start);
  return plain;
}

std::vector<const Instruction*> parameters_of(const Computation& computation) {
  std::vector<const Instruction*> parameters;
  for (const Instruction& instruction : computation.instructions) {
    if (instruction.opcode == Opcode::kParameter)
      parameters.push_back(&instruction);
  }
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const Instruction* a, const Instruction* b) {
                     return a->parameter_number < b->parameter_number;
                   });
  return parameters;
}

bool has_control_predecessors(const Instruction& instruction) {
  const Attribute* found = instruction.find_attribute("control-predecessors");
  const auto* ids =
      found == nullptr ? nullptr
                       : std::get_if<std::vector<InstructionId>>(&found->value);
  return ids != nullptr && !ids->empty();
}

std::vector<uint32_t> use_counts(const Computation& computation) {
  std::vector<uint32_t> uses(computation.instructions.size(), 0);
  for (const Instruction& instruction : computation.instructions) {
    for (const InstructionId operand : instruction.operands)
      ++uses[index_of(operand)];
    for (const Attribute& attribute : instruction.attributes) {
      const auto* ids =
          std::get_if<std::vector<InstructionId>>(&attribute.value);
      if (ids == nullptr) continue;
      for (const InstructionId id : *ids) ++uses[index_of(id)];
    }
  }
  ++uses[index_of(computation.root)];
  return uses;
}

void drop_instructions(const std::vector<bool>& dropped,
                       Computation* computation) {
  std::vector<InstructionId> renumbered;
  std::vector<Instruction> kept;
  for (size_t i = 0; i < dropped.size(); ++i) {
    renumbered.push_back(InstructionId(static_cast<uint32_t>(kept.size())));
    if (dropped[i]) continue;
    Instruction instruction = std::move(computation->instructions[i]);
    renumber_references(renumbered, &instruction);
    kept.push_back(std::move(instruction));
  }
  computation->root = renumbered[index_of(computation->root)];
  computation->instructions = std::move(kept);
}

std::vector<std::vector<InstructionId>> users_of(
    const Computation& computation) {
  std::vector<std::vector<InstructionId>> users(
      computation.instructions.size());
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    const InstructionId user{i};
    for (const InstructionId operand : computation.at(user).operands) {
      std::vector<InstructionId>& list = users[index_of(operand)];
      if (list.empty() || list.back() != user) list.push_back(user);
    }
  }
  return users;
}

std::vector<int64_t> integer_list(const Instruction& instruction,
                                  std::string_view attribute) {
  const Attribute* found = instruction.find_attribute(attribute);
  if (found == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&found->value))
    return *list;
  const auto* raw = std::get_if<RawText>(&found->value);
  if (raw == nullptr) return {};
  int64_t value = 0;
  const char* end = raw->text.data() + raw->text.size();
  const auto parsed = std::from_chars(raw->text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return {};
  return {value};
}

std::optional<size_t> picked_element(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kGetTupleElement) return std::nullopt;
  const std::vector<int64_t> index = integer_list(instruction, "index");
  if (index.size() != 1 || index[0] < 0) return std::nullopt;
  return static_cast<size_t>(index[0]);
}

std::optional<ComputationId> called_computation(const Instruction& instruction,
                                                std::string_view attribute) {
  const Attribute* found = instruction.find_attribute(attribute);
  if (found == nullptr) return std::nullopt;
  if (const auto* id = std::get_if<ComputationId>(&found->value)) return *id;
  return std::nullopt;
}

}  // namespace reprise
