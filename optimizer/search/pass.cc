#include "optimizer/search/pass.h"

#include "optimizer/search/plan_search.h"

namespace reprise {

Result<PricedPlanPtr> Turn::price(PlanChoice plan) {
  return search_.pricer().price(std::move(plan));
}

bool Turn::accept(const PricedPlan&) { return true; }

Status Pass::settle(PlanChoice*) { return {}; }

Status Pass::open(const PricedPlan&, bool) { return {}; }

std::unique_ptr<Turn> Pass::turn(int) { return nullptr; }

}  // namespace reprise
