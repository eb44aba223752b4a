#include "replay/analysis/step_costs.h"

#include <algorithm>

#include "data/integers.h"
#include "data/median.h"

namespace reprise {

CostTable::CostTable(const Trace& trace) {
  for (const StepMark& mark : trace.steps) {
    if (!mark.warmup) steps_.try_emplace(mark.step, 0);
  }
  marked_ = !steps_.empty();
  size_t place = 0;
  for (auto& [number, at] : steps_) at = place++;
  if (!marked_) steps_[0] = 0;
}

int64_t CostTable::place_of(const RankWork& work,
                            const DeviceEvent& event) const {
  if (!marked_) return 0;
  const int32_t step = step_of(work, event);
  return step < 0 ? -1 : place_of(work.steps[static_cast<size_t>(step)].step);
}

int64_t CostTable::place_of(int32_t step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? -1 : static_cast<int64_t>(found->second);
}

uint32_t CostTable::key(const std::string& text) {
  const auto [place, added] =
      keys_.try_emplace(text, static_cast<uint32_t>(cells_.size()));
  if (added) cells_.emplace_back();
  return place->second;
}

CostTable::Cell& CostTable::cell(uint32_t key, int64_t step) {
  std::vector<Cell>& cells = cells_[key];
  const auto place =
      std::lower_bound(cells.begin(), cells.end(), step,
                       [](const Cell& a, int64_t b) { return a.step < b; });
  if (place != cells.end() && place->step == step) return *place;
  return *cells.insert(place, {.step = step});
}

void CostTable::add(uint32_t key, int64_t step, int64_t time_ns) {
  if (step < 0) return;
  Cell& own = cell(key, step);
  own.time_ns = saturating_add(own.time_ns, time_ns);
  ++own.count;
}

void CostTable::add_wait(uint32_t key, int64_t step, int64_t wait_ns) {
  if (step < 0) return;
  Cell& own = cell(key, step);
  own.wait_ns = saturating_add(own.wait_ns, wait_ns);
}

StepCost CostTable::median_of(const std::vector<Cell>& cells,
                              int64_t ranks) const {
  StepCost cost;
  for (const Cell& each : cells) {
    cost.mean_ns = saturating_add(cost.mean_ns, each.time_ns / ranks);
    cost.steps += each.count > 0;
  }
  cost.mean_ns /= std::ssize(steps_);
  // The steps without it have zeros.
  if (2 * cells.size() <= steps_.size()) return cost;
  std::vector<int64_t> times(steps_.size()), waits(steps_.size());
  std::vector<double> counts(steps_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    times[i] = cells[i].time_ns / ranks;
    waits[i] = cells[i].wait_ns / ranks;
    counts[i] =
        static_cast<double>(cells[i].count) / static_cast<double>(ranks);
  }
  cost.time_ns = lower_median(std::move(times));
  cost.wait_ns = lower_median(std::move(waits));
  cost.count = lower_median(std::move(counts));
  return cost;
}

StepCosts CostTable::medians(size_t ranks) const {
  StepCosts result;
  const auto share = static_cast<int64_t>(std::max(ranks, size_t{1}));
  for (const auto& [text, place] : keys_)
    result[text] = median_of(cells_[place], share);
  return result;
}

}  // namespace reprise
