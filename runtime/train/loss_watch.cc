#include "runtime/train/loss_watch.h"

#include <algorithm>
#include <cmath>

#include "data/memory_limit.h"
#include "runtime/train/gather_values.h"

namespace reprise {
namespace {

constexpr int64_t kStepsBetweenLooks = 10;
/// A larger copy of the state is not kept, nor then a unit named.
constexpr uint64_t kShareOfMemory = 8;

std::string describe(const NonFinite& found) {
  std::string text;
  if (!found.nan_unit.empty())
    text += fmt::format("; the first unit that gave NaN: {}", found.nan_unit);
  if (!found.infinite_unit.empty()) {
    text += fmt::format("; the first that gave an infinity: {}",
                        found.infinite_unit);
  }
  return text;
}

}  // namespace

Status LossWatch::before(int64_t step) {
  const bool looks = step <= 1 || step % kStepsBetweenLooks == 0;
  if (!active_ || !looks) return {};
  if (Status finite = look(); !finite) return finite;
  return keep_state(step);
}

Status LossWatch::keep_state(int64_t step) {
  state_.clear();
  state_step_ = step;
  if (run_.state_size() > memory_limit_bytes() / kShareOfMemory) return {};
  Result<std::map<int64_t, std::string>> state = run_.state_bytes();
  if (!state) return pass(state.error());
  state_ = *std::move(state);
  return {};
}

Status LossWatch::look() {
  if (!active_ || losses_.empty()) return {};
  const auto mine = std::find_if(losses_.begin(), losses_.end(),
                                 [](double x) { return !std::isfinite(x); });
  const auto all = gather_values<int64_t>(
      group_, {mine - losses_.begin(), state_.empty() ? 0 : 1});
  if (!all) return pass(all.error());
  const auto end = static_cast<int64_t>(losses_.size());
  int64_t step = end;
  bool can_rerun = true;
  for (const std::vector<int64_t>& row : *all) {
    step = std::min(step, row[0]);
    can_rerun = can_rerun && row[1] != 0;
  }
  return step == end ? Status() : explain(step, can_rerun);
}

// Runs what led to the step again, and the step with a look at every unit.
Status LossWatch::explain(int64_t step, bool can_rerun) {
  NonFinite found;
  if (can_rerun) {
    if (Status restored = run_.restore(state_); !restored) return restored;
    for (int64_t again = state_step_; again < step; ++again) {
      const auto outcome = run_.step(static_cast<int32_t>(again), true);
      if (!outcome) return pass(outcome.error());
    }
    Result<NonFinite> looked = run_.find_non_finite(static_cast<int32_t>(step));
    if (!looked) return pass(looked.error());
    found = *std::move(looked);
  }
  const Result<std::vector<std::string>> units =
      group_.all_gather(describe(found));
  if (!units) return pass(units.error());
  const auto named =
      std::find_if(units->begin(), units->end(),
                   [](const std::string& text) { return !text.empty(); });
  return fail(ErrorKind::kInvalid,
              "step {} of this run: the loss is not finite{}; --allow-nan "
              "trains on",
              step + 1, named == units->end() ? "" : *named);
}

}  // namespace reprise
