#include "optimizer/ddp/ddp_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "data/number_text.h"
#include "optimizer/ddp/ddp_arguments.h"
#include "optimizer/ddp/ddp_timeline.h"

namespace reprise {
namespace {

using ShapeAndBytes = std::pair<std::string, int64_t>;  // Shape and bytes.

std::map<ShapeAndBytes, int> counted(const std::vector<ShapeAndBytes>& all) {
  std::map<ShapeAndBytes, int> counts;
  for (const ShapeAndBytes& each : all) ++counts[each];
  return counts;
}

std::vector<ShapeAndBytes> shapes_of(const TracePlan& trace) {
  std::vector<ShapeAndBytes> all;
  for (const PlannedGradient& each : trace.gradients) {
    all.emplace_back(each.shape, each.bytes);
  }
  return all;
}

std::vector<ShapeAndBytes> shapes_of(const DdpRecording& recording) {
  std::vector<ShapeAndBytes> all;
  for (const DdpGradient& each : recording.gradients) {
    all.emplace_back(each.shape, each.bytes);
  }
  return all;
}

std::vector<int64_t> bytes_of(const DdpRecording& recording) {
  return caps_of(recording.gradients, recording.buckets);
}

std::string first_difference(const std::vector<int64_t>& planned,
                             const std::vector<int64_t>& seen) {
  for (size_t i = 0; i < std::max(planned.size(), seen.size()); ++i) {
    if (i >= seen.size()) {
      return fmt::format("bucket {} is missing: {} were planned, {} seen", i,
                         planned.size(), seen.size());
    }
    if (i >= planned.size()) {
      return fmt::format("bucket {} was not planned: {} were, {} are seen", i,
                         planned.size(), seen.size());
    }
    if (planned[i] == seen[i]) continue;
    return fmt::format("bucket {} has {} where {} are planned", i,
                       bytes_text(static_cast<double>(seen[i])),
                       bytes_text(static_cast<double>(planned[i])));
  }
  return {};
}

/// The plan's buckets as sizes of the recording's gradients in their own order
/// of readiness, which is how DDP fills them.
std::vector<DdpBucket> planned_buckets(const Plan& plan,
                                       const std::vector<DdpGradient>& all) {
  std::map<std::string, int64_t> bytes;
  for (const PlannedGradient& each : plan.trace->gradients) {
    bytes[each.name] = each.bytes;
  }
  std::vector<int64_t> caps;
  for (const Bucket& bucket : plan.buckets) {
    int64_t sum = 0;
    for (const std::string& name : bucket.collectives) sum += bytes[name];
    caps.push_back(std::max<int64_t>(sum, 1));
  }
  return caps.empty() ? std::vector<DdpBucket>() : ddp_buckets(all, caps);
}

}  // namespace

Result<BucketEffect> bucket_effect(const Plan& plan, const std::string& path,
                                   const DdpRecording& rerun) {
  const Result<DdpArguments> arguments = ddp_arguments(plan, path);
  if (!arguments) return pass(arguments.error());
  BucketEffect effect;
  effect.seen_bytes = bytes_of(rerun);
  effect.same_gradients =
      counted(shapes_of(*plan.trace)) == counted(shapes_of(rerun));
  effect.difference =
      first_difference(arguments->bucket_bytes, effect.seen_bytes);
  effect.in_effect = effect.same_gradients && effect.difference.empty();
  effect.as_single_cap =
      !effect.in_effect && effect.same_gradients &&
      effect.seen_bytes == arguments->single_cap_bucket_bytes;
  return effect;
}

PredictionGap explain_prediction(const Plan& plan, const DdpRecording& before,
                                 const DdpRecording& rerun) {
  const DdpModel was = ddp_model(before), is = ddp_model(rerun);
  const auto step_ns = [&](const DdpModel& model) {
    return simulate_buckets(model, planned_buckets(plan, model.gradients))
        .step_ns;
  };
  PredictionGap gap;
  gap.predicted_ns = step_ns(was);
  DdpModel paced = is;
  paced.price = was.price;
  paced.workers = was.workers;
  paced.collective_slowdown = was.collective_slowdown;
  const double with_pace = step_ns(paced), with_price = step_ns(is);
  const double with_buckets = simulate_buckets(is, rerun.buckets).step_ns;
  gap.pace_ns = with_pace - gap.predicted_ns;
  gap.price_ns = with_price - with_pace;
  gap.structure_ns = with_buckets - with_price;
  gap.measured_ns = static_cast<double>(rerun.step_time_ns);
  gap.unexplained_ns = gap.measured_ns - with_buckets;
  return gap;
}

}  // namespace reprise
