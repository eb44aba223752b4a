#include "optimizer/refine/refine_pass.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "optimizer/search/plan_search.h"

namespace reprise {
namespace {

/// Most places that one move shifts a unit by.
constexpr uint32_t kMostPlaces = 16;

class RefineTurn : public Turn {
 public:
  explicit RefineTurn(PlanSearch& search)
      : Turn(search),
        random_(search.options().seed + search.pricer().evaluations()),
        end_(search.pricer().evaluations() +
             search.options().evaluations / kJointRounds) {}

  Result<bool> propose() override {
    const PricedPlan& best = search_.best();
    const auto units = static_cast<uint32_t>(best.schedule.units.size());
    if (units < 2 || search_.pricer().evaluations() >= end_) return false;
    std::vector<uint32_t> sequence(units);
    std::iota(sequence.begin(), sequence.end(), 0U);
    // A unit that its neighbours hold in place makes no move; most have room.
    for (uint32_t tries = 0; tries < units; ++tries) {
      const auto from = static_cast<uint32_t>(random_() % units);
      const uint32_t to = reach(best, from);
      if (to == from) continue;
      const auto at = sequence.begin();
      if (to > from) {
        std::rotate(at + from, at + from + 1, at + to + 1);
      } else {
        std::rotate(at + to, at + from, at + from + 1);
      }
      order_ = order_of(best.schedule, sequence);
      return true;
    }
    return false;
  }

  void apply(PlanChoice* plan) const override { plan->order = order_; }

  std::string explain() const override { return "order by replay"; }

 private:
  /// Where a unit gets on its way, some places earlier or later: units stand in
  /// execution order, and it stops at what it depends on or feeds. A copy
  /// stays, because no order names it.
  uint32_t reach(const PricedPlan& best, uint32_t from) {
    const auto units = static_cast<uint32_t>(best.schedule.units.size());
    const bool later = random_() % 2 == 0;
    auto places = static_cast<uint32_t>(1 + random_() % kMostPlaces);
    if (best.schedule.units[from].kind == UnitKind::kCopy) return from;
    const auto& held = later ? best.graph.after[from] : best.graph.before[from];
    uint32_t to = from;
    for (; places > 0; --places) {
      if (later ? to + 1 == units : to == 0) break;
      const uint32_t next = later ? to + 1 : to - 1;
      if (std::binary_search(held.begin(), held.end(), next)) break;
      to = next;
    }
    return to;
  }

  std::mt19937_64 random_;
  const uint64_t end_;
  std::vector<UnitRef> order_;
};

class RefinePass : public Pass {
 public:
  using Pass::Pass;

  std::unique_ptr<Turn> turn(int index) override {
    if (index > 0 || !search_.has_best()) return nullptr;
    return std::make_unique<RefineTurn>(search_);
  }
};

}  // namespace

PassEntry refine_pass() {
  return {.name = "refine",
          .summary = "single units of an order, by replay",
          .make = make_pass<RefinePass>,
          .on_request = true};
}

}  // namespace reprise
