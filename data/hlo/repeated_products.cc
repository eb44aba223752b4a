#include "data/hlo/repeated_products.h"

#include <algorithm>
#include <cstddef>

#include "data/hlo/combiner.h"
#include "data/hlo/opcode.h"

namespace reprise {
namespace {

/// Ops that one kernel may hold after a product, and readers that this has;
/// where there are more, it counts as not repeated.
constexpr size_t kMostKernelOps = 256, kMostReaders = 16;

/// Of a reduction over more elements XLA makes windows of that many first
/// (TreeReductionRewriter), and finds no maximum where it looks for one.
constexpr int64_t kMostReduced = 32;

/// Results that XLA keeps where several read them
/// (CpuInstructionFusion::IsExpensive), of those that elementwise ops give.
bool is_expensive(Opcode opcode) {
  if (opcode == Opcode::kSine || opcode == Opcode::kCosine) return false;
  return opcode == Opcode::kDivide || opcode == Opcode::kRemainder ||
         facts_of(opcode).flops == FlopsRule::kTranscendental;
}

/// What XLA's kernels hold besides reductions (CanBeLoopFused).
bool is_fusible(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBroadcast:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGather:
    case Opcode::kPad:
    case Opcode::kReverse:
    case Opcode::kSlice:
    case Opcode::kTranspose:
      return true;
    default:
      return runs_elementwise(opcode) || is_reshape(opcode);
  }
}

bool reads_once(const Instruction& reader, InstructionId id) {
  return std::ranges::count(reader.operands, id) == 1;
}

}  // namespace

RepeatedProducts::RepeatedProducts(const Module& module,
                                   const Computation& computation)
    : module_(module),
      computation_(computation),
      users_(users_of(computation)),
      shares_shifts_(has_note(module.attributes, "reprise_shifts=\"shared\"")) {
  std::vector<uint32_t> uses = use_counts(computation);
  for (const Instruction& reader : computation.instructions) {
    for (const InstructionId operand : reader.operands)
      --uses[index_of(operand)];
  }
  for (const uint32_t other : uses) is_operand_alone_.push_back(other == 0);
}

bool RepeatedProducts::is_alone(InstructionId product,
                                InstructionId sum) const {
  if (users_[index_of(product)].size() > kMostReaders ||
      !is_repeated(product) || !reads_once(computation_.at(sum), product) ||
      (shares_shifts_ && is_shared_shift(product, sum)))
    return false;
  const std::vector<InstructionId> with_sum = in_kernels_of(sum);
  if (with_sum.size() > kMostKernelOps) return false;
  return std::ranges::none_of(
      users_[index_of(product)], [&](InstructionId other) {
        if (other == sum) return false;
        const std::vector<InstructionId> with_other = in_kernels_of(other);
        return with_other.size() > kMostKernelOps ||
               std::ranges::find_first_of(with_sum, with_other) !=
                   with_sum.end();
      });
}

/// The root is nobody's operand in a kernel, nor is what control edges hold.
bool RepeatedProducts::is_repeated(InstructionId id) const {
  const Instruction& product = computation_.at(id);
  if (!is_operand_alone_[index_of(id)] || has_control_predecessors(product) ||
      has_note(product.attributes, "reprise_result=\"unrounded\""))
    return false;
  const auto varies = [&](InstructionId operand) {
    return !is_broadcast(operand) &&
           computation_.at(operand).shape.dimensions.size() >=
               product.shape.dimensions.size();
  };
  if (std::ranges::count_if(product.operands, varies) <= 1) return true;
  int64_t read = element_count(computation_.at(product.operands[0]).shape);
  if (product.operands[1] != product.operands[0])
    read += element_count(computation_.at(product.operands[1]).shape);
  return read <= element_count(product.shape);
}

bool RepeatedProducts::is_broadcast(InstructionId id) const {
  const Instruction* op = &computation_.at(id);
  while (is_reshape(op->opcode)) op = &computation_.at(op->operands[0]);
  return op->opcode == Opcode::kBroadcast || op->opcode == Opcode::kIota ||
         (op->opcode == Opcode::kConstant && element_count(op->shape) == 1);
}

/// `exp(product - broadcast(max(product)))`, whose difference is the sum.
bool RepeatedProducts::is_shared_shift(InstructionId product,
                                       InstructionId sum) const {
  const auto is_exponential = [&](InstructionId user) {
    return computation_.at(user).opcode == Opcode::kExp;
  };
  return std::ranges::any_of(users_[index_of(sum)], is_exponential) &&
         std::ranges::any_of(users_[index_of(product)],
                             [&](InstructionId reader) {
                               return is_maximum_of(reader, product);
                             });
}

bool RepeatedProducts::is_maximum_of(InstructionId reader,
                                     InstructionId product) const {
  const Instruction& reduce = computation_.at(reader);
  if (reduce.opcode != Opcode::kReduce || reduce.operands[0] != product ||
      combining_opcode(module_, reduce) != Opcode::kMaximum)
    return false;
  const Shape& shape = computation_.at(product).shape;
  return std::ranges::all_of(
      integer_list(reduce, "dimensions"), [&](int64_t dimension) {
        return shape.dimensions[static_cast<size_t>(dimension)] <= kMostReduced;
      });
}

/// Whether readers of `id` may be in one kernel with it.
bool RepeatedProducts::passes_on(InstructionId id) const {
  const Instruction& op = computation_.at(id);
  return is_fusible(op.opcode) &&
         (!is_expensive(op.opcode) || users_[index_of(id)].size() == 1);
}

/// The ops that may be computed in one kernel with what `reader` reads; when
/// there are more than kMostKernelOps, some of them.
std::vector<InstructionId> RepeatedProducts::in_kernels_of(
    InstructionId reader) const {
  std::vector<InstructionId> found = {reader};
  for (size_t next = 0; next < found.size() && found.size() <= kMostKernelOps;
       ++next) {
    if (!passes_on(found[next])) continue;
    for (const InstructionId user : users_[index_of(found[next])]) {
      const Opcode opcode = computation_.at(user).opcode;
      if ((is_fusible(opcode) || opcode == Opcode::kReduce) &&
          std::ranges::find(found, user) == found.end())
        found.push_back(user);
    }
  }
  return found;
}

}  // namespace reprise
