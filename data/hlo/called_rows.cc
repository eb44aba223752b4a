#include "data/hlo/called_rows.h"

#include <string_view>

namespace reprise {
namespace {

constexpr std::string_view kRowsTogether = "reprise_rows=\"together\"";

}  // namespace

void note_called_rows(Computation* computation) {
  for (Instruction& instruction : computation->instructions) {
    if ((instruction.opcode == Opcode::kWhile ||
         instruction.opcode == Opcode::kConditional) &&
        !has_called_rows(instruction))
      add_note(kRowsTogether, &instruction.attributes);
  }
}

bool has_called_rows(const Instruction& instruction) {
  return has_note(instruction.attributes, kRowsTogether);
}

}  // namespace reprise
