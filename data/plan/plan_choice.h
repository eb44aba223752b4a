// A plan by ids: what search edits and lowering reads. The file's plan
// (data/plan/plan.h) says the same in names; `bind_plan` and `name_plan` are
// the one place where the two meet.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/plan.h"
#include "data/result.h"

namespace reprise {

/// A unit, told by what it is made of, so that it stays the same unit while
/// other parts of the plan change.
struct UnitRef {
  enum class Kind : uint8_t {
    kNone,
    kOp,       ///< An op, or a whole collective, by itself.
    kOperand,  ///< One operand of a collective by itself.
    kGroup,
    kBucket,
    kCopy,  ///< Placed by lowering: no plan names it.
  };
  Kind kind = Kind::kNone;
  /// Instruction, slot of the OpGraph, place in `fusion` or in `buckets`; of a
  /// copy, the slot or output.
  uint32_t index = 0;
  uint32_t chunk = 0;  ///< kBucket; of a copy, what for.
  auto operator<=>(const UnitRef&) const = default;
};

/// FusionGroup by ids.
struct ChosenGroup {
  std::vector<InstructionId> ops;
  /// As files and traces call it; empty: "f" and its place in the plan, and
  /// "_" as often as an op of the program has that name.
  std::string name = {};
  bool operator==(const ChosenGroup&) const = default;
};

/// Bucket by ids.
struct ChosenBucket {
  std::vector<int32_t> slots;  ///< Of the OpGraph, in the order of the buffer.
  int64_t chunks = 1;
  /// As files and traces call it; empty: "b", else as a group's.
  std::string name = {};
  bool operator==(const ChosenBucket&) const = default;
};

struct PlanChoice {
  int64_t ranks = 1;
  std::vector<ChosenGroup> fusion = {};
  std::vector<ChosenBucket> buckets = {};
  /// Every unit once, or empty for program order.
  std::vector<UnitRef> order = {};
  bool operator==(const PlanChoice&) const = default;
};

/// Looks the names of a plan up in its program and checks all but its order.
/// Errors: those of `plan_units`; kInvalid for a name that the program or the
/// plan does not have, and for two units of one name.
Result<PlanChoice> bind_plan(const OpGraph& graph, const Plan& plan);

/// The plan in names, with the program's fingerprint, as a file holds it. An
/// operand of a collective that has several is named `name:operand`. Cost: a
/// print of the program, for its fingerprint.
Plan name_plan(const OpGraph& graph, const PlanChoice& choice);

/// As the plan's file, schedules and traces call it. Requires: neither kNone
/// nor kCopy.
std::string unit_name(const OpGraph& graph, const PlanChoice& choice,
                      UnitRef unit);

std::string bucket_name(const OpGraph& graph, const PlanChoice& choice,
                        size_t bucket);

/// "all-reduce.4", or "all-reduce.7:2" for an operand of several.
std::string slot_name(const OpGraph& graph, int32_t slot);

}  // namespace reprise
