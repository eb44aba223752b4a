// Facts about single ops that the steps of lowering share: which are members,
// how a reduce runs, where an op that only moves elements reads, and the bits
// of literals and identities (16-bit floats are rounded by hand, C++20 has
// none).
#include "data/kernel/group.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "data/element.h"
#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/hlo/sum_steps.h"

namespace reprise {
namespace {

/// Reduces over at most this many elements are written out.
constexpr int64_t kUnrolledElements = 4;

void sort_unique(std::vector<InstructionId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

/// Rounds to the nearest, ties to even, keeping the top 16 bits.
uint64_t bf16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

/// Rounds to the nearest, ties to even (C++20 has no 16-bit float type).
uint64_t f16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (size >= 0x47800000u)
    return sign | (size > 0x7f800000u ? 0x7e00u : 0x7c00u);
  if (size < 0x38800000u) {  // Subnormal in f16: the sum rounds.
    const float sum = std::bit_cast<float>(size) + 0.5f;
    return sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u);
  }
  return sign | ((size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13);
}

uint64_t float_bits(PrimitiveType type, double value) {
  switch (type) {
    case PrimitiveType::kF64:
      return std::bit_cast<uint64_t>(value);
    case PrimitiveType::kBF16:
      return bf16_bits(static_cast<float>(value));
    case PrimitiveType::kF16:
      return f16_bits(static_cast<float>(value));
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

bool is_float(PrimitiveType type) {
  return type == PrimitiveType::kF16 || type == PrimitiveType::kBF16 ||
         type == PrimitiveType::kF32 || type == PrimitiveType::kF64;
}

bool is_signed(PrimitiveType type) {
  return type == PrimitiveType::kS8 || type == PrimitiveType::kS16 ||
         type == PrimitiveType::kS32 || type == PrimitiveType::kS64;
}

/// Greatest integer of the type as bits; for a signed type also the complement
/// of the least.
uint64_t greatest_bits(PrimitiveType type) {
  if (type == PrimitiveType::kPred) return 1;
  const int bits = primitive_type_bits(type);
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return is_signed(type) ? all >> 1 : all;
}

uint64_t least_bits(PrimitiveType type) {
  if (!is_signed(type)) return 0;
  return uint64_t{1} << (primitive_type_bits(type) - 1);
}

}  // namespace

bool is_kernel_type(PrimitiveType type) { return has_plain_elements(type); }

bool is_computable(Opcode opcode, PrimitiveType type) {
  switch (facts_of(opcode).types) {
    case ElementTypes::kNoType:
      return false;
    case ElementTypes::kAnyType:
      return true;
    case ElementTypes::kNumbers:
      return type != PrimitiveType::kPred;
    case ElementTypes::kIntegers:
      return !is_float(type) && type != PrimitiveType::kPred;
    case ElementTypes::kBits:
      return !is_float(type);
    case ElementTypes::kFloats:
      return is_float(type);
  }
  return false;
}

Group::Group(const Module& module, std::span<const InstructionId> ops,
             std::span<const InstructionId> outputs)
    : module_(module),
      computation_(module.entry_computation()),
      outputs_(outputs.begin(), outputs.end()) {
  for (const InstructionId id : ops) {
    if (!is_view(at(id).opcode)) members_.push_back(id);
  }
  for (const InstructionId id : outputs) members_.push_back(id);
  sort_unique(members_);
}

bool Group::contains(InstructionId id) const {
  return std::binary_search(members_.begin(), members_.end(), id) &&
         !is_view(at(id).opcode);
}

bool Group::is_output(InstructionId id) const {
  return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end();
}

Result<ReduceSpec> reduce_spec(const Group& group, const Instruction& reduce) {
  if (reduce.operands.size() != 2) {
    return fail(ErrorKind::kUnsupported,
                "{}: a reduce of several arrays has no kernel", reduce.name);
  }
  const std::optional<Opcode> combine =
      combining_opcode(group.module(), reduce);
  if (!combine || *combine == Opcode::kParameter) {
    return fail(ErrorKind::kUnsupported,
                "{}: its to_apply is not one known binary op", reduce.name);
  }
  if (!is_computable(*combine, reduce.shape.type)) {
    return fail(ErrorKind::kUnsupported, "{}: no kernel reduces {} by {}",
                reduce.name, primitive_type_name(reduce.shape.type),
                opcode_name(*combine));
  }
  const std::vector<int64_t>& extents =
      operand_shape(group, reduce, 0).dimensions;
  ReduceSpec spec;
  spec.combine = *combine;
  spec.reduced.resize(extents.size());
  for (const int64_t dimension : integer_list(reduce, "dimensions")) {
    spec.reduced.at(static_cast<size_t>(dimension)) = true;
  }
  int64_t count = 1;
  bool minor_reduced = false;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (spec.reduced[i]) {
      spec.reduced_extents.push_back(extents[i]);
      count *= extents[i];
    }
    if (extents[i] > 1) minor_reduced = spec.reduced[i];
  }
  spec.rows = minor_reduced;
  const bool in_order = *combine == Opcode::kAdd && is_half(reduce.shape.type);
  const int64_t short_row = in_order ? kSumWindow : kShortRow;
  if (count <= (minor_reduced ? short_row : kUnrolledElements)) {
    spec.kind = ReduceKind::kUnrolled;
  } else {
    spec.kind = minor_reduced && !in_order ? ReduceKind::kByLanes
                                           : ReduceKind::kSequential;
  }
  return spec;
}

std::optional<IndexMap> moved_map(const Group& group, IndexTable& indices,
                                  const Instruction& instruction,
                                  const IndexMap& map) {
  switch (instruction.opcode) {
    case Opcode::kOptimizationBarrier:
      return map;
    case Opcode::kReshape:
    case Opcode::kBitcast:
      return indices.delinearize(
          indices.linearize(map, instruction.shape.dimensions),
          operand_shape(group, instruction, 0).dimensions);
    case Opcode::kBroadcast: {
      IndexMap inner;
      for (const int64_t dimension : integer_list(instruction, "dimensions")) {
        inner.push_back(map.at(static_cast<size_t>(dimension)));
      }
      return inner;
    }
    case Opcode::kTranspose: {
      IndexMap inner(map.size());
      const std::vector<int64_t> permutation =
          integer_list(instruction, "dimensions");
      for (size_t i = 0; i < permutation.size(); ++i) {
        inner.at(static_cast<size_t>(permutation[i])) = map.at(i);
      }
      return inner;
    }
    case Opcode::kReverse: {
      IndexMap inner = map;
      for (const int64_t dimension : integer_list(instruction, "dimensions")) {
        const auto place = static_cast<size_t>(dimension);
        const int64_t last = instruction.shape.dimensions.at(place) - 1;
        inner.at(place) = indices.add(indices.constant(last),
                                      indices.scale(inner.at(place), -1));
      }
      return inner;
    }
    default:
      return std::nullopt;
  }
}

uint64_t literal_bits(PrimitiveType type, const std::string& text) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  if (type == PrimitiveType::kF64)
    return std::bit_cast<uint64_t>(std::strtod(text.c_str(), nullptr));
  if (is_float(type))
    return float_bits(type, std::strtof(text.c_str(), nullptr));
  if (type == PrimitiveType::kU64)
    return std::strtoull(text.c_str(), nullptr, 10);
  return integer_bits(type, std::strtoll(text.c_str(), nullptr, 10));
}

uint64_t integer_bits(PrimitiveType type, int64_t value) {
  if (is_float(type)) return float_bits(type, static_cast<double>(value));
  const int bits = primitive_type_bits(type);
  const uint64_t raw = static_cast<uint64_t>(value);
  return bits >= 64 ? raw : raw & ((uint64_t{1} << bits) - 1);
}

uint64_t identity_bits(Opcode combine, PrimitiveType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (facts_of(combine).identity) {
    case Identity::kNoIdentity:
    case Identity::kZero:
      return 0;
    case Identity::kOne:
      return integer_bits(type, 1);
    case Identity::kLeast:
      return is_float(type) ? float_bits(type, -infinity) : least_bits(type);
    case Identity::kGreatest:
      return is_float(type) ? float_bits(type, infinity) : greatest_bits(type);
    case Identity::kAllBits:
      return type == PrimitiveType::kPred ? 1 : integer_bits(type, -1);
  }
  return 0;
}

}  // namespace reprise
