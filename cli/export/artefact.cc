#include "cli/export/artefact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "data/io/json_tree.h"
#include "data/io/printable_text.h"
#include "data/number_text.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// `text` in lines of a terminal's width, the later ones indented.
std::string wrapped(const std::string& prefix, std::string_view text) {
  constexpr size_t kWidth = 80;
  std::string lines = prefix;
  size_t width = prefix.size();
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (width + 1 + end > kWidth && width > prefix.size()) {
      lines += "\n" + prefix + "   ";
      width = prefix.size() + 3;
    } else if (width > prefix.size()) {
      lines += ' ';
      ++width;
    }
    lines += text.substr(0, end);
    width += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + "\n";
}

std::string trust_of(const Plan& plan) {
  const TracePlan& trace = *plan.trace;
  std::string text =
      "a model of one recorded run; compare runs of both sides by `reprise "
      "verify` before believing it.";
  if (trace.recorded_step_time_ns > 0 && trace.replayed_step_time_ns > 0) {
    const double error = static_cast<double>(trace.replayed_step_time_ns) /
                             static_cast<double>(trace.recorded_step_time_ns) -
                         1;
    text += fmt::format(
        " It gives the recorded step of {} as {}, {} off: gains below that are "
        "no claim.",
        time_text(trace.recorded_step_time_ns),
        time_text(trace.replayed_step_time_ns), percent_text(error));
  }
  return text;
}

}  // namespace

std::string comment_of(const Provenance& provenance,
                       const std::string& prefix) {
  std::string text;
  for (const auto& [key, value] :
       {std::pair("source", &provenance.source),
        std::pair("predicted", &provenance.predicted),
        std::pair("trust", &provenance.trust),
        std::pair("check", &provenance.check)}) {
    text += wrapped(prefix, fmt::format("{}: {}", key, printable_text(*value)));
  }
  return text;
}

Json json_of(const Provenance& provenance) {
  return {{"source", provenance.source},
          {"predicted", provenance.predicted},
          {"trust", provenance.trust},
          {"check", provenance.check}};
}

namespace {

/// "" where each gradient is in one bucket and none of these is empty, as every
/// target takes it; else what is not so.
std::string what_buckets_lack(const Plan& plan) {
  std::map<std::string_view, int64_t> times;
  int64_t bytes = 0;
  for (const PlannedGradient& each : plan.trace->gradients) {
    times[each.name] = 0;
    if (__builtin_add_overflow(bytes, each.bytes, &bytes)) {
      return "its gradients are of more than 2^63 bytes";
    }
  }
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.collectives.empty()) {
      return fmt::format("bucket {} is empty", bucket.unit);
    }
    for (const std::string& name : bucket.collectives) {
      const auto known = times.find(name);
      if (known == times.end()) {
        return fmt::format("bucket {} names no gradient: '{}'", bucket.unit,
                           name);
      }
      if (++known->second > 1) {
        return fmt::format("'{}' is in two buckets, the second {}", name,
                           bucket.unit);
      }
    }
  }
  if (times.empty()) return "it has no gradients";
  const auto left =
      std::find_if(times.begin(), times.end(),
                   [](const auto& each) { return each.second == 0; });
  return left == times.end() ? ""
                             : fmt::format("'{}' is in no bucket", left->first);
}

}  // namespace

Result<BucketPlan> load_bucket_plan(const std::string& path,
                                    const std::string& target) {
  Result<Plan> plan = load_plan(path);
  if (!plan) return pass(plan.error());
  const auto invalid = [&](const std::string& what) {
    return fail(ErrorKind::kInvalid,
                "{}: {}; --as {} takes a plan that `reprise optimize` made "
                "from an imported PyTorch trace",
                path, what, target);
  };
  if (!plan->trace) return invalid("the plan is of a program");
  if (!plan->predicted || plan->trace->single_cap_bytes <= 0) {
    return invalid("the plan states no prediction or no single cap");
  }
  const std::string lacking = what_buckets_lack(*plan);
  if (!lacking.empty()) return invalid(lacking);
  return BucketPlan{.plan = *std::move(plan), .path = path};
}

Provenance provenance_of(const BucketPlan& plan, std::string check,
                         bool single_cap) {
  const PlanPrediction& told = *plan.plan.predicted;
  const int64_t step_ns =
      single_cap ? plan.trace().single_cap_step_time_ns : told.step_time_ns;
  Provenance provenance;
  provenance.source = fmt::format(
      "{}, a plan of {} made of the trace {}", plan.path,
      plan.plan.made_by.empty() ? "unknown tool" : plan.plan.made_by,
      plan.trace().fingerprint);
  provenance.predicted = fmt::format("a step of {}", time_text(step_ns));
  const auto usual = told.baselines.find("ddp");
  if (usual != told.baselines.end() && step_ns > 0) {
    provenance.predicted += fmt::format(
        ", {:.2f}x as fast as PyTorch's default buckets ({})",
        static_cast<double>(usual->second) / static_cast<double>(step_ns),
        time_text(usual->second));
  }
  provenance.predicted += ".";
  provenance.trust = trust_of(plan.plan);
  provenance.check = std::move(check);
  return provenance;
}

std::string pretty(const Json& json) { return json_text(json, 1) + "\n"; }

Json mebibytes(const std::vector<int64_t>& sizes_bytes) {
  Json all = Json::array();
  for (const int64_t bytes : sizes_bytes) {
    all.push_back(static_cast<double>(bytes) / (1 << 20));
  }
  return all;
}

}  // namespace reprise
