// Functions of scalars (CalleeForm::kFunction) over many elements at once, so
// that a reducer takes a vector's time for as many results.
#pragma once

#include <cstdint>
#include <optional>

#include "data/hlo/module.h"
#include "data/kernel/kernel.h"

namespace reprise {

/// Elements of each array that such a kernel takes and gives.
inline constexpr int64_t kFunctionLanes = 64;

/// The function with an array of so many for each scalar. Nothing where one of
/// its ops is not elementwise.
std::optional<InlinedModule> over_lanes(const InlinedModule& function);

/// Whether a kernel, made of what `over_lanes` gives, does any first lanes
/// alone: its iterations are the lanes.
bool has_lanes(const Kernel& kernel);

}  // namespace reprise
