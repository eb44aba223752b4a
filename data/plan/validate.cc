#include "data/hlo/hlo.h"
#include "data/plan/op_graph.h"
#include "data/plan/plan.h"
#include "data/plan/unit_graph.h"

namespace reprise {

Status validate_plan(const Plan& plan, const InlinedModule& inlined) {
  const std::string expected = fingerprint(inlined);
  if (plan.program_fingerprint != expected) {
    return fail(ErrorKind::kInvalid,
                "the plan is for another program: its fingerprint is '{}', "
                "this program's is '{}'",
                plan.program_fingerprint, expected);
  }
  Result<OpGraph> graph = build_op_graph(inlined);
  if (!graph) return pass(graph.error());
  Result<UnitGraph> units = plan_units(*graph, plan);
  if (!units) return pass(units.error());
  return {};
}

Result<InlinedModule> inline_for(
    std::optional<Plan>* plan, PlanUse use,
    const std::function<Result<InlinedModule>(Arithmetic)>& inlined) {
  Result<InlinedModule> current = inlined(Arithmetic::kAsXla);
  if (!current || !*plan) return current;
  const std::string now = fingerprint(*current);
  if ((*plan)->program_fingerprint == now) return current;
  for (const Arithmetic before :
       {Arithmetic::kCopiesKept, Arithmetic::kProductsShared,
        Arithmetic::kNested, Arithmetic::kCopiesAdded, Arithmetic::kWholesMade,
        Arithmetic::kScansInKernels, Arithmetic::kRowsApart,
        Arithmetic::kScattersApart, Arithmetic::kHalfDivided,
        Arithmetic::kSumsByColumn, Arithmetic::kDotsInLibrary,
        Arithmetic::kInLoops, Arithmetic::kAsWritten}) {
    Result<InlinedModule> earlier = inlined(before);
    if (!earlier || (*plan)->program_fingerprint != fingerprint(*earlier))
      continue;
    Plan moved = **plan;
    moved.program_fingerprint = now;
    if (use == PlanUse::kRan || !validate_plan(moved, *current)) return earlier;
    *plan = std::move(moved);
    return current;
  }
  return current;
}

}  // namespace reprise
