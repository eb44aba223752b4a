// What collectives run as one: their common kind, type and groups, where each
// member lies in their buffer, and how chunks cut it.

#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

bool combines_its_parameters(const Computation& computation) {
  const std::vector<InstructionId>& operands =
      computation.at(computation.root).operands;
  return computation.instructions.size() == 3 && operands.size() == 2 &&
         operands[0] != operands[1] &&
         std::all_of(operands.begin(), operands.end(), [&](InstructionId id) {
           return computation.at(id).opcode == Opcode::kParameter;
         });
}

Result<Opcode> reduction_of(const Module& module,
                            const Instruction& collective) {
  const std::optional<ComputationId> body = called_computation(collective);
  if (body) {
    const Computation& computation = module.at(*body);
    const Instruction& root = computation.at(computation.root);
    switch (root.opcode) {
      case Opcode::kAdd:
      case Opcode::kMaximum:
      case Opcode::kMinimum:
      case Opcode::kMultiply:
        if (combines_its_parameters(computation)) return root.opcode;
        break;
      default:
        break;
    }
  }
  return fail(ErrorKind::kUnsupported,
              "{}: expected a reduction by add, maximum, minimum or multiply",
              collective.name);
}

/// Every rank stands in one group, once.
Status check_groups(const Instruction& collective,
                    const std::vector<std::vector<int64_t>>& groups,
                    int64_t ranks) {
  std::vector<bool> seen(static_cast<size_t>(ranks), false);
  int64_t covered = 0;
  for (const std::vector<int64_t>& group : groups) {
    for (int64_t rank : group) {
      if (rank < 0 || rank >= ranks || seen[static_cast<size_t>(rank)]) {
        return fail(ErrorKind::kInvalid,
                    "{}: its replica groups name rank {}, but the plan is "
                    "for {} ranks",
                    collective.name, rank, ranks);
      }
      seen[static_cast<size_t>(rank)] = true;
      ++covered;
    }
  }
  if (covered != ranks) {
    return fail(ErrorKind::kInvalid,
                "{}: its replica groups hold {} ranks, but the plan is for {}",
                collective.name, covered, ranks);
  }
  return {};
}

/// Kind, type and groups of one slot's collective as a PlannedCollective
/// without members.
Result<PlannedCollective> describe_slot(const OpGraph& graph, int64_t ranks,
                                        int32_t slot) {
  const CollectiveSlot& at = graph.slots[static_cast<size_t>(slot)];
  const Instruction& collective = graph.at(at.collective);
  Result<std::vector<std::vector<int64_t>>> groups =
      replica_groups(collective, ranks);
  if (!groups) return pass(groups.error());
  Status checked = check_groups(collective, *groups, ranks);
  if (!checked) return pass(checked.error());
  Result<Opcode> reduction = reduction_of(*graph.module, collective);
  if (!reduction) return pass(reduction.error());
  PlannedCollective described;
  described.reduction = *reduction;
  described.type = at.type;
  described.groups = *std::move(groups);
  return described;
}

/// What keeps two collectives from being one; nullptr if nothing does.
const char* mixed_up(const PlannedCollective& a, const PlannedCollective& b) {
  return a.type != b.type             ? "types"
         : a.groups != b.groups       ? "replica groups"
         : a.reduction != b.reduction ? "reductions"
                                      : nullptr;
}

Status cut_into_chunks(int64_t chunks, PlannedCollective* collective) {
  collective->chunk_bytes =
      std::max(kAlignmentBytes, align_up((collective->bytes + chunks - 1) /
                                         std::max<int64_t>(chunks, 1)));
  collective->chunks = chunks;
  if (chunks < 1 || (chunks > 1 && collective->chunk_bytes * (chunks - 1) >=
                                       collective->bytes)) {
    return fail(ErrorKind::kInvalid,
                "{} bytes do not make {} chunks of whole {}-byte lines",
                collective->bytes, chunks, kAlignmentBytes);
  }
  return {};
}

}  // namespace

Result<PlannedCollective> plan_collective(const OpGraph& graph, int64_t ranks,
                                          const std::vector<int32_t>& members,
                                          int64_t chunks) {
  const auto collective_of = [&](int32_t slot) {
    return graph.at(graph.slots[static_cast<size_t>(slot)].collective).name;
  };
  PlannedCollective collective;
  for (const int32_t slot : members) {
    Result<PlannedCollective> next = describe_slot(graph, ranks, slot);
    if (!next) return next;
    if (collective.members.empty()) {
      collective = *std::move(next);
    } else if (const char* mixed = mixed_up(*next, collective)) {
      return fail(ErrorKind::kInvalid, "it mixes {}: '{}' and '{}' differ",
                  mixed, collective_of(members[0]), collective_of(slot));
    }
    collective.members.push_back({slot, align_up(collective.bytes)});
    collective.bytes = collective.members.back().offset_bytes +
                       graph.slots[static_cast<size_t>(slot)].bytes;
  }
  const Status cut = cut_into_chunks(chunks, &collective);
  if (!cut) return pass(cut.error());
  return collective;
}

}  // namespace reprise
