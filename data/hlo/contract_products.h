// Products that become part of sums.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// A product of f16, f32 or f64 that one sum or difference reads once, and
/// nothing else does, or nothing else in the kernel in which XLA computes it
/// for this sum again (data/hlo/repeated_products.h), becomes one op with it,
/// rounded once: `x*y + z` a multiply-add, `x*y - z` a multiply-subtract, `z -
/// x*y` a negated-multiply-add, under the sum's name. Of two such products the
/// left one. So every plan computes them alike, whatever it fuses, and as XLA
/// does: LLVM contracts what XLA:CPU and XLA:GPU leave in one block
/// (DAGCombiner::visitFADDForFMACombine under FPOpFusion::Fast; JAX 0.5.3,
/// 0.7.2 and 0.10.2 give these bits; bf16 nowhere). An average that hardly
/// moves, `0.99 a + 0.01 b`, is 1e-4 of its change off otherwise;
/// of scores that are scaled by 25 and shifted by their maximum, the
/// exponential is 4e-6. Cost: linear.
/// `again`: with what XLA computes again. The header's notes, which
/// `reprise.jax.export` writes, say where the XLA that a module is for does
/// not: `frontend_attributes={reprise_half_products="rounded"}` for f16 (on
/// GPUs it does, on CPUs with arithmetic of it, AVX512-FP16),
/// `reprise_tables="rounded"` for arrays of up to 64 elements, at most 10 along
/// the outermost dimension, that come of constants and counts alone (weights by
/// which pictures are resized): on CPUs LLVM of JAX 0.5 unrolls such loops and
/// computes them when it compiles, each op on its own.
void contract_products(const Module& module, bool again,
                       Computation* computation);

bool is_contracted(Opcode opcode);
/// What a contracted op stands for in HLO's own opcodes: its product, and the
/// sum that reads this where it stands as `product`. Require: is_contracted.
Instruction contracted_product(const Instruction& contracted);
Instruction contracted_sum(const Instruction& contracted,
                           InstructionId product);

}  // namespace reprise
