// Two turns. The dynamic program is exact for a timeline, but buckets change
// the timeline (they slow compute down); so it is solved again on the replay of
// its own answer until that stops helping, which takes two or three rounds.
// Then collectives that others wait for join wave by wave, and single borders
// of both move, go or come at random, scored by the replay itself, which knows
// what the program's model leaves out.
#include "optimizer/buckets/bucket_pass.h"

#include <algorithm>
#include <limits>
#include <random>

#include "optimizer/buckets/gradients.h"
#include "optimizer/search/plan_search.h"

namespace reprise {
namespace {

/// Of dynamic program and replay; it settles in two or three.
constexpr int kMaxRounds = 6;
/// Edits of borders without progress after which local search ends.
constexpr int kIdleEdits = 200;

/// Dynamic program and replay in turns: the program is solved on the timeline
/// of the plan before, the first without any bucket.
class ProgramTurn : public Turn {
 public:
  using Turn::Turn;

  Result<bool> propose() override {
    if (!buckets_) return true;
    if (settled_ || round_ == kMaxRounds || gradients_.list.empty())
      return false;
    buckets_.emplace();
    for (const Gradients& run : runs_of_keys(gradients_)) {
      const std::vector<ChosenBucket> solved = solve(run);
      buckets_->insert(buckets_->end(), solved.begin(), solved.end());
    }
    ++round_;
    return true;
  }

  void apply(PlanChoice* plan) const override {
    std::vector<ChosenBucket> buckets = wave_buckets(gradients_, *plan);
    if (buckets_)
      buckets.insert(buckets.begin(), buckets_->begin(), buckets_->end());
    *plan = search_.start;
    plan->buckets = std::move(buckets);
  }

  Result<PricedPlanPtr> price(PlanChoice plan) override {
    // Before any order is known, readiness is that of an eager framework.
    const bool eager = !buckets_ && search_.order_rule.compute.empty();
    return search_.price_open(std::move(plan),
                              eager ? OrderRule{} : search_.order_rule);
  }

  bool accept(const PricedPlan& priced) override {
    if (buckets_) {
      const int64_t score = search_score(priced);
      settled_ = score >= last_;
      last_ = score;
    } else {
      buckets_.emplace();
    }
    if (!settled_) gradients_ = gradients_of(search_.pricer(), priced);
    return true;
  }

  std::string explain() const override { return "buckets by dynamic program"; }

 private:
  std::vector<ChosenBucket> solve(const Gradients& gradients) const {
    BucketProgram program = bucket_program_of(gradients, search_.costs());
    const auto meeting_ns = static_cast<int64_t>(search_.costs().meeting_ns);
    program.price_ns = [price_ns = std::move(program.price_ns), meeting_ns](
                           int64_t bytes, uint32_t key) {
      return price_ns(bytes, key) + meeting_ns;
    };
    return buckets_of(gradients, solve_buckets(program).borders);
  }

  Gradients gradients_;  ///< On the timeline of the last plan.
  /// Of the last plan; nothing before the first.
  std::optional<std::vector<ChosenBucket>> buckets_;
  int round_ = 0;
  int64_t last_ = std::numeric_limits<int64_t>::max();
  bool settled_ = false;
};

/// Every wave as one bucket, then each wave the other way: joined or apart.
class WaveTurn : public Turn {
 public:
  WaveTurn(PlanSearch& search, std::vector<Wave> waves)
      : Turn(search),
        waves_(std::move(waves)),
        end_(search.pricer().evaluations() +
             search.options().evaluations / kJointRounds) {}

  Result<bool> propose() override {
    return next_ <= waves_.size() && search_.pricer().evaluations() < end_;
  }

  void apply(PlanChoice* plan) const override {
    if (next_ > 0) return turn_over(waves_[next_ - 1], plan);
    for (const Wave& wave : waves_) {
      split(wave, plan);
      plan->buckets.push_back({wave});
    }
  }

  Result<PricedPlanPtr> price(PlanChoice plan) override {
    ++next_;
    return search_.price_open(std::move(plan), search_.order_rule);
  }

  std::string explain() const override { return "buckets of waves"; }

 private:
  static bool split(const Wave& wave, PlanChoice* plan) {
    return std::erase_if(plan->buckets, [&](const ChosenBucket& bucket) {
             return std::ranges::find(wave, bucket.slots[0]) != wave.end();
           }) > 0;
  }

  static void turn_over(const Wave& wave, PlanChoice* plan) {
    if (!split(wave, plan)) plan->buckets.push_back({wave});
  }

  const std::vector<Wave> waves_;
  const uint64_t end_;
  size_t next_ = 0;
};

/// One after another what buckets may be runs of, where keys are the same.
struct Member {
  int32_t slot = 0;
  uint32_t key = 0;
};

/// Gradients key by key, then waves, each with a key of its own.
std::vector<Member> members_of(const Gradients& gradients) {
  std::vector<Member> members;
  for (const Gradients& key : by_key(gradients)) {
    for (const Gradient& gradient : key.list)
      members.push_back({gradient.slot, gradient.figures.key});
  }
  auto key = static_cast<uint32_t>(gradients.samples.size());
  for (const Wave& wave : gradients.waves) {
    for (const int32_t slot : wave) members.push_back({slot, key});
    ++key;
  }
  return members;
}

/// Borders that `plan`'s buckets draw over the members, if its buckets are runs
/// of them.
std::vector<size_t> borders_of(const std::vector<Member>& members, size_t slots,
                               const PlanChoice& plan) {
  std::vector<size_t> bucket_of(slots, 0);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    for (const int32_t slot : plan.buckets[b].slots)
      bucket_of[static_cast<size_t>(slot)] = b + 1;
  }
  const auto bucket_at = [&](size_t i) {
    return bucket_of[static_cast<size_t>(members[i].slot)];
  };
  std::vector<size_t> borders;
  for (size_t i = 0; i < members.size(); ++i) {
    const bool last = i + 1 == members.size();
    const bool together = !last && bucket_at(i) != 0 &&
                          bucket_at(i + 1) == bucket_at(i) &&
                          members[i + 1].key == members[i].key;
    if (!together) borders.push_back(i + 1);
  }
  return borders;
}

/// Local search on borders: one moves, goes or comes; what is not worse stays.
class BorderTurn : public Turn {
 public:
  BorderTurn(PlanSearch& search, std::vector<Member> members)
      : Turn(search),
        members_(std::move(members)),
        random_(search.options().seed + search.pricer().evaluations()),
        end_(search.pricer().evaluations() +
             search.options().evaluations / kJointRounds),
        borders_(borders_of(members_, search.pricer().ops().slots.size(),
                            search.best().plan)) {}

  Result<bool> propose() override {
    if (trial_.empty()) {
      trial_ = borders_;
    } else {
      ++idle_;
      do {
        trial_ = edited_borders();
      } while (trial_.empty());
    }
    return idle_ < kIdleEdits && search_.pricer().evaluations() < end_;
  }

  void apply(PlanChoice* plan) const override {
    std::vector<int32_t> slots;
    for (const Member& member : members_) slots.push_back(member.slot);
    plan->buckets = buckets_of(slots, trial_);
  }

  Result<PricedPlanPtr> price(PlanChoice plan) override {
    return search_.price_open(std::move(plan), search_.order_rule);
  }

  bool accept(const PricedPlan& priced) override {
    const int64_t score = search_score(priced);
    if (score > best_score_ || !search_.fits(priced)) return true;
    if (score < best_score_) idle_ = 0;
    best_score_ = score;
    borders_ = trial_;
    return true;
  }

  std::string explain() const override { return "buckets by local search"; }

 private:
  /// One random edit. Nothing when it would be illegal.
  std::vector<size_t> edited_borders() {
    std::vector<size_t> borders = borders_;
    const size_t count = members_.size();
    const auto must_cut = [&](size_t at) {
      return members_[at].key != members_[at - 1].key;
    };
    const uint64_t kind = random_() % 3;
    if (kind == 2 || borders.size() < 2) {
      borders.push_back(1 + random_() % (count - 1));
    } else {
      const size_t chosen = random_() % (borders.size() - 1);
      if (must_cut(borders[chosen])) return {};
      const int64_t reach =
          static_cast<int64_t>(std::max<size_t>(1, count / 16));
      const auto step = static_cast<int64_t>(
                            random_() % static_cast<uint64_t>(2 * reach + 1)) -
                        reach;
      const int64_t moved = static_cast<int64_t>(borders[chosen]) + step;
      borders.erase(borders.begin() + static_cast<int64_t>(chosen));
      if (kind == 1 && moved > 0 && moved < static_cast<int64_t>(count)) {
        borders.push_back(static_cast<size_t>(moved));
      }
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    return borders;
  }

  const std::vector<Member> members_;
  std::mt19937_64 random_;
  const uint64_t end_;
  std::vector<size_t> borders_, trial_;
  int idle_ = 0;
  int64_t best_score_ = std::numeric_limits<int64_t>::max();
};

class BucketPass : public Pass {
 public:
  using Pass::Pass;

  Status settle(PlanChoice* start) override {
    start->buckets.clear();
    return {};
  }

  std::unique_ptr<Turn> turn(int index) override {
    if (index == 0) return std::make_unique<ProgramTurn>(search_);
    if (index > 2 || !search_.has_best()) return nullptr;
    Gradients gradients = gradients_of(search_.pricer(), search_.best());
    if (index == 1 && !gradients.waves.empty()) {
      return std::make_unique<WaveTurn>(search_, std::move(gradients.waves));
    }
    std::vector<Member> members = members_of(gradients);
    if (members.size() < 2 || index == (gradients.waves.empty() ? 2 : 1)) {
      return nullptr;
    }
    return std::make_unique<BorderTurn>(search_, std::move(members));
  }
};

}  // namespace

PassEntry bucket_pass() {
  return {.name = "buckets",
          .summary = "which collectives run as one",
          .edits_units = true,
          .make = make_pass<BucketPass>};
}

}  // namespace reprise
