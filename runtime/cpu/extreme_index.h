// The largest or smallest element and its index: what argmax and argmin are.
#pragma once

#include <memory>

#include "runtime/cpu/routine.h"

namespace reprise {

/// Null for another reduce than one of floats or s32 and s32 indices along one
/// dimension whose reducer is, for every two pairs, that of jnp.argmax or
/// argmin: the pair with the larger (smaller) value, of equal values the later
/// one with the lesser index, a NaN before all, the first of several. By a call
/// of the reducer for each element such a reduce took 17 ns an element; the
/// bits are the same.
std::unique_ptr<Routine> make_extreme_index(const RoutineCall& call);

}  // namespace reprise
