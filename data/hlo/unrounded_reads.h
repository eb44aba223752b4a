// Ops of bf16 that something reads in f32.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// An op that rounds to bf16, and is converted to f32 as well, computes f32:
/// conversions read it before it is rounded, all else reads a conversion back,
/// `add.1/bf16`. Of the entry and of the computations that run as parts of it
/// (loops, branches, calls), not of reducers. Source: XLA's float-normalization
/// under xla_allow_excess_precision, which is on; looked up in the dumps of
/// JAX 0.5.3 and 0.10.2. A product that its
/// `frontend_attributes={reprise_result="rounded"}` says is left to a library
/// that gives bf16 stays as it is: JAX 0.11 and 0.12 do so with some on CPUs.
///
/// What says `reprise_result="unrounded"`, an op of bf16 or a conversion to it,
/// is read in f32 by elementwise ops of bf16, too, directly or through views.
/// So computes the CPU library that JAX 0.10 leaves whole softmaxes to,
/// wherever conversions to bf16 and back meet inside. Products and reductions
/// read it rounded.
void read_unrounded(Module* module);

/// Whether an op rounds its result to bf16. Read through a view it is read
/// rounded, even through a reshape that changes nothing, as stands behind a
/// product over several dimensions (looked up in JAX 0.5.3 to 0.12).
bool is_rounded(const Instruction& instruction);

/// Has a conversion read what was rounded: of an element of a tuple, which XLA
/// dissolves only afterwards (a jitted function of several results makes one).
void read_rounded(Instruction* convert);

}  // namespace reprise
