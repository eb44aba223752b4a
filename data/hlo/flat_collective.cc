// An array of [A…, g b, C…] whose parts lie along the middle dimension is
// [g, A…, b, C…] after a reshape and a transpose: then part i is block i.
#include "data/hlo/flat_collective.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/hlo/collective_ranks.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

using Extents = std::vector<int64_t>;

bool is_cut_into_parts(Opcode opcode) {
  return opcode == Opcode::kAllGather || opcode == Opcode::kAllToAll ||
         opcode == Opcode::kReduceScatter;
}

class FlatCollective {
 public:
  FlatCollective(const Module& module, const Instruction& collective,
                 Computation* to)
      : module_(module), collective_(collective), to_(*to) {}

  InstructionId run() {
    const Shape& shape = collective_.shape;
    const bool is_split = shape.is_tuple() &&
                          shape.elements.size() == collective_.operands.size();
    if (collective_.opcode == Opcode::kAllReduce) return append(collective_);
    if (is_split && collective_.opcode == Opcode::kAllToAll)
      return exchange_arrays();
    if (is_split) return one_by_one();
    if (collective_.operands.size() != 1) return append(collective_);
    return along_any_dimension(collective_);
  }

 private:
  InstructionId append(Instruction instruction) {
    to_.instructions.push_back(std::move(instruction));
    return InstructionId{static_cast<uint32_t>(to_.instructions.size() - 1)};
  }

  /// A step beside the collective, which tells where it comes from.
  InstructionId append_step(Opcode opcode, const std::string& name,
                            const Extents& extents,
                            std::vector<InstructionId> operands,
                            std::vector<Attribute> attributes = {}) {
    Instruction step;
    step.name = name;
    step.opcode = opcode;
    step.shape.type = to_.at(operands[0]).shape.type;
    step.shape.dimensions = extents;
    step.operands = std::move(operands);
    step.attributes = std::move(attributes);
    if (const Attribute* metadata = collective_.find_attribute("metadata"))
      step.attributes.push_back(*metadata);
    return append(std::move(step));
  }

  InstructionId reshape(const std::string& name, const Extents& extents,
                        InstructionId operand) {
    return append_step(Opcode::kReshape, name, extents, {operand});
  }

  InstructionId transpose(const std::string& name, const Extents& order,
                          InstructionId operand) {
    const Extents from = to_.at(operand).shape.dimensions;
    Extents extents;
    extents.reserve(order.size());
    for (const int64_t d : order)
      extents.push_back(from[static_cast<size_t>(d)]);
    return append_step(Opcode::kTranspose, name, extents, {operand},
                       {{"dimensions", order}});
  }

  /// The communicating part, of an array, its parts along dimension 0.
  InstructionId communicate(const Instruction& like, const Extents& extents,
                            InstructionId operand) {
    Instruction flat = like;
    flat.shape = Shape{};
    flat.shape.type = to_.at(operand).shape.type;
    flat.shape.dimensions = extents;
    flat.operands = {operand};
    std::erase_if(flat.attributes, [](const Attribute& attribute) {
      return attribute.name == "dimensions";
    });
    flat.attributes.push_back({"dimensions", Extents{0}});
    return append(std::move(flat));
  }

  /// [A…, g b, C…] as [g, A…, b, C…].
  InstructionId parts_outermost(const std::string& name, InstructionId value,
                                size_t dimension, int64_t parts) {
    Extents extents = to_.at(value).shape.dimensions;
    extents[dimension] /= parts;
    extents.insert(extents.begin() + static_cast<long>(dimension), parts);
    Extents order(extents.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + static_cast<long>(dimension),
                order.begin() + static_cast<long>(dimension) + 1);
    return transpose(name + "/parts", order,
                     reshape(name + "/split", extents, value));
  }

  /// [g, A…, b, C…] as [A…, g b, C…].
  InstructionId parts_in_place(const std::string& name, InstructionId value,
                               size_t dimension) {
    Extents order(to_.at(value).shape.dimensions.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 1,
                order.begin() + static_cast<long>(dimension) + 1);
    const InstructionId moved = transpose(name + "/moved", order, value);
    Extents extents = to_.at(moved).shape.dimensions;
    extents[dimension] *= extents[dimension + 1];
    extents.erase(extents.begin() + static_cast<long>(dimension) + 1);
    return reshape(name + "/joined", extents, moved);
  }

  /// Of one operand and one result.
  InstructionId along_any_dimension(const Instruction& one) {
    const Shape operand = to_.at(one.operands[0]).shape;
    // torch_xla threads scalars through its collectives as tokens.
    if (is_cut_into_parts(one.opcode) && operand.dimensions.empty())
      return one.operands[0];
    if (!is_cut_into_parts(one.opcode) || divides_bytes(one, operand))
      return append(one);
    const Extents divided = integer_list(one, "dimensions");
    if (divided.size() != 1 || divided[0] < 0 ||
        static_cast<size_t>(divided[0]) >= operand.dimensions.size())
      return append(one);
    const auto dimension = static_cast<size_t>(divided[0]);
    const int64_t parts = parts_of(one, operand, dimension);
    if (parts < 1) return append(one);
    InstructionId value = one.operands[0];
    if (one.opcode == Opcode::kAllGather) {
      Extents extents = operand.dimensions;
      extents.insert(extents.begin(), 1);
      value = reshape(one.name + "/part", extents, value);
    } else {
      value = parts_outermost(one.name, value, dimension, parts);
    }
    Extents extents = to_.at(value).shape.dimensions;
    if (one.opcode == Opcode::kAllGather) extents[0] = parts;
    if (one.opcode == Opcode::kReduceScatter) extents[0] = 1;
    value = communicate(one, extents, value);
    if (one.opcode == Opcode::kReduceScatter)
      return reshape(one.name + "/part", one.shape.dimensions, value);
    return parts_in_place(one.name, value, dimension);
  }

  /// How many parts lie along a dimension; 0 where that cannot be told.
  int64_t parts_of(const Instruction& one, const Shape& operand,
                   size_t dimension) const {
    const int64_t in = operand.dimensions[dimension];
    const int64_t out = one.shape.dimensions.at(dimension);
    if (one.opcode == Opcode::kAllGather)
      return in > 0 && out % in == 0 ? out / in : 0;
    if (one.opcode == Opcode::kReduceScatter)
      return out > 0 && in % out == 0 ? in / out : 0;
    const int64_t ranks = stated_group_size(module_, one).value_or(0);
    return ranks > 0 && in % ranks == 0 ? ranks : 0;
  }

  InstructionId append_tuple(std::vector<InstructionId> elements) {
    Instruction tuple;
    tuple.name = collective_.name + "/tuple";
    tuple.opcode = Opcode::kTuple;
    tuple.shape.type = PrimitiveType::kTuple;
    for (const InstructionId element : elements)
      tuple.shape.elements.push_back(to_.at(element).shape);
    tuple.operands = std::move(elements);
    return append(std::move(tuple));
  }

  InstructionId one_by_one() {
    std::vector<InstructionId> elements;
    for (size_t i = 0; i < collective_.operands.size(); ++i) {
      Instruction one = collective_;
      one.name = fmt::format("{}/{}", collective_.name, i);
      one.shape = collective_.shape.elements[i];
      one.operands = {collective_.operands[i]};
      elements.push_back(along_any_dimension(one));
    }
    return append_tuple(std::move(elements));
  }

  /// Array i goes to rank i of the group, and element i comes from it.
  InstructionId exchange_arrays() {
    const Extents part = to_.at(collective_.operands[0]).shape.dimensions;
    for (const InstructionId operand : collective_.operands) {
      if (to_.at(operand).shape.dimensions != part) return append(collective_);
    }
    const auto count = static_cast<int64_t>(collective_.operands.size());
    Extents row = part;
    row.insert(row.begin(), 1);
    std::vector<InstructionId> rows;
    for (const InstructionId operand : collective_.operands) {
      rows.push_back(
          reshape(fmt::format("{}/part{}", collective_.name, rows.size()), row,
                  operand));
    }
    Extents all = row;
    all[0] = count;
    const InstructionId joined =
        append_step(Opcode::kConcatenate, collective_.name + "/parts", all,
                    std::move(rows), {{"dimensions", Extents{0}}});
    const InstructionId exchanged = communicate(collective_, all, joined);
    std::vector<InstructionId> elements;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<SliceDimension> slice{{i, i + 1}};
      for (const int64_t extent : part) slice.push_back({0, extent});
      const InstructionId taken = append_step(
          Opcode::kSlice, fmt::format("{}/from{}", collective_.name, i), row,
          {exchanged}, {slice_attribute(slice)});
      elements.push_back(
          reshape(fmt::format("{}/{}", collective_.name, i), part, taken));
    }
    return append_tuple(std::move(elements));
  }

  const Module& module_;
  const Instruction& collective_;
  Computation& to_;
};

}  // namespace

bool divides_bytes(const Instruction& collective, const Shape& operand) {
  const Extents divided = integer_list(collective, "dimensions");
  if (divided.size() != 1 || divided[0] < 0) return false;
  const auto before =
      std::min(static_cast<size_t>(divided[0]), operand.dimensions.size());
  return std::all_of(operand.dimensions.begin(),
                     operand.dimensions.begin() + static_cast<long>(before),
                     [](int64_t extent) { return extent == 1; });
}

InstructionId append_flat_collective(const Module& module,
                                     const Instruction& collective,
                                     Computation* to) {
  return FlatCollective(module, collective, to).run();
}

}  // namespace reprise
