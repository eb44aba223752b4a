// From the last op to the first, an op joins the group of its readers if that
// is one and the same: a path that leaves a group leaves it from its last op,
// so groups are convex, and their graph stays acyclic. Then groups over the
// same elements become one (neighbour_groups.h), and rows of different stacks.
#include "data/schedule/called_fusion.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"
#include "data/schedule/neighbour_groups.h"

namespace reprise {
namespace {

/// Whether the program leaves a parameter as it is: a body that replaces it may
/// write over it before a group that reads it late.
bool stays(const OpGraph& graph, InstructionId value) {
  if (value == kNoInstruction || graph.role_of(value) != OpRole::kParameter)
    return false;
  const int64_t number = graph.at(value).parameter_number;
  for (size_t k = 0; k < graph.updates.size(); ++k) {
    if (graph.updates[k] == number && graph.outputs[k] != value) return false;
  }
  return true;
}

bool reads_row(const OpGraph& graph, InstructionId op) {
  const Instruction& slice = graph.at(op);
  return graph.role_of(op) == OpRole::kKernel &&
         slice.opcode == Opcode::kDynamicSlice &&
         stays(graph, graph.value_of[index_of(slice.operands[0])]);
}

/// Whether a slice lies in one piece: of another, whoever reads it several
/// times would stride through memory each time (a column spread over 1,024
/// rows: 14 times as long as with a copy).
bool is_dense(const OpGraph& graph, const Instruction& slice) {
  const std::vector<int64_t>& whole =
      graph.at(slice.operands[0]).shape.dimensions;
  const std::vector<int64_t>& part = slice.shape.dimensions;
  bool is_cut = false;
  for (size_t d = part.size(); d-- > 0;) {
    if (is_cut && part[d] != 1) return false;
    is_cut = is_cut || part[d] != whole[d];
  }
  return true;
}

/// Only names elements of its operand: of a dynamic slice, a row of what a scan
/// goes over. A processor's loops make no vectors of narrow elements from where
/// a value says (sums of rows in bf16: 7 times as long).
bool names_elements(const OpGraph& graph, InstructionId op,
                    CalledFusion fusion) {
  const Instruction& instruction = graph.at(op);
  if (instruction.opcode == Opcode::kDynamicSlice) {
    const bool is_wide = fusion == CalledFusion::kLaunches ||
                         primitive_type_bits(instruction.shape.type) >= 32;
    return fusion != CalledFusion::kRowsApart && is_wide &&
           reads_row(graph, op) && is_dense(graph, instruction);
  }
  return graph.role_of(op) == OpRole::kKernel &&
         (instruction.opcode == Opcode::kSlice ||
          instruction.opcode == Opcode::kPad);
}

/// Turns a small dot that nothing else reads, as the gradient of a weight that
/// belongs to one example: its elements are computed wherever they go.
bool turns_dot(const OpGraph& graph, InstructionId op) {
  if (graph.role_of(op) != OpRole::kKernel ||
      graph.at(op).opcode != Opcode::kTranspose)
    return false;
  const InstructionId value =
      graph.value_of[index_of(graph.at(op).operands[0])];
  return value != kNoInstruction && graph.role_of(value) == OpRole::kKernel &&
         graph.at(value).opcode == Opcode::kDot &&
         graph.readers[index_of(value)].size() == 1 &&
         !graph.is_output[index_of(value)];
}

/// Computes each element of its result on its own.
bool joins_readers(const OpGraph& graph, InstructionId op,
                   CalledFusion fusion) {
  return is_elementwise(graph, op) || names_elements(graph, op, fusion) ||
         (fusion != CalledFusion::kRowsApart && turns_dot(graph, op)) ||
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
bool takes_in(const OpGraph& graph, InstructionId last, InstructionId op,
              CalledFusion fusion) {
  const int64_t run_over = elements_run_over(graph, last);
  const int64_t elements = element_count(graph.at(op).shape);
  if (names_elements(graph, op, fusion)) return elements <= run_over;
  return elements == run_over &&
         std::ranges::none_of(graph.readers[index_of(op)],
                              [&](InstructionId reader) {
                                return names_elements(graph, reader, fusion);
                              });
}

/// [op] The last op of its group.
std::vector<uint32_t> join_readers(const OpGraph& graph, CalledFusion fusion) {
  const auto count = static_cast<uint32_t>(graph.role.size());
  std::vector<uint32_t> last(count);
  for (uint32_t i = count; i-- > 0;) {
    last[i] = i;
    const InstructionId op{i};
    if (!joins_readers(graph, op, fusion) || graph.is_output[i]) continue;
    const std::vector<InstructionId>& readers = graph.readers[i];
    if (readers.empty()) continue;
    const uint32_t into = last[index_of(readers[0])];
    const bool is_one = std::all_of(
        readers.begin(), readers.end(),
        [&](InstructionId reader) { return last[index_of(reader)] == into; });
    if (is_one && takes_in(graph, InstructionId{into}, op, fusion))
      last[i] = into;
  }
  return last;
}

/// Rows up to this size are moved together: earlier or later than they could
/// be, which costs nothing where they are still in a cache. A launch for each
/// would take longer than the rows (H100, 7afbd33: 12 rows of 2 KiB, 20 us).
constexpr int64_t kMostRowBytes = 65536;
constexpr size_t kMostRows = 16;

bool is_row(const OpGraph& graph, InstructionId op, Opcode opcode,
            InstructionId row) {
  return graph.at(op).opcode == opcode &&
         graph.role_of(op) == OpRole::kKernel &&
         byte_size(graph.at(row).shape) <= kMostRowBytes;
}

/// A row of what a scan stacks up, which nobody reads in the same pass.
bool writes_row(const OpGraph& graph, InstructionId op) {
  const std::vector<InstructionId>& operands = graph.at(op).operands;
  return operands.size() > 1 &&
         is_row(graph, op, Opcode::kDynamicUpdateSlice, operands[1]) &&
         graph.is_output[index_of(op)] && graph.readers[index_of(op)].empty();
}

/// Groups of rows of different stacks: nothing waits for what is written, so it
/// lies on no cycle, and what is read from the same place needs that place
/// alone. Old values of the state are written by themselves, since what
/// replaces them waits.
class Rows {
 public:
  /// [op] `group` is a number of its group, of which those in `sizes` have so
  /// many ops.
  Rows(const OpGraph& graph, const std::vector<uint32_t>& group,
       const std::vector<size_t>& sizes, CalledFusion fusion)
      : graph_(graph), group_(group), sizes_(sizes), fusion_(fusion) {}

  std::vector<ChosenGroup> groups() {
    for (uint32_t i = 0; i < group_.size(); ++i) {
      const InstructionId op{i};
      if (writes_row(graph_, op)) {
        add_write(op);
      } else if (is_alone(op) &&
                 is_row(graph_, op, Opcode::kDynamicSlice, op) &&
                 reads_row(graph_, op)) {
        std::vector<InstructionId> place;
        for (size_t k = 1; k < graph_.at(op).operands.size(); ++k)
          place.push_back(value(op, k));
        add(read_[place], op);
      }
    }
    for (auto& [place, rows] : read_) close(rows);
    close(kept_);
    close(written_);
    return std::move(groups_);
  }

 private:
  struct Members {
    std::vector<InstructionId> ops;
    size_t rows = 0;
  };

  bool is_alone(InstructionId op) const {
    return sizes_[group_[index_of(op)]] == 1;
  }
  InstructionId value(InstructionId op, size_t operand) const {
    return graph_.value_of[index_of(graph_.at(op).operands[operand])];
  }
  void add(Members& members, InstructionId op) {
    members.ops.push_back(op);
    if (++members.rows == kMostRows) close(members);
  }
  void close(Members& members) {
    std::ranges::sort(members.ops);
    if (members.ops.size() > 1)
      groups_.push_back({.ops = std::move(members.ops)});
    members = {};
  }
  /// With the op that makes the row, if that does nothing else: a launch less,
  /// where a processor would look at each row of the stack.
  void add_write(InstructionId op) {
    const InstructionId row = value(op, 1);  // None: not stored anywhere.
    const bool is_stored = row != kNoInstruction;
    Members& members = is_stored && graph_.role_of(row) == OpRole::kParameter
                           ? kept_
                           : written_;
    if (fusion_ == CalledFusion::kLaunches && is_stored &&
        is_elementwise(graph_, row) && is_alone(row) &&
        graph_.readers[index_of(row)].size() == 1 &&
        !graph_.is_output[index_of(row)])
      members.ops.push_back(row);
    add(members, op);
  }

  const OpGraph& graph_;
  const std::vector<uint32_t>& group_;
  const std::vector<size_t>& sizes_;
  CalledFusion fusion_;
  std::map<std::vector<InstructionId>, Members> read_;  ///< By their place.
  Members kept_, written_;
  std::vector<ChosenGroup> groups_;
};

}  // namespace

std::vector<ChosenGroup> fuse_called(const OpGraph& graph,
                                     CalledFusion fusion) {
  const std::vector<uint32_t> last = join_readers(graph, fusion);
  const std::vector<uint32_t> group = join_neighbours(graph, last, fusion);
  std::vector<std::vector<InstructionId>> members(group.size());
  std::vector<size_t> sizes(group.size());
  for (uint32_t i = 0; i < group.size(); ++i) {
    members[group[i]].push_back(InstructionId{i});
    ++sizes[group[i]];
  }
  std::vector<ChosenGroup> groups;
  for (std::vector<InstructionId>& ops : members) {
    if (ops.size() > 1) groups.push_back({.ops = std::move(ops)});
  }
  if (fusion == CalledFusion::kRowsApart) return groups;
  std::ranges::move(Rows(graph, group, sizes, fusion).groups(),
                    std::back_inserter(groups));
  return groups;
}

}  // namespace reprise
