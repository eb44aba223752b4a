// Loops and branches whose rows move together.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Notes among its `frontend_attributes` each loop and branch, so that plans
/// and traces of before, whose units came in an order of other bodies, are told
/// from those of now: in what is noted small rows of a scan are read and
/// written together (data/schedule/called_fusion.h). Cost: linear.
void note_called_rows(Computation* computation);

/// True of a loop or branch that is noted.
bool has_called_rows(const Instruction& instruction);

}  // namespace reprise
