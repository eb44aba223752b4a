// How the loops of one stage meet the threads of a GPU. Internal to the plan of
// stages.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernels/print_cuda_edit.h"
#include "runtime/kernels/print_cuda_facts.h"
#include "runtime/kernels/print_cuda_stages.h"

namespace reprise {

/// Row-major place of an iteration of these loops.
int32_t position_of(Kernel& kernel, const std::vector<int32_t>& loops);

/// True if the main stage of the nest, a part of `original`, can do the store
/// itself. Threads may write the same value to the workspace several times.
bool is_direct(const Kernel& original, const StatementNest& nest,
               const KernelFacts& facts, const StorePlace& place);

/// Sets the mapping of a stage whose kernel is complete; kSerial where none
/// keeps the order that its stores need.
void map_stage(const Kernel& original, CudaStage& stage);

}  // namespace reprise
