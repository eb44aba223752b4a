// A naive oracle: evaluates HLO element by element in double precision, written
// from the semantics of the ops alone and sharing no code with lowering.
#pragma once

#include <map>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Elements of an array, row-major; integers and preds as whole numbers.
using Elements = std::vector<double>;

/// Values of all array instructions of a computation. `parameters` by parameter
/// number. Aborts on an opcode it does not know.
std::map<uint32_t, Elements> evaluate(const Module& module,
                                      const Computation& computation,
                                      const std::vector<Elements>& parameters);

}  // namespace reprise
