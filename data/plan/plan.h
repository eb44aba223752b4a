// A plan: how a program is to be run. Schema `reprise.plan/1`; the JSON is the
// contract, this is its value. Plans name instructions of the program after
// `inline_calls` (path-qualified), collectives as `name` or `name:operand`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Ops that run as one kernel, or a dot and what follows it as one library call
/// (`match_dot_epilogue` says what may follow). View ops (reshape, broadcast,
/// constant, …) fold into every unit that reads them and need not be listed. An
/// op listed in several groups is recomputed, but a dot stands in one.
struct FusionGroup {
  std::string unit;  ///< "f0".
  std::vector<std::string> ops;
  bool operator==(const FusionGroup&) const = default;
};

/// Collectives that run as one: all-reduces over one buffer, which `chunks` cut
/// into equal pieces; gathers, or scatters, each in its own place.
struct Bucket {
  /// "b0"; its chunks are units "b0#0", "b0#1" … if chunks > 1.
  std::string unit;
  std::vector<std::string> collectives;
  int64_t chunks = 1;
  bool operator==(const Bucket&) const = default;
};

struct PlanPrediction {
  int64_t step_time_ns = 0;
  std::map<std::string, int64_t> baselines;  ///< Name -> predicted step time.
  int64_t lower_bound_ns = 0;
  double gap = 0;  ///< (plan - bound) / bound.
  bool operator==(const PlanPrediction&) const = default;
};

/// A plan that was the search's best, and since when.
struct SearchedPlan {
  int64_t evaluations = 0;
  int64_t step_time_ns = 0;  ///< Predicted.
  bool operator==(const SearchedPlan&) const = default;
};

/// A gradient of an imported trace, which has no program to name it.
struct PlannedGradient {
  std::string name;  ///< "gradient.0", by ready order.
  std::string type;  ///< As recorded: "float".
  std::string shape;
  int64_t bytes = 0;
  bool operator==(const PlannedGradient&) const = default;
};

/// What a plan of an imported trace has instead of a program. Its buckets name
/// these gradients as their collectives.
struct TracePlan {
  std::string fingerprint;                 ///< "sha256:…" of the trace file.
  std::vector<PlannedGradient> gradients;  ///< In ready order.
  /// The best cap for all buckets alike, and what it is predicted to give.
  int64_t single_cap_bytes = 0;
  int64_t single_cap_step_time_ns = 0;
  /// Of the recorded buckets: measured, and by the model that made the plan.
  /// 0: not stated.
  int64_t recorded_step_time_ns = 0, replayed_step_time_ns = 0;
  bool operator==(const TracePlan&) const = default;
};

struct Plan {
  std::string program_fingerprint;  ///< Empty: a plan of an imported trace.
  std::optional<TracePlan> trace = std::nullopt;
  std::string device = "cpu";
  int64_t ranks = 1;
  std::vector<FusionGroup> fusion;
  std::vector<Bucket> buckets;
  /// All unit names, or empty for program order.
  std::vector<std::string> order;
  /// Collectives inside loops and branches that run as one whatever the plan
  /// (data/schedule/called_buckets.h): for JAX, where they do not by
  /// themselves.
  std::vector<std::vector<std::string>> called = {};
  std::optional<PlanPrediction> predicted;
  uint64_t seed = 0;
  int64_t evaluations = 0;
  std::vector<SearchedPlan> searched = {};  ///< In order; may be empty.
  std::string made_by;
  bool operator==(const Plan&) const = default;
};

/// The plan that changes nothing: every op its own unit, every collective its
/// own, program order.
Plan identity_plan(const Module& module, int64_t ranks);

/// Whether a file with this beginning says that it is a plan.
bool begins_as_plan(std::string_view bytes);
/// Parses plan JSON. Errors: kParse (file:byte), kInvalid (missing or wrongly
/// typed key).
Result<Plan> parse_plan(std::string_view json,
                        std::string_view file = "<plan>");
Result<Plan> load_plan(const std::string& path);
/// Prints with a fixed key order and number format: equal plans, equal bytes.
std::string print_plan(const Plan& plan);

/// How a plan came here.
enum class PlanUse : uint8_t {
  kGiven,  ///< Alone: only what it says counts.
  kRan,    ///< With, or for, a recorded run, whose units were the program's.
};

/// The program as its plan knows it: `inlined(kAsXla)`, but that of an earlier
/// arithmetic where `plan` has its fingerprint, so that older plans, and traces
/// of runs under such, mean what they meant. One that is given and fits the
/// program of now as well, as it names nothing that changed, becomes a plan of
/// that. Errors: those of `inlined`.
Result<InlinedModule> inline_for(
    std::optional<Plan>* plan, PlanUse use,
    const std::function<Result<InlinedModule>(Arithmetic)>& inlined);

/// Checks a plan against its (inlined) program, naming the group, bucket or
/// unit and the reason: another program's fingerprint or rank count; unknown op
/// or collective; a group that is not convex or crosses a collective; a group
/// of a dot and an op that is no epilogue of it; a bucket mixing types, groups
/// or reductions; a bucket whose member depends on another member; an order
/// that misses, repeats or breaks a dependency. Groups that no kernel can
/// express are refused later, by `lower_schedule`. Errors: kInvalid.
Status validate_plan(const Plan& plan, const InlinedModule& inlined);

}  // namespace reprise
