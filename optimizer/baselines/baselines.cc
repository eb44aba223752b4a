// Each baseline is a rule for borders over the gradients in the order in which
// an eager run makes them ready; the plan is then priced like any other.
#include "optimizer/baselines/baselines.h"

#include <algorithm>

#include "data/plan/unit_graph.h"
#include "optimizer/buckets/gradients.h"
#include "optimizer/fusion/fusion.h"
#include "optimizer/order/list_schedule.h"
#include "optimizer/pricing/order_rule.h"

namespace reprise {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDdpCapsBytes[] = {kMiB, 25 * kMiB};
constexpr int64_t kHorovodCycle_ns = 1'000'000;
constexpr int64_t kHorovodCapBytes = 128 * kMiB;
constexpr int64_t kXlaCapBytes = 30 * kMiB + 7;
constexpr size_t kXlaMaxMembers = 256;

/// Eager compute with one collective a gradient: the timeline that readiness is
/// read from.
Result<PricedPlanPtr> eager_plan(PlanPricer& pricer, PlanChoice plan) {
  auto lowered = pricer.price(std::move(plan));
  if (!lowered) return lowered;
  return order_by({}, pricer, **lowered);
}

/// The plan with buckets of gradients by a rule, which gives borders or groups.
template <typename Rule>
PlanChoice bucketed(PlanPricer& pricer, const PricedPlan& eager,
                    const Gradients& gradients, const Rule& rule) {
  PlanChoice plan = eager.plan;
  plan.order.clear();
  plan.buckets =
      buckets_of(gradients, rule(bucket_program_of(gradients, pricer.costs())));
  return plan;
}

/// XLA's combiner joins whatever does not wait for each other, gradients or
/// not, and counts the bytes of results.
std::vector<ChosenBucket> combined_by_xla(const PlanPricer& pricer,
                                          const Gradients& gradients) {
  std::vector<Wave> alike = gradients.waves;
  for (const Gradients& key : by_key(gradients)) {
    Wave& slots = alike.emplace_back();
    for (const Gradient& gradient : key.list) slots.push_back(gradient.slot);
  }
  std::vector<ChosenBucket> buckets;
  for (const Wave& slots : alike) {
    BucketProgram program;
    for (const int32_t slot : slots) {
      const auto at = static_cast<size_t>(slot);
      program.gradients.push_back(
          {.bytes = align_up(pricer.ops().slots[at].output_bytes)});
    }
    const auto joined = buckets_of(slots, xla_borders(program));
    buckets.insert(buckets.end(), joined.begin(), joined.end());
  }
  return buckets;
}

/// What DDP and Horovod are about.
Gradients all_reduces(const PlanPricer& pricer, Gradients gradients) {
  std::erase_if(gradients.list, [&](const Gradient& gradient) {
    return pricer.ops().slots[static_cast<size_t>(gradient.slot)].kind !=
           CollectiveKind::kAllReduce;
  });
  return gradients;
}

Result<PricedPlanPtr> xla_plan(PlanPricer& pricer, int64_t ranks) {
  PlanChoice plan{.ranks = ranks};
  const auto tree = FusionTree::build(pricer.cache(), pricer.costs(),
                                      {.producers_only = true});
  if (!tree) return pass(tree.error());
  plan.fusion = tree->merged();
  auto eager = eager_plan(pricer, std::move(plan));
  if (!eager) return eager;
  PlanChoice choice = (*eager)->plan;
  choice.order.clear();
  choice.buckets = combined_by_xla(pricer, gradients_of(pricer, **eager));
  auto combined = eager_plan(pricer, std::move(choice));
  if (!combined) return combined;
  const auto graph =
      order_graph_of((*combined)->graph, alone_durations((*combined)->priced));
  if (!graph) return pass(graph.error());
  return pricer.reorder(**combined, schedule_by_critical_path(*graph).sequence);
}

/// Consecutive gradients of one key that are in one bucket so far.
struct Run {
  int64_t bytes = 0;
  size_t members = 0;
};

/// Runs of gradients, cut after gradient `i` where `closes(run, i)` says so or
/// where the key changes.
template <typename Closes>
std::vector<size_t> borders_where(const BucketProgram& program, Closes closes) {
  const std::vector<ReadyGradient>& gradients = program.gradients;
  std::vector<size_t> borders;
  Run run;
  for (size_t i = 0; i < gradients.size(); ++i) {
    run.bytes += gradients[i].bytes;
    run.members += 1;
    const bool ends =
        i + 1 == gradients.size() || gradients[i + 1].key != gradients[i].key;
    if (!closes(run, i) && !ends) continue;
    borders.push_back(i + 1);
    run = {};
  }
  return borders;
}

}  // namespace

const std::vector<std::string>& baseline_names() {
  static const std::vector<std::string> names{
      "none", "ddp", "horovod", "xla", "ddp+fusion", "horovod+fusion"};
  return names;
}

std::vector<GradientGroup> ddp_groups(const BucketProgram& program) {
  std::vector<SizedGradient> sizes;
  for (const ReadyGradient& each : program.gradients) {
    sizes.push_back({each.bytes, each.key});
  }
  return pytorch_buckets(sizes, kDdpCapsBytes);
}

std::vector<size_t> horovod_borders(const BucketProgram& program) {
  const auto& gradients = program.gradients;
  std::vector<size_t> borders;
  int64_t cycle = 0;
  for (size_t begin = 0; begin < gradients.size();) {
    if (gradients[begin].ready_ns >
        cycle) {  // Cycles tick on while nothing is ready.
      const int64_t behind = gradients[begin].ready_ns - cycle;
      cycle +=
          (behind + kHorovodCycle_ns - 1) / kHorovodCycle_ns * kHorovodCycle_ns;
    }
    int64_t busy_until = cycle;
    while (begin < gradients.size() && gradients[begin].ready_ns <= cycle) {
      int64_t bytes = 0;
      size_t end = begin;
      while (
          end < gradients.size() && gradients[end].ready_ns <= cycle &&
          gradients[end].key == gradients[begin].key &&
          (end == begin || bytes + gradients[end].bytes <= kHorovodCapBytes)) {
        bytes += gradients[end++].bytes;
      }
      busy_until += program.price_ns(bytes, gradients[begin].key);
      borders.push_back(end);
      begin = end;
    }
    cycle = std::max(cycle + kHorovodCycle_ns, busy_until);
  }
  return borders;
}

std::vector<size_t> xla_borders(const BucketProgram& program) {
  const std::vector<ReadyGradient>& gradients = program.gradients;
  return borders_where(program, [&](const Run& run, size_t i) {
    const int64_t next = i + 1 < gradients.size() ? gradients[i + 1].bytes : 0;
    return run.bytes + next > kXlaCapBytes || run.members >= kXlaMaxMembers;
  });
}

Result<PricedPlanPtr> make_baseline(PlanPricer& pricer, int64_t ranks,
                                    std::string_view name,
                                    const std::vector<ChosenGroup>& fusion) {
  PlanChoice plan{.ranks = ranks};
  if (name == "none") return pricer.price(std::move(plan));
  if (name == "xla") return xla_plan(pricer, ranks);
  const bool is_ddp = name == "ddp" || name == "ddp+fusion";
  if (!is_ddp && name != "horovod" && name != "horovod+fusion") {
    return fail(ErrorKind::kInvalid, "unknown baseline '{}'; known: {}", name,
                fmt::join(baseline_names(), ", "));
  }
  if (name.find("+fusion") != std::string_view::npos) plan.fusion = fusion;
  auto eager = eager_plan(pricer, std::move(plan));
  if (!eager) return eager;
  const Gradients gradients =
      all_reduces(pricer, gradients_of(pricer, **eager));
  return eager_plan(
      pricer, is_ddp ? bucketed(pricer, **eager, gradients, ddp_groups)
                     : bucketed(pricer, **eager, gradients, horovod_borders));
}

Result<Plan> baseline_plan(std::string_view name, const InlinedModule& inlined,
                           int64_t ranks, const CostModel& costs,
                           const Plan* fusion) {
  auto pricer = PlanPricer::make(inlined, costs);
  if (!pricer) return pass(pricer.error());
  std::vector<ChosenGroup> groups;
  if (fusion != nullptr) {
    Result<PlanChoice> given = bind_plan((*pricer)->ops(), *fusion);
    if (!given) return pass(given.error());
    groups = std::move(given->fusion);
  } else if (name.find("+fusion") != std::string_view::npos) {
    const auto tree = FusionTree::build((*pricer)->cache(), costs, {});
    if (!tree) return pass(tree.error());
    groups = tree->choose(costs, UnknownPrices::kLikeTheirWhole);
  }
  const auto baseline = make_baseline(**pricer, ranks, name, groups);
  if (!baseline) return pass(baseline.error());
  Plan plan = name_plan((*pricer)->ops(), (*baseline)->plan);
  plan.predicted.emplace();
  plan.predicted->step_time_ns = (*baseline)->step_time_ns;
  return plan;
}

}  // namespace reprise
