// The fullest moment first: what is computed again behind it lowers it, until
// another moment, or nothing, can be lowered. Then what was found is measured,
// and units that lose by it read from memory again.
#include "optimizer/recompute/recompute_pass.h"

#include <algorithm>

#include "optimizer/recompute/recomputation.h"
#include "optimizer/search/plan_search.h"

namespace reprise {
namespace {

/// Moments looked at, each the fullest that is left.
constexpr int kMostMoments = 16;
/// Plans measured, in each of which fewer units compute again.
constexpr int kMostRounds = 3;
/// What the step's kernels may take longer in all: less than prices of
/// different runs can tell.
constexpr double kMostLoss = 0.005;
/// An arena that shrinks by less is not worth that.
constexpr double kLeastSaving = 0.02;

bool computes_again(const PlanChoice& plan) {
  std::set<InstructionId> ops;
  for (const ChosenGroup& group : plan.fusion) {
    for (const InstructionId op : group.ops) {
      if (!ops.insert(op).second) return true;
    }
  }
  return false;
}

class RecomputePass : public Pass {
 public:
  using Pass::Pass;

  Status settle(PlanChoice* start) override {
    if (computes_again(*start)) return {};
    const auto before = search_.pricer().price(*start);
    if (!before) return pass(before.error());
    const Recomputation plans(search_.pricer().ops(), **before);
    std::set<UnitKey> fixed;
    for (int round = 0; round < kMostRounds; ++round) {
      const Result<Found> found = find(plans, **before, &fixed);
      if (!found) return pass(found.error());
      if (!saves(*found, **before) || search_.out_of_time()) break;
      if (search_.can_measure() &&
          has_unknown_prices(*found->priced, search_.costs()))
        search_.measure(found->priced->plan, "values computed again");
      if (!fix_losers(plans, **before, *found, &fixed)) {
        say(*found, **before);
        start->fusion = found->priced->plan.fusion;
        return {};
      }
    }
    search_.say("recompute: no value");
    return {};
  }

 private:
  struct Found {
    Recomputed recomputed;
    PricedPlanPtr priced;  ///< Null: no value is computed again.
  };

  /// Adds units to `fixed` whose group would be no kernel.
  Result<Found> find(const Recomputation& plans, const PricedPlan& before,
                     std::set<UnitKey>* fixed) {
    Found found;
    for (int moment = 0; moment < kMostMoments; ++moment) {
      const PricedPlan& last = found.priced ? *found.priced : before;
      Recomputed more = plans.at_fullest_moment(last, found.recomputed, *fixed);
      if (more == found.recomputed) break;
      auto next = search_.pricer().price(plans.plan_of(more));
      if (!next && next.error().kind != ErrorKind::kInvalid)
        return pass(next.error());
      if (!next) {
        if (!fix_infeasible(plans, more, found.recomputed, fixed)) break;
        continue;
      }
      if ((*next)->schedule.arena_bytes >= last.schedule.arena_bytes) break;
      found = {std::move(more), *std::move(next)};
    }
    return found;
  }

  /// Fixes units that cannot compute again, each by itself, what `more` says.
  bool fix_infeasible(const Recomputation& plans, const Recomputed& more,
                      const Recomputed& before, std::set<UnitKey>* fixed) {
    const size_t were_fixed = fixed->size();
    for (const auto& [unit, ops] : more) {
      const auto known = before.find(unit);
      if (known != before.end() && known->second == ops) continue;
      Recomputed alone = before;
      alone[unit] = ops;
      if (!search_.pricer().price(plans.plan_of(alone))) fixed->insert(unit);
    }
    return fixed->size() > were_fixed;
  }

  static bool saves(const Found& found, const PricedPlan& before) {
    return found.priced != nullptr &&
           static_cast<double>(found.priced->schedule.arena_bytes) <
               (1 - kLeastSaving) *
                   static_cast<double>(before.schedule.arena_bytes);
  }

  struct KernelPair {
    const Unit *before = nullptr, *after = nullptr;
  };

  static std::map<UnitKey, KernelPair> kernel_pairs(const Recomputation& plans,
                                                    const PricedPlan& before,
                                                    const PricedPlan& after) {
    std::map<UnitKey, KernelPair> pairs;
    for (const Unit& unit : before.schedule.units) {
      if (unit.kind == UnitKind::kKernel)
        pairs[plans.key_of(unit)].before = &unit;
    }
    for (const Unit& unit : after.schedule.units) {
      if (unit.kind == UnitKind::kKernel)
        pairs[plans.key_of(unit)].after = &unit;
    }
    return pairs;
  }

  /// What a kernel takes longer than before; by the roofline where one of the
  /// two was never measured.
  double loss_of(const KernelPair& pair) const {
    const CostModel& costs = search_.costs();
    bool known = true;
    for (const Unit* unit : {pair.before, pair.after})
      known = known && (unit == nullptr || costs.units.contains(unit->key));
    const auto price = [&](const Unit* unit) {
      if (unit == nullptr) return 0.0;
      if (known) return costs.price(*unit).alone_ns + costs.dispatch_ns;
      Unit modelled = *unit;
      modelled.key.clear();
      return costs.price(modelled).alone_ns + costs.dispatch_ns;
    };
    return price(pair.after) - price(pair.before);
  }

  /// Where all kernels together lose too much, fixes those that lose most until
  /// the others do not. False: they did not.
  bool fix_losers(const Recomputation& plans, const PricedPlan& before,
                  const Found& found, std::set<UnitKey>* fixed) const {
    double lost = 0;
    std::vector<std::pair<double, UnitKey>> losers;
    for (const auto& [unit, pair] :
         kernel_pairs(plans, before, *found.priced)) {
      const double loss = loss_of(pair);
      lost += loss;
      if (loss > 0 && found.recomputed.contains(unit))
        losers.emplace_back(loss, unit);
    }
    const double most = kMostLoss * static_cast<double>(before.step_time_ns);
    if (lost <= most) return false;
    std::sort(losers.rbegin(), losers.rend());
    for (const auto& [loss, unit] : losers) {
      if (lost <= most) break;
      fixed->insert(unit);
      lost -= loss;
    }
    return true;
  }

  void say(const Found& found, const PricedPlan& before) {
    search_.say(fmt::format(
        "recompute: {} units compute values again: arena {} bytes, {} before",
        found.recomputed.size(), found.priced->schedule.arena_bytes,
        before.schedule.arena_bytes));
  }
};

}  // namespace

PassEntry recompute_pass() {
  return {.name = "recompute",
          .summary = "what runs twice rather than stays in memory",
          .edits_units = true,
          .takes_turns = false,
          .make = make_pass<RecomputePass>};
}

}  // namespace reprise
