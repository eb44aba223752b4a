#include "data/hlo/expand_failed_check.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/hlo/attribute_reader.h"
#include "data/hlo/expansion_ops.h"
#include "data/hlo/instruction_place.h"
#include "data/hlo/matrix_operation.h"

namespace reprise {
namespace {

/// As a literal; "" of what is no number of JAX's.
std::string value_that_shows(PrimitiveType type) {
  const std::string_view name = primitive_type_name(type);
  const int bits = primitive_type_bits(type);
  switch (name.empty() ? '\0' : name.front()) {
    case 'p':
      return "true";
    case 's':
      return std::to_string(std::numeric_limits<int64_t>::max() >> (64 - bits));
    case 'u':
      return std::to_string(std::numeric_limits<uint64_t>::max() >>
                            (64 - bits));
    case 'c':
      return "(nan, nan)";
    case 'f':
    case 'b':
      return bits < 16 ? std::string() : "nan";
    default:
      return {};
  }
}

std::optional<InstructionId> array_that_shows(const Shape& shape,
                                              ExpansionOps* ops) {
  Instruction value;
  value.opcode = Opcode::kConstant;
  value.shape = array_of(shape.type);
  value.literal = value_that_shows(shape.type);
  if (!shape.is_array() || value.literal.empty()) return std::nullopt;
  return ops->broadcast(ops->append(std::move(value)), {},
                        array_of(shape.type, shape.dimensions));
}

}  // namespace

bool is_failed_check(const Instruction& instruction) {
  const auto has = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  if (instruction.opcode != Opcode::kCustomCall) return false;
  const std::string target = custom_call_target(instruction);
  return has(target, "python") && has(target, "callback") &&
         has(metadata_field(instruction, "op_name"),
             "(branched_error_if_impl)");
}

std::optional<InstructionId> expand_failed_check(const Instruction& call,
                                                 Computation* to) {
  ExpansionOps ops(call, &to->instructions);
  if (call.shape.is_array()) return array_that_shows(call.shape, &ops);
  std::vector<InstructionId> values;
  for (const Shape& each : call.shape.elements) {
    const std::optional<InstructionId> value = array_that_shows(each, &ops);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return ops.tuple(std::move(values));
}

}  // namespace reprise
