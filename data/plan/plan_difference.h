// Where two plans part.
#pragma once

#include <string>

#include "data/plan/plan.h"

namespace reprise {

/// The first thing that `ran` does otherwise than `planned`, in a sentence:
/// its program, a group of operators, a bucket, a unit's place in the order. ""
/// where there is none; what made and predicted the plans is no difference.
std::string plan_difference(const Plan& planned, const Plan& ran);

}  // namespace reprise
