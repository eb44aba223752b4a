// A plan resolved against its program: the units it asks for, before any of
// them is lowered, with the dependencies between them that the data imposes.
// `validate_plan` and `lower_schedule` both start here, so they cannot
// disagree.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/plan/dot_epilogue.h"
#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"
#include "data/result.h"

namespace reprise {

/// Alignment of buffers, of members inside a bucket and of chunk borders, in
/// bytes.
constexpr int64_t kAlignmentBytes = 64;
constexpr int64_t align_up(int64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

/// One slot's place in its collective's payload.
struct SlotPlace {
  int32_t slot = 0;          ///< Index in OpGraph::slots.
  int64_t offset_bytes = 0;  ///< In one buffer 64-byte aligned.
};

/// Collectives that run as one: bytewise ones over one buffer, others at once,
/// each from its operand's place to a buffer of its result.
struct PlannedCollective {
  int32_t bucket = -1;  ///< Index in Plan::buckets, or -1.
  std::vector<SlotPlace> members;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  PrimitiveType type = PrimitiveType::kF32;
  std::vector<std::vector<int64_t>> groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;  ///< Of a permute.
  /// Payload, in one buffer with padding between members.
  int64_t bytes = 0;
  int64_t chunk_bytes = 0;  ///< Of every chunk but the last.
  int64_t chunks = 1;
  uint32_t first_unit = 0;  ///< Its chunks are units first_unit + 0, 1, ….
};

struct PlannedUnit {
  std::string name;
  UnitRef ref = {};
  OpRole role = OpRole::kKernel;        ///< That of its ops.
  std::vector<InstructionId> ops = {};  ///< Ascending.
  /// Values other units or the program need, ascending.
  std::vector<InstructionId> outputs = {};
  DotEpilogue epilogue = {};  ///< kDot: of its dot, which is ops[0].
  int32_t collective = -1;    ///< Index in UnitGraph::collectives.
  int64_t chunk = 0;
  uint32_t position = 0;  ///< Of its last op in the text.
  /// Units whose values it reads, ascending.
  std::vector<uint32_t> predecessors = {};
};

struct UnitGraph {
  /// By position in the text, chunks ascending.
  std::vector<PlannedUnit> units;
  std::vector<PlannedCollective> collectives;
  /// [op] unit that writes its value (first chunk).
  std::vector<uint32_t> owner;
  std::vector<uint32_t> order;  ///< From the plan, or empty.
};

/// Resolves and checks a plan, but for its fingerprint. Errors: kInvalid,
/// naming the group, bucket or unit and the reason; those of replica groups.
Result<UnitGraph> plan_units(const OpGraph& graph, const PlanChoice& plan);
/// The same of a plan in names. Errors: those of
/// `bind_plan`, too.
Result<UnitGraph> plan_units(const OpGraph& graph, const Plan& plan);

/// What a slot adds to the payload of a bucket: its operand and the padding
/// behind it, or where these differ the larger of operand and result.
int64_t payload_bytes(const CollectiveSlot& slot);

/// Slots as one collective, cut into chunks, without units.
/// Requires: at least one member. Errors: kInvalid where members differ in
/// kind, type, groups or reduction, for more chunks than lines of 64 bytes or
/// than one where they do not share a buffer, and for groups that are not of
/// `ranks`; kUnsupported for another reduction.
Result<PlannedCollective> plan_collective(const OpGraph& graph, int64_t ranks,
                                          const std::vector<int32_t>& members,
                                          int64_t chunks);

/// Fills `predecessors` and `outputs` of units that have their ops. Errors:
/// kInvalid for a group that computes nothing anyone reads.
Status connect_units(const OpGraph& graph, UnitGraph* units);

/// The order of a plan that gives none: each unit as soon as the smaller
/// positions allow, where a collective (its chunks in sequence) comes as soon
/// as its operands are written, and a gather of what no collective gave as soon
/// as no more than two are there that nobody has read. So the identity plan
/// computes in text order.
/// `extra` adds edges (before, after) to the data's. Requires: the edges are
/// acyclic.
std::vector<uint32_t> default_order(
    const UnitGraph& graph,
    const std::vector<std::pair<uint32_t, uint32_t>>& extra);

/// Why the graph has a cycle, for `plan_units`: the group or bucket at fault
/// and the path that leaves it and comes back.
std::string explain_cycle(const OpGraph& graph, const UnitGraph& units);

}  // namespace reprise
