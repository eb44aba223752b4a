// XLA's HloCostAnalysis, opcode by opcode: a fused multiply-add counts 2,
// transcendental functions count apart, bytes are what is read and written
// once.
#include <algorithm>
#include <cmath>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

struct Operation {
  const Computation& computation;
  const Instruction& instruction;

  const Shape& operand(size_t i) const {
    return computation.at(instruction.operands[i]).shape;
  }
  double operand_bytes(size_t i) const {
    return static_cast<double>(byte_size(operand(i)));
  }
  double output_bytes() const {
    return static_cast<double>(byte_size(instruction.shape));
  }
  double all_bytes() const {
    double bytes = output_bytes();
    for (size_t i = 0; i < instruction.operands.size(); ++i)
      bytes += operand_bytes(i);
    return bytes;
  }
};

double elements(const Shape& shape) {
  if (!shape.is_tuple())
    return shape.is_array() ? static_cast<double>(element_count(shape)) : 0;
  double total = 0;
  for (const Shape& element : shape.elements) total += elements(element);
  return total;
}

bool is_transcendental(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAtan2:
    case Opcode::kCbrt:
    case Opcode::kCosine:
    case Opcode::kErf:
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kLogistic:
    case Opcode::kPower:
    case Opcode::kRng:
    case Opcode::kRngBitGenerator:
    case Opcode::kRsqrt:
    case Opcode::kSine:
    case Opcode::kSqrt:
    case Opcode::kTan:
    case Opcode::kTanh:
      return true;
    default:
      return false;
  }
}

/// One operation an output element.
bool is_elementwise(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kAdd:
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kAnd:
    case Opcode::kCeil:
    case Opcode::kClamp:
    case Opcode::kClz:
    case Opcode::kCompare:
    case Opcode::kComplex:
    case Opcode::kConvert:
    case Opcode::kDivide:
    case Opcode::kFloor:
    case Opcode::kImag:
    case Opcode::kIsFinite:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kMultiply:
    case Opcode::kNegate:
    case Opcode::kNot:
    case Opcode::kOr:
    case Opcode::kPopulationCount:
    case Opcode::kReal:
    case Opcode::kReducePrecision:
    case Opcode::kRemainder:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kSelect:
    case Opcode::kShiftLeft:
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
    case Opcode::kSign:
    case Opcode::kStochasticConvert:
    case Opcode::kSubtract:
    case Opcode::kXor:
      return true;
    default:
      return false;
  }
}

/// Neither reads nor writes: names for values that stand elsewhere.
bool moves_nothing(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAddDependency:
    case Opcode::kAfterAll:
    case Opcode::kAllGatherDone:
    case Opcode::kAllReduceDone:
    case Opcode::kAsyncDone:
    case Opcode::kAsyncUpdate:
    case Opcode::kBitcast:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kConstant:
    case Opcode::kCopyDone:
    case Opcode::kDomain:
    case Opcode::kGetTupleElement:
    case Opcode::kOptimizationBarrier:
    case Opcode::kParameter:
    case Opcode::kRecvDone:
    case Opcode::kSendDone:
      return true;
    default:
      return false;
  }
}

double dot_flops(const Operation& op) {
  double contracted = 1;
  for (const int64_t d : dot_dimensions(op.instruction).lhs_contracting) {
    contracted *=
        static_cast<double>(op.operand(0).dimensions[static_cast<size_t>(d)]);
  }
  return 2 * elements(op.instruction.shape) * contracted;
}

/// How many (output, tap) pairs of one dimension touch an element, not padding
/// or a hole.
double valid_positions(const WindowDimension& window, int64_t base,
                       int64_t outputs) {
  constexpr int64_t kLargestCounted =
      4096;  // Beyond, every pair counts: padding is a trifle.
  constexpr int64_t kLargestBase = int64_t{1} << 30;
  if (window.size > kLargestCounted || outputs > kLargestBase ||
      base > kLargestBase ||
      (window.base_dilation > 1 && outputs > kLargestCounted)) {
    return static_cast<double>(window.size) * static_cast<double>(outputs);
  }
  const int64_t last_element = (base - 1) * window.base_dilation;
  double valid = 0;
  for (int64_t tap = 0; tap < window.size; ++tap) {
    const int64_t shift = tap * window.window_dilation - window.padding_low;
    if (window.base_dilation == 1) {
      const int64_t first =
          shift >= 0 ? 0 : (-shift + window.stride - 1) / window.stride;
      const int64_t last =
          last_element < shift
              ? -1
              : std::min(outputs - 1, (last_element - shift) / window.stride);
      valid += static_cast<double>(std::max<int64_t>(0, last - first + 1));
      continue;
    }
    for (int64_t output = 0; output < outputs; ++output) {
      const int64_t at = output * window.stride + shift;
      if (at >= 0 && at <= last_element && at % window.base_dilation == 0)
        valid += 1;
    }
  }
  return valid;
}

std::string raw_attribute(const Instruction& instruction,
                          std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  if (found == nullptr) return {};
  const auto* raw = std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string() : raw->text;
}

/// 2 x outputs without space x input features a group x valid positions of
/// every dimension.
double convolution_flops(const Operation& op) {
  const std::string labels = raw_attribute(op.instruction, "dim_labels");
  const size_t kernel_at = labels.find('_');
  const size_t output_at = labels.find("->");
  const Shape& output = op.instruction.shape;
  const size_t rank = output.dimensions.size();
  if (kernel_at != rank || output_at != 2 * rank + 1 ||
      labels.size() != 3 * rank + 3)
    return 0;
  const auto window = window_dimensions(op.instruction);
  if (!window || window->size() + 2 != rank) return 0;
  double flops = 2;
  for (size_t d = 0; d < rank; ++d) {
    const char kernel = labels[kernel_at + 1 + d];
    const char out = labels[output_at + 2 + d];
    if (kernel == 'i')
      flops *= static_cast<double>(op.operand(1).dimensions[d]);
    if (out == 'b' || out == 'f') {
      flops *= static_cast<double>(output.dimensions[d]);
      continue;
    }
    const size_t input = labels.find(out);
    const auto spatial = static_cast<size_t>(out - '0');
    if (input >= rank || spatial >= window->size()) return 0;
    flops *=
        valid_positions((*window)[spatial], op.operand(0).dimensions[input],
                        output.dimensions[d]);
  }
  const std::vector<int64_t> batch_groups =
      integer_list(op.instruction, "batch_group_count");
  return batch_groups.size() == 1 && batch_groups[0] > 1
             ? flops / static_cast<double>(batch_groups[0])
             : flops;
}

double window_elements(const Instruction& instruction) {
  const auto window = window_dimensions(instruction);
  double count = 1;
  if (!window) return count;
  for (const WindowDimension& dimension : *window)
    count *= static_cast<double>(dimension.size);
  return count;
}

/// Flops of opcodes whose count needs no called computation.
double plain_flops(const Operation& op) {
  const Instruction& instruction = op.instruction;
  if (is_elementwise(instruction.opcode)) return elements(instruction.shape);
  switch (instruction.opcode) {
    case Opcode::kDot:
      return dot_flops(op);
    case Opcode::kConvolution:
      return convolution_flops(op);
    case Opcode::kSort: {
      const double n = elements(op.operand(0));
      return n > 1 ? n * std::ceil(std::log2(n)) : 0;
    }
    case Opcode::kCholesky: {
      const Dimensions& extents = op.operand(0).dimensions;
      return extents.empty() ? 0
                             : elements(instruction.shape) *
                                   static_cast<double>(extents.back()) / 3;
    }
    case Opcode::kTriangularSolve: {
      const Dimensions& extents = op.operand(0).dimensions;
      return extents.empty() ? 0
                             : elements(instruction.shape) *
                                   static_cast<double>(extents.back());
    }
    default:
      return 0;
  }
}

double index_bytes(const Operation& op, size_t first) {
  double bytes = 0;
  for (size_t i = first; i < op.instruction.operands.size(); ++i)
    bytes += op.operand_bytes(i);
  return bytes;
}

double plain_bytes(const Operation& op) {
  const Opcode opcode = op.instruction.opcode;
  if (moves_nothing(opcode)) return 0;
  switch (opcode) {
    case Opcode::kTuple:
      return static_cast<double>(sizeof(void*) *
                                 op.instruction.operands.size());
    case Opcode::kSlice:
      return 2 * op.output_bytes();
    case Opcode::kDynamicSlice:
      return 2 * op.output_bytes() + index_bytes(op, 1);
    case Opcode::kDynamicUpdateSlice:
      return 2 * op.operand_bytes(1) + index_bytes(op, 2);
    case Opcode::kGather:
      return 2 * op.output_bytes() + op.operand_bytes(1);
    case Opcode::kScatter: {
      // n operands, the indices, n updates.
      const size_t arrays = op.instruction.operands.size() / 2;
      double updates = 0;
      for (size_t i = arrays + 1; i < op.instruction.operands.size(); ++i) {
        updates += op.operand_bytes(i);
      }
      return 2 * updates + op.operand_bytes(arrays);
    }
    default:
      return op.all_bytes();
  }
}

void accumulate(InstructionCost* sum, const InstructionCost& cost,
                double times) {
  sum->flops += cost.flops * times;
  sum->transcendentals += cost.transcendentals * times;
  sum->bytes += cost.bytes * times;
}

/// Applications of the called computation: per element of what is combined.
double applications(const Operation& op) {
  const Instruction& instruction = op.instruction;
  switch (instruction.opcode) {
    case Opcode::kReduce: {
      const Shape& output = instruction.shape.is_tuple()
                                ? instruction.shape.elements[0]
                                : instruction.shape;
      return elements(op.operand(0)) - elements(output);
    }
    case Opcode::kReduceWindow: {
      const Shape& output = instruction.shape.is_tuple()
                                ? instruction.shape.elements[0]
                                : instruction.shape;
      return elements(output) * (window_elements(instruction) - 1);
    }
    case Opcode::kScatter:
      return elements(op.operand(instruction.operands.size() / 2 + 1));
    case Opcode::kMap:
      return elements(instruction.shape);
    default:
      return 0;
  }
}

/// Bytes that a fusion reads of one parameter: only slices of it, when all uses
/// are slices.
double utilized_bytes(const Computation& fused, InstructionId parameter,
                      const std::vector<InstructionId>& users) {
  const double whole =
      static_cast<double>(byte_size(fused.at(parameter).shape));
  double sliced = 0;
  for (const InstructionId id : users) {
    const Instruction& user = fused.at(id);
    const bool is_source =
        user.operands[0] == parameter &&
        std::count(user.operands.begin(), user.operands.end(), parameter) == 1;
    const bool takes_part = user.opcode == Opcode::kSlice ||
                            user.opcode == Opcode::kDynamicSlice ||
                            user.opcode == Opcode::kGather;
    if (is_source && takes_part) {
      sliced += static_cast<double>(byte_size(user.shape));
    } else if (!is_source || user.opcode != Opcode::kDynamicUpdateSlice) {
      return whole;
    }
  }
  return std::min(whole, sliced);
}

/// Bytes written for one output of a fusion: an updated slice is written in
/// place.
double written_bytes(const Computation& fused, InstructionId id) {
  const Instruction& output = fused.at(id);
  if (output.opcode == Opcode::kTuple) {
    double bytes = 0;
    for (const InstructionId element : output.operands) {
      const bool nested = fused.at(element).opcode == Opcode::kTuple;
      bytes += nested ? static_cast<double>(byte_size(fused.at(element).shape))
                      : written_bytes(fused, element);
    }
    return bytes;
  }
  if (output.opcode != Opcode::kDynamicUpdateSlice) {
    return static_cast<double>(byte_size(output.shape));
  }
  return static_cast<double>(byte_size(fused.at(output.operands[1]).shape));
}

double fusion_bytes(const Computation& fused) {
  const std::vector<std::vector<InstructionId>> users = users_of(fused);
  double bytes = written_bytes(fused, fused.root);
  for (uint32_t i = 0; i < fused.instructions.size(); ++i) {
    const Instruction& instruction = fused.instructions[i];
    if (instruction.opcode == Opcode::kParameter) {
      bytes += utilized_bytes(fused, InstructionId{i}, users[i]);
    } else if (instruction.opcode == Opcode::kConstant &&
               elements(instruction.shape) > 1) {
      bytes += static_cast<double>(byte_size(instruction.shape));
    }
  }
  return bytes;
}

}  // namespace

CostAnalysis::CostAnalysis(const Module& module, bool multiply_trips)
    : module_(module),
      multiply_trips_(multiply_trips),
      computations_(module.computations.size()) {}

InstructionCost CostAnalysis::instruction(const Computation& computation,
                                          InstructionId id) {
  prepare(computation.at(id));
  return evaluate(computation, computation.at(id));
}

InstructionCost CostAnalysis::computation(ComputationId id) {
  const Computation& computation = module_.at(id);
  InstructionCost sum;
  for (const Instruction& instruction : computation.instructions) {
    prepare(instruction);
    accumulate(&sum, evaluate(computation, instruction), 1);
  }
  return sum;
}

/// Costs everything the instruction reaches, callees first (their ids are
/// lower).
void CostAnalysis::prepare(const Instruction& instruction) {
  std::vector<ComputationId> reached = called_computations(instruction);
  std::vector<ComputationId> pending;
  std::vector<bool> seen(reached.empty() ? 0 : computations_.size());
  while (!reached.empty()) {
    const ComputationId id = reached.back();
    reached.pop_back();
    if (computations_[index_of(id)] || seen[index_of(id)]) continue;
    seen[index_of(id)] = true;
    pending.push_back(id);
    for (const Instruction& inner : module_.at(id).instructions) {
      const std::vector<ComputationId> more = called_computations(inner);
      reached.insert(reached.end(), more.begin(), more.end());
    }
  }
  std::sort(pending.begin(), pending.end());
  for (const ComputationId id : pending) {
    InstructionCost sum;
    for (const Instruction& inner : module_.at(id).instructions) {
      accumulate(&sum, evaluate(module_.at(id), inner), 1);
    }
    computations_[index_of(id)] = sum;
  }
}

InstructionCost CostAnalysis::called(const Instruction& instruction,
                                     std::string_view attribute) const {
  const auto id = called_computation(instruction, attribute);
  return id && computations_[index_of(*id)] ? *computations_[index_of(*id)]
                                            : InstructionCost();
}

InstructionCost CostAnalysis::evaluate(const Computation& computation,
                                       const Instruction& instruction) {
  const Operation op{computation, instruction};
  switch (instruction.opcode) {
    case Opcode::kCall:
      return called(instruction, "to_apply");
    case Opcode::kWhile:
      return loop(computation, instruction);
    case Opcode::kConditional:
      return branches(instruction);
    case Opcode::kFusion:
      return fusion(computation, instruction);
    case Opcode::kAsyncStart: {
      InstructionCost cost = called(instruction, "calls");
      if (cost.bytes == 0) cost.bytes = plain_bytes(op);
      return cost;
    }
    default:
      break;
  }
  InstructionCost cost;
  cost.flops = plain_flops(op);
  cost.bytes = plain_bytes(op);
  if (is_transcendental(instruction.opcode))
    cost.transcendentals = elements(instruction.shape);
  InstructionCost applied;
  accumulate(&applied, called(instruction, "to_apply"), applications(op));
  if (instruction.opcode == Opcode::kSelectAndScatter) {
    const double sources = elements(op.operand(1));
    accumulate(&applied, called(instruction, "select"),
               sources * (window_elements(instruction) - 1));
    accumulate(&applied, called(instruction, "scatter"), sources);
  }
  cost.flops += applied.flops;
  cost.transcendentals += applied.transcendentals;
  return cost;
}

InstructionCost CostAnalysis::loop(const Computation& computation,
                                   const Instruction& instruction) const {
  const double trips =
      multiply_trips_
          ? static_cast<double>(
                trip_count(module_, computation, instruction).value_or(1))
          : 1;
  InstructionCost sum;
  accumulate(&sum, called(instruction, "body"), trips);
  accumulate(&sum, called(instruction, "condition"), trips);
  return sum;
}

InstructionCost CostAnalysis::branches(const Instruction& instruction) const {
  InstructionCost most;
  for (const ComputationId id : called_computations(instruction)) {
    const InstructionCost cost =
        computations_[index_of(id)].value_or(InstructionCost());
    most.flops = std::max(most.flops, cost.flops);
    most.transcendentals = std::max(most.transcendentals, cost.transcendentals);
    most.bytes = std::max(most.bytes, cost.bytes);
  }
  return most;
}

InstructionCost CostAnalysis::fusion(const Computation& computation,
                                     const Instruction& instruction) const {
  InstructionCost cost = called(instruction, "calls");
  const auto id = called_computation(instruction, "calls");
  cost.bytes = id ? fusion_bytes(module_.at(*id))
                  : plain_bytes({computation, instruction});
  return cost;
}

std::vector<ComputationId> called_computations(const Instruction& instruction) {
  std::vector<ComputationId> called;
  for (const Attribute& attribute : instruction.attributes) {
    if (const auto* one = std::get_if<ComputationId>(&attribute.value)) {
      called.push_back(*one);
    } else if (const auto* many =
                   std::get_if<std::vector<ComputationId>>(&attribute.value)) {
      called.insert(called.end(), many->begin(), many->end());
    }
  }
  return called;
}

InstructionCost instruction_cost(const Module& module,
                                 const Computation& computation,
                                 InstructionId id) {
  return CostAnalysis(module).instruction(computation, id);
}

}  // namespace reprise
