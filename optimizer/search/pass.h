// What a pass is: one family of edits of a plan, in a folder of its own, that
// registers itself in optimizer/passes.cc. The search is a loop over passes and
// knows none of them.
//
// A pass settles what it decides once (the groups of a fusion), then takes
// turns with the others. In a turn it proposes edits one after another, each
// knowing what the ones before were worth; the search applies each to the best
// plan so far, prices it, and keeps what is better.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

class PlanSearch;

class Turn {
 public:
  explicit Turn(PlanSearch& search) : search_(search) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  virtual ~Turn() = default;

  /// Chooses the next edit; false when the turn is over.
  virtual Result<bool> propose() = 0;
  /// Makes the edit on `plan`, a copy of the best plan so far.
  virtual void apply(PlanChoice* plan) const = 0;
  /// Lowers and replays the edited plan, unless the pass knows better.
  virtual Result<PricedPlanPtr> price(PlanChoice plan);
  /// Learns what the edit was worth. False: it must not become the best plan,
  /// whatever its score.
  virtual bool accept(const PricedPlan& priced);
  /// The turn in a few words, for the log.
  virtual std::string explain() const = 0;

 protected:
  PlanSearch& search_;
};

class Pass {
 public:
  explicit Pass(PlanSearch& search) : search_(search) {}
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  virtual ~Pass() = default;

  /// Decides, before the baselines are priced, what it puts into the plan that
  /// all turns start from. That is the recorded plan but for what the passes
  /// before have settled.
  virtual Status settle(PlanChoice* start);
  /// Offers what it has at hand when turns begin. `is_first`: no other pass
  /// takes its turn before.
  virtual Status open(const PricedPlan& start, bool is_first);
  /// Its turns in one round, from index 0 on; nullptr after the last.
  virtual std::unique_ptr<Turn> turn(int index);

 protected:
  PlanSearch& search_;
};

/// How the search and the command line know a pass.
struct PassEntry {
  std::string_view name;     ///< As `--only` says it.
  std::string_view summary;  ///< For the help text.
  /// It changes which units a plan has, so that a recorded order is void.
  bool edits_units = false;
  bool takes_turns = true;
  std::unique_ptr<Pass> (*make)(PlanSearch&) = nullptr;
  /// Runs only where it is asked for.
  bool on_request = false;
};

template <typename T>
std::unique_ptr<Pass> make_pass(PlanSearch& search) {
  return std::make_unique<T>(search);
}

}  // namespace reprise
