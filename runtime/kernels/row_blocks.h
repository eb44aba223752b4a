// Which loops run over rows of short arrays.
//
// An iteration that loads and stores several elements of one array, as softmax
// of four classes does, is not what g++ vectorizes well: it takes the stores of
// a row for a vector, and computes each of its elements in all of the vector's
// lanes; of most lengths of rows it makes no vectors at all. Such a loop is run
// by blocks of iterations, each in three: loads into columns, all that is
// computed from columns into columns, and those into rows.
#pragma once

#include "data/kernel/kernel.h"

namespace reprise {

/// Whether each iteration of an innermost loop stores several elements of one
/// array, at places that no value of the loop decides.
bool writes_rows(const Kernel& kernel, const KernelStatement& loop);

/// Whether a statement loads from a place that no value of its loop decides.
bool is_plain_load(const Kernel& kernel, const KernelStatement& statement);

}  // namespace reprise
