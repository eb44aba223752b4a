// Reads the dynamic program's input off a replayed plan: a gradient is ready
// when the unit that makes it ends. The time of each late unit (an update)
// counts for the gradient, among those that it waits for, that is ready last.
#include "optimizer/buckets/gradients.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Compute unit that runs each op, and one collective unit that carries each
/// collective.
struct UnitOfOp {
  std::vector<uint32_t> compute, collective;  ///< [instruction], or kNone.
};

UnitOfOp unit_of_op(const Schedule& schedule, size_t instructions) {
  UnitOfOp of{std::vector<uint32_t>(instructions, kNone),
              std::vector<uint32_t>(instructions, kNone)};
  for (uint32_t unit = 0; unit < schedule.units.size(); ++unit) {
    const bool is_collective =
        schedule.units[unit].kind == UnitKind::kCollective;
    auto& table = is_collective ? of.collective : of.compute;
    for (const InstructionId op : schedule.units[unit].ops) {
      if (table[index_of(op)] == kNone) table[index_of(op)] = unit;
    }
  }
  return of;
}

/// Which of the samples, taken so far, such a unit may share a bucket with;
/// adds it if none.
uint32_t key_of(const Unit& unit, PrimitiveType type,
                std::vector<Unit>& samples) {
  const auto same = [&](const Unit& sample) {
    return sample.collective.type == type &&
           sample.collective.kind == unit.collective.kind &&
           sample.collective.reduction == unit.collective.reduction &&
           sample.collective.groups == unit.collective.groups;
  };
  const auto found = std::find_if(samples.begin(), samples.end(), same);
  const auto key = static_cast<uint32_t>(found - samples.begin());
  if (found == samples.end()) {
    samples.push_back(unit);
    samples.back().collective.type = type;
  }
  return key;
}

/// Adds the time of late units to the gradient, of those that they wait for,
/// that is ready last.
void add_updates(const PricedPlan& plan, const OpGraph& ops,
                 const std::vector<uint32_t>& gradient_of_value,
                 Gradients& gradients) {
  const Schedule& schedule = plan.schedule;
  std::vector<int64_t> latest(schedule.units.size(), -1);
  for (uint32_t unit = 0; unit < schedule.units.size(); ++unit) {
    if (plan.graph.is_early[unit] ||
        schedule.units[unit].stream != Stream::kCompute)
      continue;
    for (const uint32_t before : plan.graph.before[unit]) {
      latest[unit] = std::max(latest[unit], latest[before]);
    }
    for (const InstructionId op : schedule.units[unit].ops) {
      for (const InstructionId value : ops.inputs[index_of(op)]) {
        const uint32_t gradient = gradient_of_value[index_of(value)];
        if (gradient != kNone)
          latest[unit] = std::max<int64_t>(latest[unit], gradient);
      }
    }
    if (latest[unit] < 0) continue;
    gradients.list[static_cast<size_t>(latest[unit])].figures.update_ns +=
        static_cast<int64_t>(plan.priced.duration_ns[unit] +
                             plan.priced.dispatch_ns);
  }
}

/// A collective that may share a bucket, and the value that it leaves.
struct Found {
  Gradient gradient;
  InstructionId value = kNoInstruction;
  uint32_t unit = 0;
};

/// By ready time, ties in text order, with their keys; readiness from `times`.
std::vector<Found> find_collectives(const PricedPlan& plan, const OpGraph& ops,
                                    const std::vector<UnitTime>& times,
                                    std::vector<Unit>& samples) {
  const UnitOfOp of = unit_of_op(plan.schedule, ops.role.size());
  std::vector<Found> found;
  for (size_t i = 0; i < ops.slots.size(); ++i) {
    const CollectiveSlot& slot = ops.slots[i];
    const uint32_t unit = of.collective[index_of(slot.collective)];
    if (unit == kNone) continue;
    if (!facts_of(slot.kind).shares_buckets) continue;
    Gradient gradient{static_cast<int32_t>(i), {}};
    gradient.figures.bytes = payload_bytes(slot);
    const InstructionId producer = ops.producer[index_of(slot.input)];
    if (producer != kNoInstruction && of.compute[index_of(producer)] != kNone) {
      gradient.figures.ready_ns = times[of.compute[index_of(producer)]].end_ns;
    }
    gradient.figures.key =
        key_of(plan.schedule.units[unit], slot.type, samples);
    found.push_back({gradient, slot.output, unit});
  }
  std::stable_sort(
      found.begin(), found.end(), [](const Found& a, const Found& b) {
        return a.gradient.figures.ready_ns < b.gradient.figures.ready_ns;
      });
  return found;
}

std::vector<Wave> waves_of(const StepGraph& graph,
                           const std::vector<Found>& found) {
  std::map<std::pair<uint32_t, uint32_t>, Wave> by_depth;
  for (const Found& each : found) {
    if (graph.is_gradient[each.unit]) continue;
    by_depth[{graph.depth[each.unit], each.gradient.figures.key}].push_back(
        each.gradient.slot);
  }
  std::vector<Wave> waves;
  for (auto& [place, wave] : by_depth) {
    if (wave.size() > 1) waves.push_back(std::move(wave));
  }
  return waves;
}

}  // namespace

Gradients gradients_of(const PlanPricer& pricer, const PricedPlan& plan) {
  const OpGraph& ops = pricer.ops();
  const Replay replay = replay_step(plan.priced);
  const auto& times = replay.times.front();
  Gradients gradients;
  const std::vector<Found> found =
      find_collectives(plan, ops, times, gradients.samples);
  gradients.waves = waves_of(plan.graph, found);
  std::vector<uint32_t> gradient_of_value(ops.role.size(), kNone);
  for (const Found& each : found) {
    if (!plan.graph.is_gradient[each.unit]) continue;
    if (each.value != kNoInstruction) {
      gradient_of_value[index_of(each.value)] =
          static_cast<uint32_t>(gradients.list.size());
    }
    gradients.list.push_back(each.gradient);
  }
  for (uint32_t unit = 0; unit < times.size(); ++unit) {
    if (!plan.graph.is_early[unit] ||
        plan.schedule.units[unit].stream != Stream::kCompute) {
      continue;
    }
    gradients.compute_free_ns =
        std::max(gradients.compute_free_ns, times[unit].end_ns);
  }
  add_updates(plan, ops, gradient_of_value, gradients);
  return gradients;
}

std::vector<Gradients> by_key(const Gradients& gradients) {
  std::vector<Gradients> all(gradients.samples.size());
  for (Gradients& each : all) {
    each.compute_free_ns = gradients.compute_free_ns;
    each.samples = gradients.samples;
  }
  for (const Gradient& gradient : gradients.list)
    all[gradient.figures.key].list.push_back(gradient);
  std::erase_if(all, [](const Gradients& each) { return each.list.empty(); });
  return all;
}

std::vector<Gradients> runs_of_keys(const Gradients& gradients) {
  std::vector<Gradients> keys = by_key(gradients);
  size_t runs = 0;
  uint32_t last = kNone;
  for (const Gradient& gradient : gradients.list) {
    if (std::exchange(last, gradient.figures.key) != last) ++runs;
  }
  if (runs > keys.size()) return keys;
  return {gradients};
}

BucketProgram bucket_program_of(const Gradients& gradients,
                                const CostModel& costs) {
  BucketProgram program;
  for (const Gradient& gradient : gradients.list)
    program.gradients.push_back(gradient.figures);
  program.compute_free_ns = gradients.compute_free_ns;
  std::vector<const CollectivePrice*> prices;
  for (const Unit& sample : gradients.samples)
    prices.push_back(costs.find_collective(sample));
  program.price_ns = [prices](int64_t bytes, uint32_t key) {
    return prices[key] == nullptr ? int64_t{0}
                                  : static_cast<int64_t>(prices[key]->price_ns(
                                        static_cast<double>(bytes)));
  };
  return program;
}

std::vector<ChosenBucket> buckets_of(const Gradients& gradients,
                                     const std::vector<size_t>& borders) {
  std::vector<int32_t> slots;
  for (const Gradient& gradient : gradients.list)
    slots.push_back(gradient.slot);
  return buckets_of(slots, borders);
}

std::vector<ChosenBucket> buckets_of(std::span<const int32_t> slots,
                                     const std::vector<size_t>& borders) {
  std::vector<ChosenBucket> buckets;
  size_t begin = 0;
  for (const size_t end : borders) {
    const auto members = slots.subspan(begin, end - begin);
    if (members.size() > 1)
      buckets.push_back({.slots = {members.begin(), members.end()}});
    begin = end;
  }
  return buckets;
}

std::vector<ChosenBucket> buckets_of(const Gradients& gradients,
                                     const std::vector<GradientGroup>& groups) {
  std::vector<ChosenBucket> buckets;
  for (const GradientGroup& group : groups) {
    if (group.size() < 2) continue;
    ChosenBucket& bucket = buckets.emplace_back();
    for (const uint32_t i : group) {
      bucket.slots.push_back(gradients.list[i].slot);
    }
  }
  return buckets;
}

std::vector<ChosenBucket> wave_buckets(const Gradients& gradients,
                                       const PlanChoice& plan) {
  const auto is_within = [](const ChosenBucket& bucket, const Wave& wave) {
    return std::ranges::all_of(bucket.slots, [&](int32_t slot) {
      return std::ranges::find(wave, slot) != wave.end();
    });
  };
  std::vector<ChosenBucket> buckets = plan.buckets;
  std::erase_if(buckets, [&](const ChosenBucket& bucket) {
    return std::ranges::none_of(gradients.waves, [&](const Wave& wave) {
      return is_within(bucket, wave);
    });
  });
  return buckets;
}

}  // namespace reprise
