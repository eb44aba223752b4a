// The steps of lowering in order: checks, nests (hero.h, canonical_maps.h,
// trace.h), statements (emit.cc), flops.
#include "data/kernel/lower_kernel.h"

#include <stdexcept>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "data/kernel/nest.h"

namespace reprise {
namespace {

/// What no kernel can hold, found before any tracing.
Status check_members(const Group& group) {
  for (const InstructionId id : group.members()) {
    const Instruction& instruction = group.at(id);
    if (!instruction.shape.is_array() ||
        !is_kernel_type(instruction.shape.type)) {
      return fail(ErrorKind::kUnsupported, "{}: no kernel computes {}",
                  instruction.name, shape_text(instruction.shape, false));
    }
    if (element_count(instruction.shape) == 0) {
      return fail(ErrorKind::kUnsupported,
                  "{}: an array without elements has no kernel",
                  instruction.name);
    }
    for (const InstructionId operand : instruction.operands) {
      const Shape& shape = group.at(operand).shape;
      if (shape.is_array() && element_count(shape) == 0) {
        return fail(ErrorKind::kUnsupported,
                    "{}: an operand without elements has no kernel",
                    instruction.name);
      }
    }
  }
  return {};
}

Result<Kernel> lower_group(const Module& inlined,
                           std::span<const InstructionId> ops,
                           std::span<const InstructionId> outputs) {
  if (outputs.empty())
    return fail(ErrorKind::kInvalid, "a kernel without outputs");
  const Group group(inlined, ops, outputs);
  if (const Status checked = check_members(group); !checked)
    return pass(checked.error());
  Result<NestList> nests = build_nests(group);
  if (!nests) return pass(nests.error());
  Kernel kernel;
  emit_nests(group, *nests, kernel);
  for (const InstructionId id : group.members()) {
    kernel.flops += instruction_cost(inlined, group.computation(), id).flops;
  }
  return kernel;
}

}  // namespace

Result<Kernel> lower_kernel(const Module& inlined,
                            std::span<const InstructionId> ops,
                            std::span<const InstructionId> outputs) {
  // Dimension numbers that contradict the shapes, in modules that were not
  // verified, meet checked accesses.
  try {
    return lower_group(inlined, ops, outputs);
  } catch (const std::out_of_range&) {
    return fail(
        ErrorKind::kInvalid,
        "{}: an op of its kernel has attributes that contradict its shapes",
        inlined.entry_computation().at(outputs[0]).name);
  }
}

}  // namespace reprise
