// In stages: a path's stage rises where it comes to other elements or to what
// is no such group, so it does not come back to a stage that it left, and what
// is joined within a stage is convex.
#include "data/schedule/neighbour_groups.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"
#include "data/kernel/group.h"

namespace reprise {
namespace {

/// Of more work than the registers of one loop hold beside another's: sine and
/// cosine of the same angles take 1.2 times as long in one loop as in two.
bool fills_a_loop(Opcode opcode) {
  return opcode == Opcode::kSine || opcode == Opcode::kCosine ||
         opcode == Opcode::kTan;
}

/// Of the dimensions that are more than one.
std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> found;
  std::ranges::copy_if(shape.dimensions, std::back_inserter(found),
                       [](int64_t extent) { return extent > 1; });
  return found;
}

/// Longer rows have too few of them to fill a device's threads.
constexpr int64_t kLongestRow = 4096;

/// A reduction of each row by lanes, of one array.
bool sums_rows(const OpGraph& graph, InstructionId op) {
  if (graph.role_of(op) != OpRole::kKernel ||
      graph.at(op).opcode != Opcode::kReduce)
    return false;
  const Group alone(*graph.module, std::span(&op, 1), std::span(&op, 1));
  const Result<ReduceSpec> spec = reduce_spec(alone, graph.at(op));
  if (!spec || spec->kind != ReduceKind::kByLanes) return false;
  int64_t columns = 1;
  for (const int64_t extent : spec->reduced_extents) columns *= extent;
  const Shape& whole = graph.at(graph.at(op).operands[0]).shape;
  std::vector<int64_t> rows = extents(graph.at(op).shape);
  const std::vector<int64_t> all = extents(whole);
  return columns <= kLongestRow && rows.size() < all.size() &&
         std::equal(rows.begin(), rows.end(), all.begin()) &&
         element_count(graph.at(op).shape) * columns == element_count(whole);
}

/// Whether a broadcast keeps its operand's dimensions in front.
bool keeps_in_front(const Instruction& broadcast, const Shape& from) {
  std::vector<int64_t> places;
  int64_t place = 0;
  const std::vector<int64_t> dimensions = integer_list(broadcast, "dimensions");
  for (size_t d = 0; d < broadcast.shape.dimensions.size(); ++d) {
    if (broadcast.shape.dimensions[d] == 1) continue;
    const auto at = std::ranges::find(dimensions, static_cast<int64_t>(d));
    const bool is_kept =
        at != dimensions.end() &&
        from.dimensions[static_cast<size_t>(at - dimensions.begin())] > 1;
    if (is_kept) places.push_back(place);
    ++place;
  }
  for (size_t k = 0; k < places.size(); ++k) {
    if (places[k] != static_cast<int64_t>(k)) return false;
  }
  return std::ranges::is_sorted(dimensions);
}

/// Whether `operand` is the result itself or, for each of its rows, one element
/// of the result: by views that add dimensions of one or, behind those there
/// are, new ones.
bool spreads_rows(const OpGraph& graph, InstructionId operand,
                  InstructionId result) {
  while (operand != result) {
    const Instruction& view = graph.at(operand);
    if (view.operands.empty()) return false;
    const Shape& from = graph.at(view.operands[0]).shape;
    const bool is_same =
        extents(view.shape) == extents(from) && view.shape.type == from.type;
    if (view.opcode == Opcode::kBroadcast
            ? !keeps_in_front(view, from)
            : view.opcode != Opcode::kReshape || !is_same)
      return false;
    operand = view.operands[0];
  }
  return true;
}

/// Groups of several results, of those that `last` names.
class Neighbours {
 public:
  Neighbours(const OpGraph& graph, const std::vector<uint32_t>& last,
             CalledFusion fusion)
      : graph_(graph),
        last_(last),
        fusion_(fusion),
        stage_(last.size()),
        follows_(last.size()),
        is_full_(last.size()),
        space_(last.size()),
        first_(last.size()) {
    std::iota(first_.begin(), first_.end(), 0U);
    for (uint32_t op = 0; op < last.size(); ++op) {
      if (fills_a_loop(graph.at(InstructionId{op}).opcode))
        is_full_[last[op]] = true;
    }
    find_spaces();
  }

  /// [op] A number of its group.
  std::vector<uint32_t> run() {
    // A group is read from its last op on, so these are in order.
    for (uint32_t op = 0; op < last_.size(); ++op) {
      follow_producer(op);
      if (last_[op] == op) reach_readers(op);
    }
    for (uint32_t op = static_cast<uint32_t>(last_.size()); op-- > 0;) {
      if (last_[op] == op && !follows_[op]) wait_for_readers(op);
    }
    for (uint32_t op = 0; op < last_.size(); ++op) {
      if (last_[op] == op) join_readers_of(op);
    }
    std::vector<int> ops(last_.size());
    for (const uint32_t group : last_) ++ops[first_of(group)];
    std::vector<uint32_t> found(last_.size());
    for (uint32_t op = 0; op < last_.size(); ++op) {
      const uint32_t whole = first_of(last_[op]);
      found[op] = ops[whole] <= kMostOps ? whole : last_[op];
    }
    return found;
  }

 private:
  /// A compiler's time grows faster than its loops.
  static constexpr int kMostOps = 256;

  InstructionId viewed(InstructionId id) const {
    while (is_view(graph_.at(id).opcode) && !graph_.at(id).operands.empty())
      id = graph_.at(id).operands[0];
    return id;
  }
  bool is_one_space(uint32_t group, uint32_t other) const {
    return !is_full_[group] && !is_full_[other] && space_[group] &&
           space_[group] == space_[other];
  }
  std::vector<int64_t> space_of(const Shape& shape) const {
    return fusion_ == CalledFusion::kRowsApart ? shape.dimensions
                                               : extents(shape);
  }
  /// Whether `reader` takes each element of the group's result where it
  /// computes that of its own, or of a row's result where it computes the row,
  /// and so does its group.
  bool are_alike(uint32_t group, InstructionId reader) const {
    const uint32_t other = last_[index_of(reader)];
    if (!is_one_space(group, other)) return false;
    if (index_of(reader) != other && !is_elementwise(graph_, reader))
      return false;
    const InstructionId result{group};
    const auto is_in_place = [&](InstructionId operand) {
      return fusion_ == CalledFusion::kRowsApart
                 ? operand == result
                 : spreads_rows(graph_, operand, result);
    };
    return std::ranges::all_of(
        graph_.at(reader).operands, [&](InstructionId operand) {
          return viewed(operand) != result || is_in_place(operand);
        });
  }
  /// What a reduction of rows goes over is the space of those who compute with
  /// its results alone, too.
  void find_spaces() {
    std::vector<bool> is_row(last_.size());
    for (uint32_t op = 0; op < last_.size(); ++op) {
      const InstructionId id{op};
      if (last_[op] != op) continue;
      if (fusion_ == CalledFusion::kLaunches && sums_rows(graph_, id)) {
        is_row[op] = true;
        space_[op] = extents(graph_.at(graph_.at(id).operands[0]).shape);
      } else if (!is_row[op] && is_elementwise(graph_, id)) {
        space_[op] = space_of(graph_.at(id).shape);
      }
      if (!is_row[op]) continue;
      for (const InstructionId reader : graph_.readers[op]) {
        const uint32_t other = last_[index_of(reader)];
        if (is_row[other] || !is_elementwise(graph_, InstructionId{other}) ||
            !is_elementwise(graph_, reader) ||
            extents(graph_.at(InstructionId{other}).shape) !=
                extents(graph_.at(id).shape))
          continue;
        is_row[other] = true;
        space_[other] = space_[op];
      }
    }
  }
  /// One of several results of a routine is read under a name of its own.
  void follow_producer(uint32_t value) {
    const InstructionId producer = graph_.producer[value];
    if (producer != kNoInstruction)
      stage_[value] = std::max(stage_[value], stage_[index_of(producer)]);
  }
  void reach_readers(uint32_t group) {
    for (const InstructionId reader : graph_.readers[group]) {
      const uint32_t other = last_[index_of(reader)];
      stage_[other] = std::max(
          stage_[other], stage_[group] + (are_alike(group, reader) ? 0 : 1));
      follows_[other] = follows_[other] || are_alike(group, reader);
    }
  }
  /// What follows none like it leaves nobody by coming later, as sums of the
  /// state beside what also reads scalars that take a few steps.
  void wait_for_readers(uint32_t group) {
    int latest = std::numeric_limits<int>::max();
    for (const InstructionId reader : graph_.readers[group]) {
      const uint32_t other = last_[index_of(reader)];
      latest =
          std::min(latest, stage_[other] - (are_alike(group, reader) ? 0 : 1));
    }
    if (!graph_.readers[group].empty()) stage_[group] = latest;
  }
  void join_readers_of(uint32_t group) {
    for (const InstructionId reader : graph_.readers[group]) {
      const uint32_t other = last_[index_of(reader)];
      if (stage_[other] == stage_[group] && are_alike(group, reader))
        first_[first_of(other)] = first_of(group);
    }
  }
  uint32_t first_of(uint32_t group) {
    while (first_[group] != group)
      group = first_[group] = first_[first_[group]];
    return group;
  }

  const OpGraph& graph_;
  const std::vector<uint32_t>& last_;
  CalledFusion fusion_;
  std::vector<int> stage_;     ///< [last op of a group]
  std::vector<bool> follows_;  ///< [last op of a group] One like it.
  std::vector<bool> is_full_;  ///< [last op of a group] Takes in no other.
  /// [last op of a group] Extents of what its loops run over, if others could
  /// share them.
  std::vector<std::optional<std::vector<int64_t>>> space_;
  std::vector<uint32_t> first_;  ///< [last op of a group] One of the same.
};

}  // namespace

bool is_elementwise(const OpGraph& graph, InstructionId op) {
  return graph.role_of(op) == OpRole::kKernel &&
         runs_elementwise(graph.at(op).opcode);
}

std::vector<uint32_t> join_neighbours(const OpGraph& graph,
                                      const std::vector<uint32_t>& last,
                                      CalledFusion fusion) {
  return Neighbours(graph, last, fusion).run();
}

}  // namespace reprise
