// Runs kernels on named values: the memory of a computation's instructions.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/kernel/kernel.h"
#include "runtime/kernels/compiler.h"

namespace reprise {

/// Memory of each instruction, by id.
using Memory = std::map<uint32_t, std::vector<char>>;

/// Parameters (normal floats, small integers, random preds) and non-scalar
/// constants.
Memory random_inputs(const Module& module, uint64_t seed);

/// Runs a kernel by `function`, or by the interpreter when null; outputs are
/// made.
void run_kernel(const Kernel& kernel, KernelFunction function, Memory& memory);

/// Elements of an instruction as doubles.
std::vector<double> elements_of(const Shape& shape,
                                const std::vector<char>& bytes);

/// Non-view, non-parameter instructions of the entry, in order.
std::vector<InstructionId> kernel_ops(const Module& module);

/// `random_inputs`, then every op alone by the interpreter. Requires: kernels
/// can be made of all `kernel_ops`.
Memory run_one_by_one(const Module& module, uint64_t seed);

/// Bytes equal, or both NaN, for each element. Returns the first difference, -1
/// when equal.
int64_t first_difference(const Shape& shape, const std::vector<char>& a,
                         const std::vector<char>& b);

}  // namespace reprise
