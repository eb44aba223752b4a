#include "data/hlo/scan_windows.h"

#include <string_view>

#include "data/hlo/combiner.h"
#include "data/hlo/opcode.h"
#include "data/hlo/routine.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

constexpr std::string_view kScan = "reprise_window=\"scan\"";
constexpr int64_t kMostInKernels = 32;

bool is_scan(const Module& module, const Instruction& instruction) {
  if (instruction.opcode != Opcode::kReduceWindow ||
      !instruction.shape.is_array() || instruction.operands.size() != 2)
    return false;
  const std::optional<Opcode> combine = combining_opcode(module, instruction);
  const auto window = window_dimensions(instruction);
  if (!combine || !window ||
      facts_of(*combine).identity == Identity::kNoIdentity)
    return false;
  const std::vector<int64_t>& extents = instruction.shape.dimensions;
  const auto cumulative = cumulative_window(*window, extents);
  return cumulative && extents[cumulative->dimension] > kMostInKernels &&
         extents[cumulative->dimension] <= kMostWindowElements;
}

}  // namespace

void note_scans(const Module& module, Computation* computation) {
  for (Instruction& instruction : computation->instructions) {
    if (is_scan(module, instruction) && !is_noted_scan(instruction))
      add_note(kScan, &instruction.attributes);
  }
}

bool is_noted_scan(const Instruction& instruction) {
  return has_note(instruction.attributes, kScan);
}

}  // namespace reprise
