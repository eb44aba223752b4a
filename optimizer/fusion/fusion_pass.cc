// Chooses by estimates, has what it chose measured, chooses again by what was
// learnt, until nothing is unknown; last come dots with epilogues, which must
// gain more than noise.
#include "optimizer/fusion/fusion_pass.h"

#include <algorithm>

#include "optimizer/fusion/fusion.h"
#include "optimizer/search/plan_search.h"

namespace reprise {
namespace {

/// Dots take in epilogues only for a step shorter than this share of the one
/// without: the two are measured in runs that differ by noise (a step predicted
/// 1.5 % shorter ran 2.5 % longer; GPT, two ranks on one host).
constexpr double kLeastOfEpilogues = 0.97;
/// Most dots have no epilogue, so what splitting leaves unknown is little.
constexpr int kEpilogueRounds = 2;

int64_t dots_with_epilogue(const Schedule& schedule) {
  return std::count_if(
      schedule.units.begin(), schedule.units.end(), [](const Unit& unit) {
        return unit.kind == UnitKind::kLibrary && !unit.dot.is_plain();
      });
}

class FusionPass : public Pass {
 public:
  using Pass::Pass;

  Status settle(PlanChoice* start) override {
    plan_.ranks = start->ranks;
    const auto tree = build({});
    if (!tree) return pass(tree.error());
    plan_.fusion = tree->choose(search_.costs());
    if (Status ok = measure(*tree); !ok) return ok;
    plan_.fusion =
        tree->choose(search_.costs(), UnknownPrices::kLikeTheirWhole);
    if (Status ok = try_dot_epilogues(); !ok) return ok;
    search_.say(fmt::format("fusion: {} groups", plan_.fusion.size()));
    start->fusion = plan_.fusion;
    return {};
  }

 private:
  Result<FusionTree> build(const FusionOptions& options) {
    return FusionTree::build(search_.pricer().cache(), search_.costs(),
                             options);
  }

  /// Measures what is fused and chooses again, until every price is known.
  Status measure(const FusionTree& tree) {
    if (!search_.can_measure()) return {};
    for (int round = 0;
         round < search_.options().measure_rounds && !search_.out_of_time();
         ++round) {
      auto priced = search_.pricer().price(plan_);
      if (!priced) return pass(priced.error());
      if (!has_unknown_prices(**priced, search_.costs())) break;
      search_.measure((*priced)->plan, "fused units");
      plan_.fusion = tree.choose(search_.costs());
      search_.say(fmt::format("fusion by measured prices: {} groups",
                              plan_.fusion.size()));
    }
    return {};
  }

  /// Prices `plan` by `tree`, measured in a few rounds where units are unknown.
  Result<PricedPlanPtr> measured_epilogues(const FusionTree& tree,
                                           PricedPlanPtr priced) {
    const int rounds =
        std::min(search_.options().measure_rounds, kEpilogueRounds);
    for (int round = 0;
         search_.can_measure() && round < rounds && !search_.out_of_time() &&
         has_unknown_prices(*priced, search_.costs());
         ++round) {
      search_.measure(priced->plan, "dots with epilogues");
      PlanChoice plan = priced->plan;
      plan.fusion =
          tree.choose(search_.costs(), UnknownPrices::kLikeTheirWhole);
      auto again = search_.pricer().price(std::move(plan));
      if (!again) return again;
      priced = *std::move(again);
    }
    return priced;
  }

  /// Takes a fusion in which dots have epilogues where all of its units have
  /// known prices and its step is predicted to be clearly shorter.
  Status try_dot_epilogues() {
    const auto tree = build({.dot_epilogues = true});
    if (!tree) return pass(tree.error());
    PlanChoice plan = plan_;
    plan.fusion = tree->choose(search_.costs());
    auto priced = search_.pricer().price(std::move(plan));
    if (!priced) return pass(priced.error());
    if (dots_with_epilogue((*priced)->schedule) == 0) return {};
    priced = measured_epilogues(*tree, *std::move(priced));
    if (!priced) return pass(priced.error());
    const auto without = search_.pricer().price(plan_);
    if (!without) return pass(without.error());
    const int64_t dots = dots_with_epilogue((*priced)->schedule);
    const auto with_ns = static_cast<double>((*priced)->step_time_ns);
    const auto without_ns = static_cast<double>((*without)->step_time_ns);
    const bool taken = dots > 0 &&
                       !has_unknown_prices(**priced, search_.costs()) &&
                       with_ns < kLeastOfEpilogues * without_ns;
    search_.say(fmt::format(
        "{} dots with epilogues: {:.3f} ms, without {:.3f} ms{}", dots,
        with_ns / 1e6, without_ns / 1e6, taken ? "" : ", left alone"));
    if (taken) plan_.fusion = (*priced)->plan.fusion;
    return {};
  }

  PlanChoice plan_;  ///< The fusion so far, and nothing else.
};

}  // namespace

PassEntry fusion_pass() {
  return {.name = "fusion",
          .summary = "which ops run as one unit",
          .edits_units = true,
          .takes_turns = false,
          .make = make_pass<FusionPass>};
}

}  // namespace reprise
