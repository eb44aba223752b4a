// Nodes are made from outputs to loads and hash-consed: two requests for one op
// at one index map, or for one operation on the same nodes, give one node. So a
// value that several outputs share is computed once, without a separate pass
// for common subexpressions. Cost: nodes × the maps at which one op is met,
// nearly always one.
#include "data/kernel/trace.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace reprise {
namespace {

uint64_t mix_value(uint64_t hash, uint64_t word) {
  return (hash ^ word) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

uint64_t hash_of(const KernelValue& value) {
  uint64_t hash = mix_value(static_cast<uint64_t>(value.kind),
                            static_cast<uint64_t>(value.opcode));
  hash = mix_value(hash, static_cast<uint64_t>(value.type));
  hash = mix_value(
      hash, value.literal ^ static_cast<uint64_t>(value.comparison[0] * 256 +
                                                  value.comparison[1]));
  for (const int32_t operand : value.operands)
    hash = mix_value(hash, static_cast<uint64_t>(operand));
  hash = mix_value(hash, static_cast<uint64_t>(value.source));
  return mix_value(hash, static_cast<uint64_t>(value.index));
}

bool same(const KernelValue& a, const KernelValue& b) {
  return a.kind == b.kind && a.opcode == b.opcode && a.type == b.type &&
         std::memcmp(a.comparison, b.comparison, sizeof a.comparison) == 0 &&
         std::equal(a.operands, a.operands + 3, b.operands) &&
         a.source == b.source && a.index == b.index && a.literal == b.literal;
}

int64_t signed_literal(const KernelValue& value) {
  const int bits = primitive_type_bits(value.type);
  if (bits >= 64) return static_cast<int64_t>(value.literal);
  const bool is_signed = value.type == PrimitiveType::kS8 ||
                         value.type == PrimitiveType::kS16 ||
                         value.type == PrimitiveType::kS32;
  if (!is_signed) return static_cast<int64_t>(value.literal);
  const int shift = 64 - bits;
  return static_cast<int64_t>(value.literal << shift) >> shift;
}

void collect_values(const IndexTable& indices, int32_t expression,
                    std::vector<int32_t>& found) {
  for (const IndexTerm& term : indices.at(expression).terms) {
    const IndexAtom& atom = indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kValue) {
      found.push_back(atom.operand);
    } else if (atom.kind != IndexAtom::Kind::kLoop) {
      collect_values(indices, atom.operand, found);
    }
  }
}

}  // namespace

ElementTrace::ElementTrace(const Group& group,
                           std::vector<InstructionId>& sources,
                           IndexTable& indices, const NestSpace& space)
    : group_(group), sources_(sources), indices_(indices), space_(space) {}

void ElementTrace::fail_with(ErrorKind kind, std::string message) {
  if (status_) status_ = tl::unexpected<Error>(Error{kind, std::move(message)});
}

void ElementTrace::note_values(Node& node) {
  if (!dynamic_ || node.value.index < 0) return;
  collect_values(indices_, node.value.index, node.index_values);
  std::sort(node.index_values.begin(), node.index_values.end());
  node.index_values.erase(
      std::unique(node.index_values.begin(), node.index_values.end()),
      node.index_values.end());
  for (const int32_t value : node.index_values) {
    const Node& inside = nodes_[static_cast<size_t>(value)];
    node.loops |= inside.loops;
    node.level = std::max(node.level, inside.level);
    node.weight += inside.weight + 4;
  }
}

int32_t ElementTrace::add_node(KernelValue value, uint64_t loops, int32_t level,
                               int32_t weight) {
  std::vector<int32_t>& candidates = by_hash_[hash_of(value)];
  for (const int32_t candidate : candidates) {
    if (same(nodes_[static_cast<size_t>(candidate)].value, value))
      return candidate;
  }
  Node node;
  node.value = value;
  node.loops = loops;
  node.level = level;
  node.weight = std::min(weight, 1 << 20);
  note_values(node);
  const int32_t id = static_cast<int32_t>(nodes_.size());
  candidates.push_back(id);
  nodes_.push_back(std::move(node));
  return id;
}

int32_t ElementTrace::literal(PrimitiveType type, uint64_t bits) {
  KernelValue value;
  value.type = type;
  value.literal = bits;
  return add_node(value, 0, 0, 0);
}

int32_t ElementTrace::index_node(PrimitiveType type, int32_t expression) {
  const IndexExpression& index = indices_.at(expression);
  if (index.terms.empty())
    return literal(type, integer_bits(type, index.constant));
  KernelValue value;
  value.kind = KernelValue::Kind::kIndex;
  value.type = type;
  value.index = expression;
  return add_node(value, index.loops, 0, 1);
}

int32_t ElementTrace::apply(Opcode opcode, PrimitiveType type, int32_t a,
                            int32_t b, int32_t c, const char* comparison) {
  KernelValue value;
  value.kind = KernelValue::Kind::kApply;
  value.opcode = opcode;
  value.type = type;
  if (comparison != nullptr) {
    value.comparison[0] = comparison[0];
    value.comparison[1] = comparison[1];
  }
  uint64_t loops = 0;
  int32_t level = 0, weight = facts_of(opcode).weight;
  const int32_t operands[3] = {a, b, c};
  for (int i = 0; i < 3; ++i) {
    if (operands[i] < 0) continue;
    value.operands[i] = operands[i];
    const Node& operand = nodes_[static_cast<size_t>(operands[i])];
    loops |= operand.loops;
    level = std::max(level, operand.level);
    weight += operand.weight;
  }
  return add_node(value, loops, level, weight);
}

int32_t ElementTrace::load(InstructionId id, const IndexMap& map) {
  const Instruction& instruction = group_.at(id);
  if (!instruction.shape.is_array() ||
      !is_kernel_type(instruction.shape.type)) {
    fail_with(ErrorKind::kUnsupported,
              instruction.name + ": no kernel reads " +
                  shape_text(instruction.shape, false));
    return literal(PrimitiveType::kF32, 0);
  }
  auto source = std::find(sources_.begin(), sources_.end(), id);
  if (source == sources_.end()) source = sources_.insert(source, id);
  KernelValue value;
  value.kind = KernelValue::Kind::kLoad;
  value.type = instruction.shape.type;
  value.source = static_cast<int32_t>(source - sources_.begin());
  value.index = indices_.linearize(map, instruction.shape.dimensions);
  return add_node(value, indices_.at(value.index).loops, 0, 1);
}

int32_t ElementTrace::total(Opcode combine, PrimitiveType type,
                            int32_t operand) {
  const Node& accumulated = nodes_[static_cast<size_t>(operand)];
  size_t slot = 0;
  while (slot < accumulators_.size() &&
         (accumulated_[slot] != operand ||
          accumulators_[slot].combine != combine)) {
    ++slot;
  }
  if (slot == accumulators_.size()) {
    KernelAccumulator accumulator;
    accumulator.combine = combine;
    accumulator.type = type;
    accumulators_.push_back(accumulator);
    accumulated_.push_back(operand);
  }
  KernelValue value;
  value.kind = KernelValue::Kind::kTotal;
  value.type = type;
  value.source = static_cast<int32_t>(slot);
  return add_node(value, accumulated.loops & space_.rows, accumulated.level + 1,
                  0);
}

int32_t ElementTrace::within(int32_t expression, int64_t low, int64_t high) {
  const IndexExpression index = indices_.at(expression);
  int32_t result = -1;
  const PrimitiveType type = PrimitiveType::kS64;
  if (index.low < low) {
    result = apply(Opcode::kCompare, PrimitiveType::kPred,
                   index_node(type, expression),
                   literal(type, static_cast<uint64_t>(low)), -1, "GE");
  }
  if (index.high > high) {
    result = both(result,
                  apply(Opcode::kCompare, PrimitiveType::kPred,
                        index_node(type, expression),
                        literal(type, static_cast<uint64_t>(high)), -1, "LE"));
  }
  return result;
}

int32_t ElementTrace::both(int32_t left, int32_t right) {
  if (left < 0) return right;
  if (right < 0) return left;
  return apply(Opcode::kAnd, PrimitiveType::kPred, left, right);
}

int32_t ElementTrace::dynamic_index(int32_t node, int64_t low, int64_t high) {
  const KernelValue& known = nodes_[static_cast<size_t>(node)].value;
  if (known.kind == KernelValue::Kind::kLiteral) {
    return indices_.constant(std::clamp(signed_literal(known), low, high));
  }
  const Node& inside = nodes_[static_cast<size_t>(node)];
  dynamic_ = true;
  return indices_.value(node, low, high, inside.loops);
}

int32_t ElementTrace::value(InstructionId id, const IndexMap& map) {
  for (const auto& [known_map, node] : memo_[index_of(id)]) {
    if (known_map == map) return node;
  }
  const Instruction& instruction = group_.at(id);
  int32_t node = -1;
  if (!status_) {
    node = literal(PrimitiveType::kF32, 0);
  } else if (!is_view(instruction.opcode) && !group_.contains(id)) {
    node = load(id, map);
  } else if (depth_ >= kMaxDepth) {
    fail_with(ErrorKind::kInfeasible,
              instruction.name + ": too many ops one after the other");
    node = literal(PrimitiveType::kF32, 0);
  } else {
    if (!is_view(instruction.opcode) &&
        std::find(computed_.begin(), computed_.end(), id) == computed_.end()) {
      computed_.push_back(id);
    }
    ++depth_;
    node = trace_op(instruction, id, map);
    --depth_;
  }
  memo_[index_of(id)].emplace_back(map, node);
  return node;
}

}  // namespace reprise
