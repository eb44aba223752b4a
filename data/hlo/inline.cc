// One flat program of one rank from whatever was dumped: opcodes of GPUs alone
// are expanded, calls and fusions are replaced by copies of their callees with
// the call's name as a prefix, tuples that only carry values to
// get-tuple-element and copies of a compiled module vanish, starts and ends of
// asynchronous operations become the operation, bitcasts what they do to
// elements, long sums sums of sums, collectives along inner dimensions ones
// along the outermost, what has empty arrays does without, and the borders of
// shard_map are left; products of few rows leave loops, short loops over
// integers take one step, constants are folded
// and products made part of sums as XLA will, and small dots noted. Sizes are
// summed first, so that calls which multiply beyond reason are refused before
// any copy. Cost: linear in the result.
#include <algorithm>
#include <string>
#include <utility>

#include "data/hlo/appended_ops.h"
#include "data/hlo/called_rows.h"
#include "data/hlo/contract_products.h"
#include "data/hlo/empty_arrays.h"
#include "data/hlo/expand_opcodes.h"
#include "data/hlo/flat_collective.h"
#include "data/hlo/fold_constants.h"
#include "data/hlo/half_functions.h"
#include "data/hlo/hlo.h"
#include "data/hlo/hlo_verifier.h"
#include "data/hlo/inline_bitcast.h"
#include "data/hlo/late_columns.h"
#include "data/hlo/loop_products.h"
#include "data/hlo/narrow_types.h"
#include "data/hlo/rank_boundary.h"
#include "data/hlo/routine.h"
#include "data/hlo/scan_windows.h"
#include "data/hlo/scatter_sums.h"
#include "data/hlo/slice_parts.h"
#include "data/hlo/small_dot.h"
#include "data/hlo/split_complex.h"
#include "data/hlo/sum_steps.h"
#include "data/hlo/unroll_loops.h"
#include "data/hlo/unrounded_reads.h"
#include "data/hlo/wide_sums.h"

namespace reprise {
namespace {

constexpr int kMaxCallDepth = 200;
constexpr int64_t kMaxInstructions = 10'000'000;

/// What a call, a fusion or a start that names a wrapper calls.
std::optional<ComputationId> inlined_callee(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kCall:
      return called_computation(instruction);
    case Opcode::kFusion:
      return called_computation(instruction, "calls");
    case Opcode::kAsyncStart:
      return wrapped_opcode(instruction) == Opcode::kAsyncStart
                 ? called_computation(instruction, "calls")
                 : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// The operation that the start of an asynchronous one stands for.
std::optional<Instruction> started(const Instruction& start) {
  Instruction plain = unwrapped(start);
  switch (start.opcode) {
    case Opcode::kAllGatherStart:
      plain.opcode = Opcode::kAllGather;
      return plain;
    case Opcode::kAllReduceStart:
      plain.opcode = Opcode::kAllReduce;
      return plain;
    case Opcode::kCollectivePermuteStart:
      plain.opcode = Opcode::kCollectivePermute;
      return plain;
    case Opcode::kCopyStart:
      plain.opcode = Opcode::kCopy;
      return plain;
    case Opcode::kAsyncStart:
      if (plain.opcode != Opcode::kAsyncStart) return plain;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

/// What comes of a start: its operand again.
bool ends_operation(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kAllGatherDone:
    case Opcode::kAllReduceDone:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kCopyDone:
    case Opcode::kAsyncDone:
    case Opcode::kAsyncUpdate:
      return instruction.operands.size() == 1;
    default:
      return false;
  }
}

/// A compiled module copies for the sake of layouts and of what it may write.
bool is_compiled(const Module& module) {
  for (const Attribute& attribute : module.attributes) {
    const auto* raw = std::get_if<RawText>(&attribute.value);
    if (attribute.name == "is_scheduled" && raw != nullptr)
      return raw->text == "true";
  }
  return false;
}

/// What an infeed brings, without the token beside it, where it is picked from
/// the pair: an infeed has no operands that a rank could give it.
void leave_infeed_tokens(Computation* computation) {
  for (Instruction& picked : computation->instructions) {
    if (picked.opcode != Opcode::kGetTupleElement) continue;
    const Instruction& infeed = computation->at(picked.operands[0]);
    if (infeed.opcode != Opcode::kInfeed || infeed.operands.empty() ||
        integer_list(picked, "index") != std::vector<int64_t>{0})
      continue;
    picked.opcode = Opcode::kInfeed;
    picked.opcode_text = infeed.opcode_text;
    picked.attributes = infeed.attributes;
    picked.operands.clear();
  }
}

/// Whether nobody misses what an instruction gives.
bool drops_unused(const Instruction& instruction) {
  return instruction.opcode == Opcode::kTuple ||
         (is_empty_array(instruction.shape) &&
          instruction.opcode != Opcode::kParameter &&
          !is_collective(instruction.opcode));
}

class Inliner {
 public:
  /// `whole`: a computation of the module.
  Inliner(const Module& module, const Computation& whole, Arithmetic arithmetic)
      : module_(module),
        whole_(whole),
        arithmetic_(arithmetic),
        keeps_copies_(arithmetic >= Arithmetic::kCopiesKept &&
                      !is_compiled(module)) {}

  Result<Computation> run() {
    result_.name = whole_.name;
    result_.is_fused = whole_.is_fused;
    result_.has_header_types = whole_.has_header_types;
    result_.execution_thread = whole_.execution_thread;
    const auto root = copy(whole_, "", {}, {}, 0);
    if (!root) return tl::unexpected<Error>(root.error());
    result_.root = *root;
    leave_infeed_tokens(&result_);
    drop_unread(drops_unused, &result_);
    const Status left = leave_rank_boundaries(module_, &result_);
    if (!left) return tl::unexpected<Error>(left.error());
    expose_elements(&result_);
    drop_unread(drops_unused, &result_);
    return std::move(result_);
  }

 private:
  /// Copies a body whose parameters are `arguments` (empty for the entry);
  /// returns its root.
  Result<InstructionId> copy(const Computation& body, const std::string& prefix,
                             const std::vector<InstructionId>& arguments,
                             const std::vector<InstructionId>& predecessors,
                             int depth);
  Result<InstructionId> copy_call(
      const Instruction& call, const std::string& prefix,
      const std::vector<InstructionId>& map,
      const std::vector<InstructionId>& predecessors, int depth);
  std::optional<InstructionId> element_of_tuple(
      const Instruction& instruction) const;
  bool reads_dissolved_tuple(const Instruction& instruction,
                             const Computation& body,
                             const Instruction& original) const;
  InstructionId append_bitcast(const Instruction& bitcast,
                               const Shape& operand);
  InstructionId append_boundary(const Instruction& call);
  InstructionId append_sum(Instruction reduce);
  InstructionId place(Instruction instruction, const Computation& body,
                      const Instruction& original);
  InstructionId append(Instruction instruction);

  const Module& module_;
  const Computation& whole_;
  const Arithmetic arithmetic_;
  bool keeps_copies_ = false;  ///< XLA's simplifier removes them.
  Computation result_;
};

/// Refuses modules whose calls multiply beyond reason; callees stand before
/// callers.
Status check_size(const Module& module) {
  std::vector<int64_t> sizes;
  for (const Computation& computation : module.computations) {
    int64_t size = 0;
    for (const Instruction& instruction : computation.instructions) {
      const auto callee = inlined_callee(instruction);
      size = std::min(size + (callee ? sizes[index_of(*callee)] : 1),
                      kMaxInstructions + 1);
    }
    sizes.push_back(size);
  }
  if (sizes[index_of(module.entry)] <= kMaxInstructions) return {};
  return fail(ErrorKind::kUnsupported,
              "inlining the calls of `{}` makes more than {} instructions",
              module.name, kMaxInstructions);
}

std::vector<InstructionId> predecessors_of(
    const Instruction& instruction, const std::vector<InstructionId>& map) {
  std::vector<InstructionId> mapped;
  const Attribute* found = instruction.find_attribute("control-predecessors");
  if (found == nullptr) return mapped;
  if (const auto* ids =
          std::get_if<std::vector<InstructionId>>(&found->value)) {
    for (const InstructionId id : *ids) mapped.push_back(map[index_of(id)]);
  }
  return mapped;
}

void set_predecessors(Instruction* instruction,
                      std::vector<InstructionId> predecessors) {
  for (Attribute& attribute : instruction->attributes) {
    if (attribute.name != "control-predecessors") continue;
    attribute.value = std::move(predecessors);
    return;
  }
  if (predecessors.empty()) return;
  instruction->attributes.push_back(
      {"control-predecessors", std::move(predecessors)});
}

InstructionId Inliner::append(Instruction instruction) {
  result_.instructions.push_back(std::move(instruction));
  return InstructionId(static_cast<uint32_t>(result_.instructions.size() - 1));
}

/// The value that a copied get-tuple-element picks from a copied tuple.
std::optional<InstructionId> Inliner::element_of_tuple(
    const Instruction& instruction) const {
  const std::optional<size_t> index = picked_element(instruction);
  if (!index) return std::nullopt;
  const Instruction& tuple = result_.at(instruction.operands[0]);
  if (tuple.opcode != Opcode::kTuple || *index >= tuple.operands.size())
    return std::nullopt;
  return tuple.operands[*index];
}

/// A bitcast as steps that move and convert elements. Its operand has the
/// layout of the text: a copy that changed it may have been left out.
InstructionId Inliner::append_bitcast(const Instruction& bitcast,
                                      const Shape& operand) {
  InstructionId last = bitcast.operands[0];
  for (Instruction& step : bitcast_steps(bitcast, operand)) {
    step.operands = {last};
    last = append(std::move(step));
  }
  return last;
}

/// A reduce, in steps where it is a long sum.
InstructionId Inliner::append_sum(Instruction reduce) {
  std::vector<Instruction> steps = sum_steps(
      module_, result_, reduce, arithmetic_ <= Arithmetic::kHalfDivided);
  if (steps.empty()) return append(std::move(reduce));
  InstructionId last = reduce.operands[0];
  for (Instruction& step : steps) {
    step.operands[0] = last;
    last = append(std::move(step));
  }
  return last;
}

/// Marks in place of a call at the border of shard_map, one an array.
InstructionId Inliner::append_boundary(const Instruction& call) {
  std::vector<InstructionId> marks;
  for (size_t i = 0; i < call.operands.size(); ++i)
    marks.push_back(append(boundary_mark(call, i, call.operands[i])));
  if (!call.shape.is_tuple()) return marks[0];
  Instruction tuple;
  tuple.name = call.name;
  tuple.opcode = Opcode::kTuple;
  tuple.shape = call.shape;
  tuple.operands = std::move(marks);
  return append(std::move(tuple));
}

/// An instruction of the result, its operands mapped, in the form that runs.
InstructionId Inliner::place(Instruction instruction, const Computation& body,
                             const Instruction& original) {
  if (ends_operation(instruction) ||
      (!keeps_copies_ && instruction.opcode == Opcode::kCopy))
    return instruction.operands[0];
  if (is_rank_boundary(instruction)) return append_boundary(instruction);
  if (auto plain = started(instruction)) instruction = *std::move(plain);
  if (instruction.opcode == Opcode::kBitcast) {
    const Shape& operand = body.at(original.operands[0]).shape;
    if (moves_elements(instruction, operand))
      return append_bitcast(instruction, operand);
    if (operand.type == instruction.shape.type)
      instruction.opcode = Opcode::kReshape;
  }
  if (const auto given = append_without_empty(instruction, &result_))
    return *given;
  if (instruction.opcode == Opcode::kReduce)
    return append_sum(std::move(instruction));
  if (is_collective(instruction.opcode))
    return append_flat_collective(module_, instruction, &result_);
  if (reads_dissolved_tuple(instruction, body, original))
    read_rounded(&instruction);
  const auto element = element_of_tuple(instruction);
  return element ? *element : append(std::move(instruction));
}

/// A conversion of an element that is taken of a tuple in the program, and of
/// none here.
bool Inliner::reads_dissolved_tuple(const Instruction& instruction,
                                    const Computation& body,
                                    const Instruction& original) const {
  return arithmetic_ <= Arithmetic::kScattersApart &&
         instruction.opcode == Opcode::kConvert &&
         instruction.shape.type == PrimitiveType::kF32 &&
         body.at(original.operands[0]).opcode == Opcode::kGetTupleElement &&
         result_.at(instruction.operands[0]).shape.type ==
             PrimitiveType::kBF16 &&
         result_.at(instruction.operands[0]).opcode != Opcode::kGetTupleElement;
}

Result<InstructionId> Inliner::copy(
    const Computation& body, const std::string& prefix,
    const std::vector<InstructionId>& arguments,
    const std::vector<InstructionId>& predecessors, int depth) {
  std::vector<InstructionId> map;
  map.reserve(body.instructions.size());
  for (const Instruction& original : body.instructions) {
    if (original.opcode == Opcode::kParameter && depth > 0) {
      map.push_back(arguments[static_cast<size_t>(original.parameter_number)]);
      continue;
    }
    if (inlined_callee(original)) {
      const auto root = copy_call(original, prefix, map, predecessors, depth);
      if (!root) return root;
      map.push_back(*root);
      continue;
    }
    Instruction instruction = original;
    instruction.name = prefix + original.name;
    for (InstructionId& operand : instruction.operands)
      operand = map[index_of(operand)];
    std::vector<InstructionId> before = predecessors_of(original, map);
    before.insert(before.end(), predecessors.begin(), predecessors.end());
    set_predecessors(&instruction, std::move(before));
    map.push_back(place(std::move(instruction), body, original));
  }
  return map[index_of(body.root)];
}

Result<InstructionId> Inliner::copy_call(
    const Instruction& call, const std::string& prefix,
    const std::vector<InstructionId>& map,
    const std::vector<InstructionId>& predecessors, int depth) {
  const Computation& callee = module_.at(*inlined_callee(call));
  if (depth + 1 > kMaxCallDepth) {
    return fail(ErrorKind::kUnsupported,
                "call `{}{}` nests deeper than {} calls", prefix, call.name,
                kMaxCallDepth);
  }
  std::vector<InstructionId> arguments;
  for (const InstructionId operand : call.operands)
    arguments.push_back(map[index_of(operand)]);
  int64_t parameters = 0;
  for (const Instruction& instruction : callee.instructions) {
    parameters += instruction.opcode == Opcode::kParameter ? 1 : 0;
  }
  if (parameters != static_cast<int64_t>(arguments.size())) {
    return fail(ErrorKind::kInvalid,
                "call `{}{}` passes {} operands, `{}` takes {}", prefix,
                call.name, arguments.size(), callee.name, parameters);
  }
  std::vector<InstructionId> before = predecessors_of(call, map);
  before.insert(before.end(), predecessors.begin(), predecessors.end());
  return copy(callee, prefix + call.name + "/", arguments, before, depth + 1);
}

}  // namespace

Result<InlinedModule> inline_calls(const Module& given, Arithmetic arithmetic) {
  Module expanded;
  if (has_expandable(given)) expanded = expand_opcodes(given);
  const Module& module = expanded.computations.empty() ? given : expanded;
  if (const Status size = check_size(module); !size)
    return tl::unexpected<Error>(size.error());
  auto entry = Inliner(module, module.entry_computation(), arithmetic).run();
  if (!entry) return tl::unexpected<Error>(entry.error());
  InlinedModule inlined(module);
  const auto flat = [&](ComputationId body) {
    return Inliner(inlined, inlined.at(body), arithmetic).run();
  };
  inlined.entry_computation() = std::move(*entry);
  if (uses_complex(inlined)) {
    // Sums and collectives of parts take their steps as all others do.
    inlined = InlinedModule(split_complex(inlined));
    auto again = flat(inlined.entry);
    if (!again) return tl::unexpected<Error>(again.error());
    inlined.entry_computation() = std::move(*again);
  }
  if (arithmetic <= Arithmetic::kDotsInLibrary)
    batch_loop_products(flat, &inlined);
  unroll_loops(flat, &inlined);
  const bool is_recent = arithmetic <= Arithmetic::kProductsShared;
  if (arithmetic <= Arithmetic::kCopiesAdded)
    slice_parts(&inlined.entry_computation(), is_recent);
  const bool is_xla = arithmetic != Arithmetic::kAsWritten;
  if (is_xla) {
    ConstantFolding how = constant_folding(inlined);
    how.half = arithmetic <= Arithmetic::kScattersApart;
    how.copies = arithmetic <= Arithmetic::kNested;
    how.nested = is_recent;
    fold_constants(inlined, &inlined.entry_computation(), how);
  }
  if (is_recent)
    round_in_half(half_functions(inlined), &inlined.entry_computation());
  if (arithmetic <= Arithmetic::kRowsApart)
    scatter_into_sums(inlined, &inlined.entry_computation(), is_recent);
  widen_narrow_types(&inlined);
  if (sums_in_f32(inlined)) sum_in_f32(&inlined);
  read_unrounded(&inlined);
  if (is_xla)
    contract_products(inlined, arithmetic < Arithmetic::kProductsShared,
                      &inlined.entry_computation());
  if (arithmetic <= Arithmetic::kSumsByColumn)
    note_small_dots(&inlined.entry_computation());
  if (arithmetic <= Arithmetic::kScansInKernels)
    note_called_rows(&inlined.entry_computation());
  if (arithmetic <= Arithmetic::kWholesMade)
    note_scans(inlined, &inlined.entry_computation());
  note_late_columns(inlined, &inlined.entry_computation());
  // Starts and ends, wrappers and borders may contradict each other.
  if (const Status valid = verify(inlined); !valid)
    return tl::unexpected<Error>(valid.error());
  return inlined;
}

}  // namespace reprise
