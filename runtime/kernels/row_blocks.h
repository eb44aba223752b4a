// Which loops run by blocks of iterations, each in three: loads into columns,
// all that is computed from columns into columns, and those into memory.
//
// An iteration that loads and stores several elements of one array, as softmax
// of four classes does, is not what g++ vectorizes well: it takes the stores of
// a row for a vector, and computes each of its elements in all of the vector's
// lanes; of most lengths of rows it makes no vectors at all.
//
// Of elements narrower than f32 (a mask, most often) g++ takes as many at once
// as one vector of them holds, 64 bytes, and so 64 of everything else: sixteen
// vectors of each f64 in a logarithm, nearly all of which it keeps in memory.
// Of loads that go back by two elements or more (a reversed scan's) it makes no
// vectors in a loop that computes much.
#pragma once

#include "data/kernel/kernel.h"

namespace reprise {

/// Whether an innermost loop is better run so: each iteration stores several
/// elements of one array, or it loads or stores narrow ones, or loads
/// backwards, and computes much (many narrow loads far apart are much, too).
/// Not where a value of the loop decides the place of a store.
bool goes_through_columns(const Kernel& kernel, const KernelStatement& loop);

/// Whether a statement loads from a place that no value of its loop decides.
bool is_plain_load(const Kernel& kernel, const KernelStatement& statement);

}  // namespace reprise
