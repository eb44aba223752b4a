// Opcodes and calls that no kernel computes, in ops that run.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Whether any computation has an opcode that expand_opcodes knows.
bool has_expandable(const Module& module);

/// Scans (data/hlo/expand_scan.h), maps (expand_map.h), ragged dots
/// (expand_ragged_dot.h), cuSOLVER's symmetric products
/// (expand_symmetric_product.h), what tells of a failed check
/// (expand_failed_check.h) and permutes of no pairs become other ops, and
/// triangular solves of complex numbers the calls that JAX writes on CPU
/// (matrix_operation.h), in all computations. Computations that these call
/// stand before the one that they are in. What has another form than those know
/// stays, and is refused in lowering. Cost: linear.
Module expand_opcodes(const Module& module);

}  // namespace reprise
