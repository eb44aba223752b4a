// How computations take and give complex numbers once these are pairs of parts.
// Internal to split_complex.
#pragma once

#include <cstdint>
#include <vector>

#include "data/hlo/complex_parts.h"
#include "data/hlo/module.h"

namespace reprise {

/// How a computation takes a complex parameter.
enum class ComplexForm : uint8_t {
  kTwo,         ///< As two parameters, one after the other.
  kEntry,       ///< As one array, the parts in turn.
  kTuple,       ///< As one tuple: of loops and branches, which take one value.
  kComparator,  ///< As kTwo, of both elements that a sort compares in turn.
  kPart,        ///< As one part: it is called for either.
};

/// Reductions and what else combines elements by `to_apply`.
bool combines_arrays(Opcode opcode);

/// Of each computation, by what calls it. kPart are those that combine two
/// complex numbers part by part: sums, and those that keep the second.
std::vector<ComplexForm> complex_forms(const Module& module);

/// By parameter, the number of its first part. The other is the next; of
/// comparators that after the first part of the pair's second element.
std::vector<int64_t> first_part_numbers(const Computation& computation,
                                        ComplexForm form);

/// What an instruction gives: of a complex array a tuple of two, in tuples the
/// parts side by side, the shape itself of all else.
Shape split_result_shape(const Shape& shape);

/// A parameter of the entry, c64[N] as f32[N,2], and its parts. What it was,
/// declared_type tells.
ComplexParts interleaved_parameter(const Instruction& parameter,
                                   std::vector<Instruction>* to);

}  // namespace reprise
