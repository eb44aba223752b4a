#include "cli/verify_output.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

std::string told_change_text(double change) {
  return std::isfinite(change) ? percent_text(change) : "any";
}

std::string confidence_text(double confidence) {
  return fmt::format("{:g} %", 100 * confidence);
}

/// JSON has no infinity.
Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json json_of(const SideSummary& side) {
  return {{"runs", side.runs},
          {"steps", side.steps},
          {"warmup_steps", side.warmup_steps},
          {"step_time_ns", std::llround(side.step_ns)},
          {"mean_ns", std::llround(side.mean_ns)},
          {"p90_ns", std::llround(side.p90_ns)},
          {"spread", side.spread}};
}

Json json_of(const PredictionGap& gap) {
  return {{"predicted_ns", std::llround(gap.predicted_ns)},
          {"pace_ns", std::llround(gap.pace_ns)},
          {"price_ns", std::llround(gap.price_ns)},
          {"structure_ns", std::llround(gap.structure_ns)},
          {"unexplained_ns", std::llround(gap.unexplained_ns)},
          {"measured_ns", std::llround(gap.measured_ns)}};
}

Json json_of(const VerifiedChange& all) {
  const RunComparison& told = all.comparison;
  Json json = {
      {"schema", "reprise.verify/1"},
      {"verdict", name_of(told.verdict)},
      {"confidence", all.confidence},
      {"change", told.change},
      {"interval", {number_or_null(told.low), number_or_null(told.high)}},
      {"speed_up", 1 / (1 + told.change)},
      {"detectable_change", number_or_null(told.detectable)},
      {"pace_drift", told.drift},
      {"by_reference", told.by_reference},
      {"before", json_of(told.before)},
      {"after", json_of(told.after)}};
  if (all.effect) {
    Json plan = {
        {"in_effect",
         all.effect->in_effect ? Json(*all.effect->in_effect) : Json()},
        {"told", all.effect->told}};
    if (all.predicted_speed_up)
      plan["predicted_speed_up"] = *all.predicted_speed_up;
    if (all.gap) plan["prediction"] = json_of(*all.gap);
    json["plan"] = std::move(plan);
  }
  json["remarks"] = told.remarks;
  return json;
}

Table table_of(const RunComparison& told) {
  Table table;
  table.headings = {"side", "runs",         "steps",     "warm-up",
                    "step", "between runs", "mean step", "90th of 100"};
  for (const auto& [name, side] :
       {std::pair("before", &told.before), std::pair("after", &told.after)}) {
    table.rows.push_back(
        {name, std::to_string(side->runs), std::to_string(side->steps),
         std::to_string(side->warmup_steps), duration_text(side->step_ns),
         side->runs > 1 ? share_text(side->spread) : "-",
         duration_text(side->mean_ns), duration_text(side->p90_ns)});
  }
  return table;
}

std::string number_text(double value) {
  return std::isfinite(value) ? fmt::format("{:g}", value) : std::string();
}

/// For other programs: as JSON names it, the verdict on the row of `after`.
Table rows_of(const VerifiedChange& all) {
  const RunComparison& told = all.comparison;
  Table table;
  table.headings = {"side",         "runs",   "steps",   "warmup_steps",
                    "step_time_ns", "spread", "mean_ns", "p90_ns",
                    "verdict",      "change", "low",     "high",
                    "confidence"};
  const auto row = [](const char* name, const SideSummary& side) {
    return std::vector<std::string>{name,
                                    std::to_string(side.runs),
                                    std::to_string(side.steps),
                                    std::to_string(side.warmup_steps),
                                    std::to_string(std::llround(side.step_ns)),
                                    number_text(side.spread),
                                    std::to_string(std::llround(side.mean_ns)),
                                    std::to_string(std::llround(side.p90_ns))};
  };
  table.rows = {row("before", told.before), row("after", told.after)};
  table.rows.front().resize(table.headings.size());
  for (const std::string& text :
       {std::string(name_of(told.verdict)), number_text(told.change),
        number_text(told.low), number_text(told.high),
        number_text(all.confidence)})
    table.rows.back().push_back(text);
  return table;
}

std::string verdict_text(const VerifiedChange& all) {
  const RunComparison& told = all.comparison;
  const std::string sure = confidence_text(all.confidence);
  if (told.verdict == Verdict::kNotComparable) return "not comparable\n";
  const std::string interval = fmt::format(
      "step {} [{}, {}] at {}", told_change_text(told.change),
      told_change_text(told.low), told_change_text(told.high), sure);
  const std::string shown = told.verdict == Verdict::kNoDifference
                                ? "no difference shown"
                                : std::string(name_of(told.verdict));
  return fmt::format(
      "{}: {}, {:.2f}x\nsuch runs show a change of {} or more{}\n", shown,
      interval, 1 / (1 + told.change),
      std::isfinite(told.detectable) ? share_text(told.detectable) : "no size",
      told.by_reference ? "; steps are divided by their references" : "");
}

std::string plan_text(const VerifiedChange& all) {
  const PlanEffect& effect = *all.effect;
  std::string text = fmt::format("plan {}: {}\n",
                                 !effect.in_effect   ? "not seen"
                                 : *effect.in_effect ? "in effect"
                                                     : "NOT in effect",
                                 effect.told);
  if (all.predicted_speed_up) {
    text +=
        fmt::format("predicted {:.2f}x, measured {:.2f}x\n",
                    *all.predicted_speed_up, 1 / (1 + all.comparison.change));
  }
  if (all.gap) {
    const PredictionGap& gap = *all.gap;
    const auto part = [&](double ns) {
      return percent_text(ns / gap.predicted_ns);
    };
    text += fmt::format(
        "step predicted {} from the run before, measured {}: pace of compute "
        "{}, price of transfers {}, buckets {}, unexplained {}\n",
        duration_text(gap.predicted_ns), duration_text(gap.measured_ns),
        part(gap.pace_ns), part(gap.price_ns), part(gap.structure_ns),
        part(gap.unexplained_ns));
  }
  return text;
}

}  // namespace

void print_verification(const VerifiedChange& all, Format format) {
  if (format != Format::kTable) {
    print_output(format, rows_of(all), json_of(all));
    return;
  }
  show("{}", verdict_text(all));
  if (all.effect) show("{}", plan_text(all));
  for (const std::string& remark : all.comparison.remarks) {
    show("{}\n", remark);
  }
  show("\n{}", table_text(table_of(all.comparison)));
}

}  // namespace reprise
