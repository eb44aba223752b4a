// Keys of a comparator: what an array's elements are compared by.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// Of a comparator in CalleeForm::kFunction that compares one array's elements
/// x and y as `f(x) < f(y)` or `f(x) > f(y)`, in an order that holds for all
/// values: the function f, of the same parameters, of which it reads the even
/// one that is x. So a sort takes one f an element where the comparator takes
/// two a comparison. Nothing for any other (of several arrays, or of floats by
/// an order in which NaN is neither less nor more). Cost: linear.
std::optional<InlinedModule> sort_key(const InlinedModule& comparator);

/// True if the comparator puts the greatest first. Requires: sort_key has one.
bool sorts_descending(const InlinedModule& comparator);

}  // namespace reprise
