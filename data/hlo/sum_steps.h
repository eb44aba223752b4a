// Long sums as sums of sums.
#pragma once

#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Elements along one dimension that XLA's CPU sums one after the other where
/// each addition rounds to 16 bits (is_half), so that sums stop growing; its
/// tree_reduction_rewriter.
inline constexpr int64_t kSumWindow = 32;

/// The ops that a long sum stands for. Of f32 reduces of some of the dimensions
/// each, the innermost first, so that no sum takes many more elements one after
/// the other than it must; a dimension of very many is parted by a reshape
/// before. Each takes the one before, the first the operand, and the same
/// initial value, a zero; the last has the reduce's name. Nothing for any other
/// reduce, and where one step is all.
///
/// Of n elements taken one by one the rounding error grows as sqrt(n): of the
/// squares of 4,096 activations in batch normalization it is 1.5e-6, in two
/// steps of 64 2e-7. XLA's CPU sums such in a tree, too (JAX 0.10.2: 3e-8). The
/// norm of 124 million gradients, by which they are clipped, was 2e-4 off in
/// one step.
///
/// Steps are also what threads and multiprocessors share: a sum over all rows
/// in order is one thread's, with all else that its kernel does; sums over
/// blocks of rows are not.
///
/// A sum of bf16 or f16, which rounds at each element, stops growing after some
/// hundreds. XLA's CPU sums windows of 32 along each dimension, and their sums
/// again, until none is longer (JAX 0.5.3 to 0.10.2); so do the steps of such:
/// each a reshape into windows, after a pad where the extent is no multiple,
/// and a reduce, whose elements kernels take in order (reduce_spec in
/// data/kernel/group.h). `entry`: holds the operands. `by_blocks`: sums over
/// many rows are parted into blocks of rows, not only those over very many.
std::vector<Instruction> sum_steps(const Module& module,
                                   const Computation& entry,
                                   const Instruction& reduce, bool by_blocks);

}  // namespace reprise
