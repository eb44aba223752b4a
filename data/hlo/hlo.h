// Everything one does with HLO text: parse, print, verify, fingerprint,
// transform.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Parses HLO text of any dialect that XLA dumps (facts of the grammar stand in
/// hlo_parser.cc). `file` names the input in errors, which read
/// `file:line:column: what`. Errors: kParse (syntax, unknown name),
/// kUnsupported (unknown opcode), kInvalid (shape mismatch between an
/// instruction and its operands, overflowing shape, cyclic or forward use).
Result<Module> parse_hlo(std::string_view text,
                         std::string_view file = "<hlo>");
Result<Module> parse_hlo_file(const std::string& path);

struct PrintOptions {
  bool metadata = true;         ///< metadata= attributes and the tail tables.
  bool operand_shapes = false;  ///< The old style, `add(f32[2] %a, …)`.
};
/// Prints canonical HLO text; parse(print(m)) == m and jaxlib parses it.
std::string print_hlo(const Module& module, const PrintOptions& options = {});

/// `sha256:…` of the canonical print without metadata.
std::string fingerprint(const Module& module);

/// One rank's program as one flat entry computation, whatever was dumped. Calls
/// and fusions are inlined (recursively), asynchronous operations made
/// synchronous; inlined instructions get path-qualified names, `call.5/add.3`
/// (read back here, but not by XLA). Get-tuple-elements of tuples are replaced
/// by the elements, so that no tuple stays but the root and those that loops,
/// barriers and other instructions take whole. Bitcasts that change types or
/// layouts become transposes, conversions and reshapes: arrays are row-major,
/// whatever layouts say. Long sums become sums of sums (data/hlo/sum_steps.h).
/// Collectives but all-reduces take one operand, cut along the outermost
/// dimension (data/hlo/flat_collective.h). Calls that only speak to a
/// partitioner are left out, and where shard_map begins, parameters and results
/// get the shapes of one rank. A complex array is two real ones
/// (data/hlo/split_complex.h). What JAX writes for GPUs alone is what it writes
/// on CPU (data/hlo/expand_opcodes.h). What is converted from bf16 to f32 is
/// read before it was rounded (data/hlo/unrounded_reads.h), constants and
/// products are those of XLA, and products of few rows leave loops
/// (data/hlo/loop_products.h), unless `arithmetic` says otherwise. Errors:
/// kUnsupported (nesting over 200 calls, more than 10^7 instructions, what a
/// partitioner would still have to cut), kInvalid.
Result<InlinedModule> inline_calls(const Module& module,
                                   Arithmetic arithmetic = Arithmetic::kAsXla);

/// Cost of one instruction by XLA's published HloCostAnalysis rules (FMA = 2
/// flops).
struct InstructionCost {
  double flops = 0;
  double transcendentals = 0;
  double bytes = 0;  ///< Operands read plus output written.
};
InstructionCost instruction_cost(const Module& module,
                                 const Computation& computation,
                                 InstructionId id);

/// A constant's elements in row-major order, as words of its text: `true`,
/// `-3`, `1e-5`. Errors: kUnsupported for elided or complex literals, kInvalid
/// when the count is wrong or a word is no number that the type holds.
Result<std::vector<std::string_view>> literal_words(
    const Instruction& constant);
/// The same as doubles: integers up to 2^53 exact, pred 0/1.
Result<std::vector<double>> literal_values(const Instruction& constant);

/// The integer that a scalar constant is, where a double holds it exactly.
std::optional<int64_t> integer_constant(const Instruction& instruction);

/// One collective's replica groups as numbered in the text, all forms resolved;
/// `{}` is one group of `ranks`. Of ranks: data/hlo/collective_ranks.h.
Result<std::vector<std::vector<int64_t>>> replica_groups(
    const Instruction& instruction, int64_t ranks);

/// A collective-permute's `{{0,1},{1,0}}` as written, each of two numbers.
Result<std::vector<std::vector<int64_t>>> source_target_pairs(
    const Instruction& permute);

/// dot's dimension numbers, in text order.
struct DotDimensions {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
};
DotDimensions dot_dimensions(const Instruction& dot);

/// slice={[start:limit:stride], …}
struct SliceDimension {
  int64_t start = 0, limit = 0, stride = 1;
};
Result<std::vector<SliceDimension>> slice_dimensions(const Instruction& slice);
Attribute slice_attribute(const std::vector<SliceDimension>& dimensions);

/// padding=low_high_interior x …
struct PadDimension {
  int64_t low = 0, high = 0, interior = 0;
};
Result<std::vector<PadDimension>> pad_dimensions(const Instruction& pad);

struct GatherDimensions {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, start_index_map,
      slice_sizes, operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim = 0;
};
GatherDimensions gather_dimensions(const Instruction& gather);

struct ScatterDimensions {
  std::vector<int64_t> update_window_dims, inserted_window_dims,
      scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
};
ScatterDimensions scatter_dimensions(const Instruction& scatter);

/// compare's direction: "EQ", "NE", "LT", "LE", "GT", "GE".
std::string compare_direction(const Instruction& compare);
/// Whether it compares floats so that -0 is less than 0, and NaN has a place.
bool compares_total_order(const Instruction& compare);

}  // namespace reprise
