#include "data/kernel/view.h"

namespace reprise {

bool is_view(Opcode opcode) {
  switch (opcode) {
    case Opcode::kConstant:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kGetTupleElement:
    case Opcode::kTuple:
    case Opcode::kOptimizationBarrier:
      return true;
    default:
      return false;
  }
}

}  // namespace reprise
