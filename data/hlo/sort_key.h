// Keys of a comparator: what an array's elements are compared by.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// Of a comparator in CalleeForm::kFunction that compares one array's elements
/// x and y as `f(x) < f(y)` or `f(x) > f(y)`: the function f, of the same
/// parameters, of which it reads the even one that is x. So a sort takes one f
/// an element where the comparator takes two a comparison. Nothing for any
/// other, such as one of several arrays. Cost: linear.
std::optional<InlinedModule> sort_key(const InlinedModule& comparator);

/// True if the comparator puts the greatest first. Requires: sort_key has one.
bool sorts_descending(const InlinedModule& comparator);
/// True if it compares as floats do, -0 and 0 being equal and NaN neither less
/// nor more than anything: no order of rows that hold a NaN. Requires: as
/// above.
bool sorts_by_partial_order(const InlinedModule& comparator);

}  // namespace reprise
