// From the last op to the first, an op joins the group of its readers if that
// is one and the same: a path that leaves a group leaves it from its last op,
// so groups are convex, and their graph stays acyclic. Then neighbours over
// arrays of the same dimensions become one group, in stages: a path's stage
// rises where it comes to other dimensions or to what is no such group, so it
// does not come back to a stage that it left.
#include "data/schedule/called_fusion.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"

namespace reprise {
namespace {

bool is_elementwise(const OpGraph& graph, InstructionId op) {
  return graph.role_of(op) == OpRole::kKernel &&
         runs_elementwise(graph.at(op).opcode);
}

/// Only names elements of its operand.
bool is_slice_or_pad(const OpGraph& graph, InstructionId op) {
  const Opcode opcode = graph.at(op).opcode;
  return graph.role_of(op) == OpRole::kKernel &&
         (opcode == Opcode::kSlice || opcode == Opcode::kPad);
}

/// Computes each element of its result on its own.
bool joins_readers(const OpGraph& graph, InstructionId op) {
  return is_elementwise(graph, op) || is_slice_or_pad(graph, op) ||
         (graph.role_of(op) == OpRole::kKernel &&
          graph.at(op).opcode == Opcode::kDot);
}

/// Elements that a group's last op runs over; 0 for one that takes in nothing.
int64_t elements_run_over(const OpGraph& graph, InstructionId op) {
  const Instruction& instruction = graph.at(op);
  if (is_elementwise(graph, op)) return element_count(instruction.shape);
  if (graph.role_of(op) != OpRole::kKernel ||
      instruction.opcode != Opcode::kReduce)
    return 0;
  return element_count(graph.at(instruction.operands[0]).shape);
}

/// Whether a group whose ops alone read `op` may compute it, too.
bool takes_in(const OpGraph& graph, InstructionId last, InstructionId op) {
  const int64_t run_over = elements_run_over(graph, last);
  const int64_t elements = element_count(graph.at(op).shape);
  if (is_slice_or_pad(graph, op)) return elements <= run_over;
  return elements == run_over &&
         std::ranges::none_of(graph.readers[index_of(op)],
                              [&](InstructionId reader) {
                                return is_slice_or_pad(graph, reader);
                              });
}

/// Of more work than the registers of one loop hold beside another's: sine and
/// cosine of the same angles take 1.2 times as long in one loop as in two.
bool fills_a_loop(Opcode opcode) {
  return opcode == Opcode::kSine || opcode == Opcode::kCosine ||
         opcode == Opcode::kTan;
}

/// [op] The last op of its group.
std::vector<uint32_t> join_readers(const OpGraph& graph) {
  const auto count = static_cast<uint32_t>(graph.role.size());
  std::vector<uint32_t> last(count);
  for (uint32_t i = count; i-- > 0;) {
    last[i] = i;
    const InstructionId op{i};
    if (!joins_readers(graph, op) || graph.is_output[i]) continue;
    const std::vector<InstructionId>& readers = graph.readers[i];
    if (readers.empty()) continue;
    const uint32_t into = last[index_of(readers[0])];
    const bool is_one = std::all_of(
        readers.begin(), readers.end(),
        [&](InstructionId reader) { return last[index_of(reader)] == into; });
    if (is_one && takes_in(graph, InstructionId{into}, op)) last[i] = into;
  }
  return last;
}

/// Groups of several results, of those that `last` names.
class Neighbours {
 public:
  Neighbours(const OpGraph& graph, const std::vector<uint32_t>& last)
      : graph_(graph),
        last_(last),
        stage_(last.size()),
        follows_(last.size()),
        is_full_(last.size()),
        first_(last.size()) {
    std::iota(first_.begin(), first_.end(), 0U);
    for (uint32_t op = 0; op < last.size(); ++op) {
      if (fills_a_loop(graph.at(InstructionId{op}).opcode))
        is_full_[last[op]] = true;
    }
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

  bool has_dimensions_of(InstructionId op, uint32_t group) const {
    return is_elementwise(graph_, op) &&
           graph_.at(op).shape.dimensions ==
               graph_.at(InstructionId{group}).shape.dimensions;
  }
  /// Whether `reader` takes each element of the group's result where it
  /// computes that of its own, and so does its group.
  bool are_alike(uint32_t group, InstructionId reader) const {
    const InstructionId result{group};
    if (is_full_[group] || is_full_[last_[index_of(reader)]]) return false;
    if (!has_dimensions_of(result, group) ||
        !has_dimensions_of(reader, group) ||
        !has_dimensions_of(InstructionId{last_[index_of(reader)]}, group))
      return false;
    const std::vector<InstructionId>& operands = graph_.at(reader).operands;
    return std::ranges::all_of(operands, [&](InstructionId operand) {
      return operand == result || viewed(operand) != result;
    });
  }
  InstructionId viewed(InstructionId id) const {
    while (is_view(graph_.at(id).opcode) && !graph_.at(id).operands.empty())
      id = graph_.at(id).operands[0];
    return id;
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
  std::vector<int> stage_;       ///< [last op of a group]
  std::vector<bool> follows_;    ///< [last op of a group] One like it.
  std::vector<bool> is_full_;    ///< [last op of a group] Takes in no other.
  std::vector<uint32_t> first_;  ///< [last op of a group] One of the same.
};

}  // namespace

std::vector<ChosenGroup> fuse_elementwise(const OpGraph& graph) {
  const std::vector<uint32_t> last = join_readers(graph);
  const std::vector<uint32_t> group = Neighbours(graph, last).run();
  std::vector<std::vector<InstructionId>> members(group.size());
  for (uint32_t i = 0; i < group.size(); ++i)
    members[group[i]].push_back(InstructionId{i});
  std::vector<ChosenGroup> groups;
  for (std::vector<InstructionId>& ops : members) {
    if (ops.size() > 1) groups.push_back({.ops = std::move(ops)});
  }
  return groups;
}

}  // namespace reprise
