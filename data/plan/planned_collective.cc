// What collectives run as one: their common kind, type and groups, where each
// member lies in their buffer, and how chunks cut it.

#include <algorithm>

#include "data/element.h"
#include "data/hlo/collective_ranks.h"
#include "data/hlo/combiner.h"
#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

/// Of preds, `or` is the greater and `and` the lesser of two.
std::optional<Reduction> reduction_by(Opcode opcode, bool of_preds) {
  switch (opcode) {
    case Opcode::kAdd:
      return Reduction::kSum;
    case Opcode::kMaximum:
      return Reduction::kMax;
    case Opcode::kMinimum:
      return Reduction::kMin;
    case Opcode::kMultiply:
      return Reduction::kProduct;
    case Opcode::kOr:
      return of_preds ? std::optional(Reduction::kMax) : std::nullopt;
    case Opcode::kAnd:
      return of_preds ? std::optional(Reduction::kMin) : std::nullopt;
    default:
      return std::nullopt;
  }
}

Result<Reduction> reduction_of(const Module& module,
                               const Instruction& collective) {
  const std::optional<Opcode> opcode = combining_opcode(module, collective);
  const Shape& shape = collective.shape.is_tuple()
                           ? collective.shape.elements.front()
                           : collective.shape;
  const bool of_preds = shape.type == PrimitiveType::kPred;
  const std::optional<Reduction> reduction =
      opcode ? reduction_by(*opcode, of_preds) : std::nullopt;
  if (reduction) return *reduction;
  return fail(ErrorKind::kUnsupported,
              "{}: expected a reduction by add, maximum, minimum or multiply "
              "(of preds by and, or)",
              collective.name);
}

/// No rank stands in two groups, and where the kind gives nobody a result who
/// is in none, each stands in one.
Status check_groups(const std::string& name, CollectiveKind kind,
                    const std::vector<std::vector<int64_t>>& groups,
                    int64_t ranks) {
  std::vector<bool> seen(static_cast<size_t>(ranks), false);
  int64_t covered = 0;
  for (const std::vector<int64_t>& group : groups) {
    for (const int64_t rank : group) {
      if (seen[static_cast<size_t>(rank)]) {
        return fail(ErrorKind::kInvalid,
                    "{}: its replica groups name rank {} twice", name, rank);
      }
      seen[static_cast<size_t>(rank)] = true;
      ++covered;
    }
  }
  if (covered == ranks || fills_with_zeros(kind)) return {};
  return fail(ErrorKind::kInvalid,
              "{}: its replica groups hold {} ranks, but the plan is for {}",
              name, covered, ranks);
}

/// Types whose elements the devices can combine, or move by whole bytes.
Status check_type(const std::string& name, CollectiveKind kind,
                  PrimitiveType type) {
  if (facts_of(kind).reduces ? has_plain_elements(type)
                             : primitive_type_bits(type) % 8 == 0)
    return {};
  return fail(ErrorKind::kUnsupported, "{}: {} of {} does not run", name,
              facts_of(kind).name, primitive_type_name(type));
}

/// Whether input and result have the sizes that the groups make of a part.
Status check_sizes(const std::string& name, const CollectiveSlot& slot,
                   const std::vector<std::vector<int64_t>>& groups) {
  const CollectiveFacts& facts = facts_of(slot.kind);
  for (const std::vector<int64_t>& group : groups) {
    const auto parts = static_cast<int64_t>(group.size());
    const int64_t whole = std::max(slot.bytes, slot.output_bytes);
    const auto fits = [&](int64_t bytes, BufferShare share) {
      return (share == BufferShare::kPart ? bytes * parts : bytes) == whole;
    };
    const bool is_cut = !facts.counts_parts || whole % parts == 0;
    if (is_cut && fits(slot.bytes, facts.input) &&
        fits(slot.output_bytes, facts.output)) {
      continue;
    }
    return fail(ErrorKind::kInvalid,
                "{}: {} among {} ranks cannot make {} bytes of {}", name,
                facts.name, parts, slot.output_bytes, slot.bytes);
  }
  return {};
}

/// Kind, type and groups of one slot's collective as a PlannedCollective
/// without members.
Result<PlannedCollective> describe_slot(const OpGraph& graph, int64_t ranks,
                                        int32_t slot) {
  const CollectiveSlot& at = graph.slots[static_cast<size_t>(slot)];
  const Instruction& collective = graph.at(at.collective);
  Result<CollectiveRanks> joined =
      collective_ranks(*graph.module, collective, ranks);
  if (!joined) return pass(joined.error());
  Status checked =
      check_groups(collective.name, at.kind, joined->groups, ranks);
  if (checked) checked = check_sizes(collective.name, at, joined->groups);
  if (checked) checked = check_type(collective.name, at.kind, at.type);
  if (!checked) return pass(checked.error());
  PlannedCollective described;
  described.kind = at.kind;
  if (facts_of(at.kind).reduces) {
    Result<Reduction> reduction = reduction_of(*graph.module, collective);
    if (!reduction) return pass(reduction.error());
    described.reduction = *reduction;
  }
  described.type = at.type;
  described.groups = std::move(joined->groups);
  described.pairs = std::move(joined->pairs);
  return described;
}

/// What keeps two collectives from being one; nullptr if nothing does.
const char* mixed_up(const PlannedCollective& a, const PlannedCollective& b) {
  return a.kind != b.kind             ? "kinds"
         : a.type != b.type           ? "types"
         : a.groups != b.groups       ? "replica groups"
         : a.reduction != b.reduction ? "reductions"
                                      : nullptr;
}

Status cut_into_chunks(int64_t chunks, PlannedCollective* collective) {
  if (chunks != 1 && !is_bytewise(collective->kind)) {
    return fail(ErrorKind::kInvalid, "{} runs whole, not in {} chunks",
                facts_of(collective->kind).name, chunks);
  }
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

int64_t payload_bytes(const CollectiveSlot& slot) {
  return is_bytewise(slot.kind) ? align_up(slot.bytes)
                                : std::max(slot.bytes, slot.output_bytes);
}

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
    collective.members.push_back({slot, is_bytewise(collective.kind)
                                            ? align_up(collective.bytes)
                                            : collective.bytes});
    const CollectiveSlot& at = graph.slots[static_cast<size_t>(slot)];
    collective.bytes = collective.members.back().offset_bytes +
                       std::max(at.bytes, at.output_bytes);
  }
  const Status cut = cut_into_chunks(chunks, &collective);
  if (!cut) return pass(cut.error());
  return collective;
}

}  // namespace reprise
