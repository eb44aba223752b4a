// Products that a loop makes row by row, made at once.
#pragma once

#include <functional>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Takes products of few rows out of loops that the entry counts:
///  - a product that steps add up, as the gradient of a recurrent layer's
///    weights, becomes one over all steps after the loop, where its factors
///    are no more than its result: `sum_t x_t^T g_t` is `X^T G`;
///  - a product with weights that stay, of which the loop only keeps a row a
///    step, as the gradient of such a layer's input, comes after the loop;
///  - one of rows of an array that the loop reads with weights that stay, as
///    the input's part of a cell, comes before it.
/// Factors that no array holds yet become rows of one, as long as what is new
/// is no more than a quarter of the loop's state. The same is done by cuDNN's
/// recurrent layers (Appleyard et al., "Optimizing Performance of Recurrent
/// Neural Networks on GPUs", 2016, section 3); XLA leaves scans as they are.
/// Sums over steps are taken in another order, so f32 and f64 alone; of others
/// no bit changes. Loops inside loops are for the module that the body becomes
/// (data/hlo/routine.h). `flat` gives a computation of the module without
/// calls; a loop for whose body it fails stays. Cost: linear, and that of
/// LoopBody for each loop.
void batch_loop_products(
    const std::function<Result<Computation>(ComputationId)>& flat,
    Module* module);

}  // namespace reprise
