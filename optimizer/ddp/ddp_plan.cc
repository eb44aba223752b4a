// Caps, not borders, are what DDP can be told, so candidates are priced as the
// buckets that its rule makes of them. The dynamic program runs on the timeline
// of the best answer so far, with and without the latency that a second worker
// hides and the slow-down beside compute; the best prediction wins.
#include "optimizer/ddp/ddp_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "data/result.h"
#include "optimizer/buckets/bucket_program.h"
#include "optimizer/pricing/least_speedup.h"

namespace reprise {
namespace {

// What DDP's users try, and what the single-cap search tries.
constexpr int64_t kShownCapsMib[] = {1, 4, 10, 50};
constexpr double kTriedCapsMib[] = {0.25, 0.5, 1,  1.5, 2,  3,  4,
                                    5,    6,   8,  10,  12, 16, 20,
                                    25,   32,  40, 50,  64, 100};

int64_t total_bytes(const DdpModel& model) {
  int64_t bytes = 0;
  for (const DdpGradient& each : model.gradients) bytes += each.bytes;
  return std::max<int64_t>(1, bytes);
}

/// The type that most bytes are of: caps are chosen for it.
std::string main_type(const DdpModel& model) {
  std::map<std::string, int64_t> bytes;
  for (const DdpGradient& each : model.gradients) {
    bytes[each.type] += each.bytes;
  }
  return std::max_element(
             bytes.begin(), bytes.end(),
             [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

/// The dynamic program on a timeline: buckets of the main type, as caps.
std::vector<int64_t> solve_on(const DdpModel& model,
                              const std::vector<double>& ready_ns,
                              double hidden_latency_ns, double slowdown) {
  const std::string type = main_type(model);
  BucketProgram program;
  for (size_t i = 0; i < model.gradients.size(); ++i) {
    if (model.gradients[i].type != type) continue;
    program.gradients.push_back({.ready_ns = std::llround(ready_ns[i]),
                                 .bytes = model.gradients[i].bytes});
  }
  program.price_ns = [&](int64_t bytes, uint32_t) {
    const double price_ns =
        model.price.price_ns(static_cast<double>(bytes)) - hidden_latency_ns;
    return std::llround(std::max(0.0, price_ns * slowdown));
  };
  const BucketSolution solution = solve_buckets(program);
  std::vector<int64_t> caps;
  size_t begin = 0;
  for (const size_t end : solution.borders) {
    int64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) bytes += program.gradients[i].bytes;
    caps.push_back(bytes);
    begin = end;
  }
  return caps;
}

bool better(const DdpSetting& a, const DdpSetting& b) {
  // Below this a difference is rounding: then fewer buckets are better.
  constexpr double kSame = 1e-9;
  if (std::abs(a.step_ns - b.step_ns) > kSame * b.step_ns) {
    return a.step_ns < b.step_ns;
  }
  return a.buckets.size() < b.buckets.size();
}

class Search {
 public:
  Search(const DdpModel& model, const ProgressWatcher& watch)
      : model_(model), watch_(watch) {}

  DdpSearch run() {
    add_baselines();
    search_single_cap();
    search_.plan = search_.single_cap;
    for (const DdpSetting& each : search_.baselines) offer(each);
    // Two workers hide a latency behind the other's transfer.
    const double workers = model_.workers;
    const double hidden_ns = model_.price.latency_ns * (1 - 1 / workers);
    for (const double hidden : {0.0, hidden_ns}) {
      for (const double slowdown : {1.0, model_.collective_slowdown}) {
        iterate(hidden, slowdown);
      }
    }
    search_.plan.name = "plan";
    search_.lower_bound_ns = lower_bound_ns();
    return std::move(search_);
  }

 private:
  DdpSetting price(std::string name, std::vector<int64_t> caps) {
    ++search_.evaluations;
    return price_setting(model_, std::move(name), std::move(caps));
  }

  void offer(const DdpSetting& setting) {
    if (better(setting, search_.plan)) search_.plan = setting;
  }

  void add_baselines() {
    search_.baselines.push_back(price("none", {1}));
    for (const int64_t cap : kShownCapsMib) {
      search_.baselines.push_back(
          price(fmt::format("{} MiB", cap), {cap * kMebibyte}));
    }
    search_.baselines.push_back(price("ddp", {kMebibyte, 25 * kMebibyte}));
    search_.baselines.push_back(price("one bucket", {total_bytes(model_)}));
  }

  void search_single_cap() {
    search_.single_cap = price("", {1});
    for (const double mib : kTriedCapsMib) {
      const DdpSetting setting =
          price(fmt::format("{:g} MiB", mib),
                {std::llround(mib * static_cast<double>(kMebibyte))});
      if (better(setting, search_.single_cap)) search_.single_cap = setting;
    }
  }

  /// Solves on the timeline of the answer before, until that changes nothing.
  void iterate(double hidden_latency_ns, double slowdown) {
    std::vector<double> ready_ns =
        simulate_buckets(model_, search_.plan.buckets).ready_ns;
    std::vector<int64_t> last;
    const int first = rounds_;
    rounds_ += kRounds;  // Those left out count as done.
    for (int round = 0; round < kRounds; ++round) {
      tell(first + round);
      const std::vector<int64_t> caps =
          solve_on(model_, ready_ns, hidden_latency_ns, slowdown);
      if (caps == last) break;
      last = caps;
      const DdpSetting setting = price("plan", caps);
      offer(setting);
      ready_ns = simulate_buckets(model_, setting.buckets).ready_ns;
    }
  }

  void tell(int round) const {
    if (!watch_) return;
    watch_({.what = "searching buckets",
            .share = static_cast<double>(round) / (kVariants * kRounds),
            .count = static_cast<double>(search_.evaluations),
            .unit = "settings"});
  }

  /// Compute alone; and, for each gradient, the bytes that cannot be sent
  /// before it is ready, at the best rate that any run of gradients gets.
  double lower_bound_ns() const {
    const size_t count = model_.gradients.size();
    double best_ns_per_byte = HUGE_VAL, least_ns = HUGE_VAL;
    int64_t bytes = 0;
    const auto consider = [&](int64_t size) {
      const double whole_ns = model_.price.price_ns(static_cast<double>(size));
      const double wire_ns = std::max(0.0, whole_ns - model_.price.latency_ns);
      best_ns_per_byte =
          std::min(best_ns_per_byte, wire_ns / static_cast<double>(size));
      least_ns = std::min(least_ns, whole_ns - wire_ns);
    };
    for (const DdpGradient& each : model_.gradients) {
      consider(std::max<int64_t>(1, each.bytes));
    }
    // The price is piecewise smooth: sizes on a fine grid, and its points.
    for (double size = 1024; size < static_cast<double>(total_bytes(model_));
         size *= 1.05) {
      consider(std::llround(size));
    }
    for (const auto& [size, time_ns] : model_.price.points) {
      if (size >= 1) consider(std::llround(size));
    }
    consider(total_bytes(model_));
    double bound_ns = model_.ready_ns.back();
    for (size_t i = count; i-- > 0;) {
      bytes += model_.gradients[i].bytes;
      bound_ns =
          std::max(bound_ns, model_.ready_ns[i] + least_ns +
                                 static_cast<double>(bytes) * best_ns_per_byte);
    }
    return bound_ns + model_.tail_ns;
  }

  static constexpr int kVariants = 4, kRounds = 6;

  const DdpModel& model_;
  const ProgressWatcher& watch_;
  int rounds_ = 0;  ///< Of dynamic programs, before this variant.
  DdpSearch search_;
};

void price_both(const DdpModel& one, const DdpModel& other,
                DdpSetting& setting) {
  setting.step_ns = simulate_buckets(one, setting.buckets).step_ns;
  setting.other_step_ns = simulate_buckets(other, setting.buckets).step_ns;
}

DdpSetting recorded_setting(const DdpModel& one, const DdpModel& other,
                            const std::vector<DdpBucket>& recorded) {
  DdpSetting setting =
      price_setting(one, "recorded", caps_of(one.gradients, recorded));
  price_both(one, other, setting);
  return setting;
}

}  // namespace

DdpSetting price_setting(const DdpModel& model, std::string name,
                         std::vector<int64_t> caps_bytes) {
  DdpSetting setting;
  setting.name = std::move(name);
  setting.buckets = ddp_buckets(model.gradients, caps_bytes);
  setting.caps_bytes = std::move(caps_bytes);
  setting.step_ns = simulate_buckets(model, setting.buckets).step_ns;
  setting.other_step_ns = setting.step_ns;
  return setting;
}

DdpSearch search_buckets(const DdpModel& model, const ProgressWatcher& watch) {
  return Search(model, watch).run();
}

DdpSearch search_buckets_between(const DdpModel& one, const DdpModel& other,
                                 const std::vector<DdpBucket>& recorded,
                                 const ProgressWatcher& watch) {
  const auto half = [&](double begin) -> ProgressWatcher {
    if (!watch) return {};
    return [&watch, begin](WorkProgress progress) {
      progress.share = begin + progress.share / 2;
      watch(progress);
    };
  };
  DdpSearch search = search_buckets(one, half(0));
  const DdpSearch second = search_buckets(other, half(0.5));
  search.evaluations += second.evaluations;
  search.lower_bound_ns =
      std::min(search.lower_bound_ns, second.lower_bound_ns);
  const DdpSetting kept = recorded_setting(one, other, recorded);
  const auto gain = [&](const DdpSetting& setting) {
    return std::min(kept.step_ns / setting.step_ns,
                    kept.other_step_ns / setting.other_step_ns);
  };
  DdpSetting best = kept;
  const auto offer = [&](DdpSetting& setting) {
    price_both(one, other, setting);
    if (gain(setting) > gain(best)) best = setting;
  };
  for (DdpSetting& each : search.baselines) offer(each);
  DdpSetting ends[] = {search.single_cap, search.plan, second.single_cap,
                       second.plan};
  for (DdpSetting& each : ends) offer(each);
  price_both(one, other, search.single_cap);
  for (const double mib : kTriedCapsMib) {
    DdpSetting setting =
        price_setting(one, fmt::format("{:g} MiB", mib),
                      {std::llround(mib * static_cast<double>(kMebibyte))});
    offer(setting);
    if (gain(setting) > gain(search.single_cap)) search.single_cap = setting;
  }
  search.plan = best;
  search.plan.name = "plan";
  return search;
}

void keep_recorded(const DdpModel& one, const DdpModel& other,
                   const std::vector<DdpBucket>& recorded, int64_t took_ns,
                   DdpSearch& search) {
  DdpSetting kept = recorded_setting(one, other, recorded);
  search.baselines.push_back(kept);
  const auto speedup = [took_ns](double kept_ns, double found_ns) {
    const auto took = static_cast<double>(took_ns);
    return (took_ns > 0 ? std::min(kept_ns, took) : kept_ns) / found_ns;
  };
  if (kept.buckets == search.plan.buckets ||
      (speedup(kept.step_ns, search.plan.step_ns) >= kLeastSpeedup &&
       speedup(kept.other_step_ns, search.plan.other_step_ns) >=
           kLeastSpeedup)) {
    return;
  }
  kept.name = search.plan.name;
  search.unclaimed = std::exchange(search.plan, std::move(kept));
}

}  // namespace reprise
