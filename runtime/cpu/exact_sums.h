// Products of small integers, which f32 adds up exactly.
#pragma once

#include <cstdint>

#include "data/hlo/module.h"

namespace reprise {

/// How many products of an element of the first operand with one of the second
/// f32 adds up exactly, whatever the order; 0 where one of both may hold other
/// values than 8-bit integers and preds do, converted to wider ones or not: XLA
/// converts what a convolution of s8 reads to the type of its result.
int64_t exact_depth(const Computation& entry, const Instruction& product);

}  // namespace reprise
