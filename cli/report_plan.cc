// The report of a plan: predicted beside its baselines and its bound, and its
// buckets beside those of PyTorch's rule.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cli/report/charts.h"
#include "cli/report_pages.h"

namespace reprise {
namespace {

void add_prediction(const Plan& plan, ReportPage& page) {
  if (!plan.predicted) return;
  const PlanPrediction& predicted = *plan.predicted;
  BarChart chart;
  chart.title = "Predicted step time";
  const auto row = [&](const std::string& name, int64_t time_ns) {
    if (time_ns <= 0) return;
    chart.rows.push_back(
        {name, time_text(time_ns), {static_cast<double>(time_ns)}});
  };
  if (plan.trace) row("as recorded", plan.trace->replayed_step_time_ns);
  for (const auto& [name, time_ns] : predicted.baselines) row(name, time_ns);
  if (plan.trace) row("best single cap", plan.trace->single_cap_step_time_ns);
  row("plan", predicted.step_time_ns);
  chart.mark = static_cast<double>(predicted.lower_bound_ns);
  chart.mark_label = "lower bound";
  page.figures.push_back({"prediction", bar_chart_svg(chart)});
  page.sections.push_back(
      {"Prediction",
       "<figure id=\"prediction\">" + page.figures.back().svg +
           "<figcaption>No plan of these units can be faster than the bound; "
           "search tried " +
           std::to_string(plan.evaluations) + " plans (seed " +
           std::to_string(plan.seed) + ").</figcaption></figure>"});
}

void add_search(const Plan& plan, ReportPage& page) {
  if (plan.searched.empty() || !plan.predicted) return;
  SearchPlot plot;
  plot.title = "Search: the best plan so far";
  plot.across = "plans tried";
  for (const SearchedPlan& each : plan.searched) {
    plot.points.push_back({static_cast<double>(each.evaluations),
                           static_cast<double>(each.step_time_ns)});
  }
  plot.last_x = static_cast<double>(plan.evaluations);
  plot.chosen = static_cast<double>(plan.predicted->step_time_ns);
  plot.bound = static_cast<double>(plan.predicted->lower_bound_ns);
  page.figures.push_back({"search", search_plot_svg(plot)});
  page.sections.push_back(
      {"Search",
       "<figure id=\"search\">" + page.figures.back().svg +
           "<figcaption>Predicted step time of the plan that was best, over "
           "the plans that were tried. Best is judged with and without mutual "
           "slow-down, so the line may rise; a plan that gains less than 3 % "
           "is not taken. The bound holds for all buckets and orders under "
           "the plan's fusion and prices.</figcaption></figure>"});
}

/// PyTorch's rule: a bucket closes when its size reaches the cap, 1 MiB first,
/// then 25 MiB. Source: c10d's compute_bucket_assignment_by_size.
std::vector<std::vector<size_t>> ddp_buckets(const std::vector<double>& sizes) {
  constexpr double kFirst = 1 << 20, kLater = 25 << 20;
  std::vector<std::vector<size_t>> buckets;
  double sum = 0;
  bool closed = true;
  for (size_t place = 0; place < sizes.size(); ++place) {
    if (closed) {
      buckets.emplace_back();
      sum = 0;
    }
    buckets.back().push_back(place);
    sum += sizes[place];
    closed = sum >= (buckets.size() == 1 ? kFirst : kLater);
  }
  return buckets;
}

void add_buckets(const Plan& plan, ReportPage& page) {
  std::map<std::string, size_t> places;
  std::vector<double> sizes;
  if (plan.trace) {
    for (const PlannedGradient& gradient : plan.trace->gradients) {
      places.try_emplace(gradient.name, sizes.size());
      sizes.push_back(static_cast<double>(gradient.bytes));
    }
  } else {
    for (const Bucket& bucket : plan.buckets) {
      for (const std::string& name : bucket.collectives) {
        if (places.try_emplace(name, sizes.size()).second) sizes.push_back(1);
      }
    }
  }
  if (sizes.empty()) return;
  std::vector<Strip> strips;
  if (plan.trace) {
    strips.push_back({"before: DDP's rule", sizes, ddp_buckets(sizes)});
  }
  Strip planned = {plan.trace ? "after: this plan" : "this plan", sizes, {}};
  Table table;
  table.headings = {"bucket", "tensors", "bytes", "chunks"};
  for (const Bucket& bucket : plan.buckets) {
    double bytes = 0;
    std::vector<size_t>& members = planned.boxes.emplace_back();
    for (const std::string& name : bucket.collectives) {
      const auto place = places.find(name);
      if (place == places.end()) continue;
      members.push_back(place->second);
      bytes += sizes[place->second];
    }
    table.rows.push_back(
        {bucket.unit, std::to_string(bucket.collectives.size()),
         plan.trace ? bytes_text(bytes) : "-", std::to_string(bucket.chunks)});
  }
  strips.push_back(std::move(planned));
  page.figures.push_back(
      {"buckets", strips_svg("Buckets before and after", strips)});
  page.sections.push_back(
      {"Buckets", "<figure id=\"buckets\">" + page.figures.back().svg +
                      "<figcaption>Tensors in the order in which they are "
                      "ready, as wide as their bytes where these are known; "
                      "a colour is a bucket.</figcaption></figure>" +
                      table_html(table)});
}

}  // namespace

ReportPage plan_report(const Plan& plan, const std::string& path) {
  ReportPage page;
  page.title = "Reprise: " + path;
  page.verdict = fmt::format("A plan of {} buckets and {} fused units",
                             plan.buckets.size(), plan.fusion.size());
  if (plan.predicted) {
    const PlanPrediction& predicted = *plan.predicted;
    page.verdict +=
        fmt::format(": predicted {} a step", time_text(predicted.step_time_ns));
    const auto worst = predicted.baselines.find("ddp");
    if (worst != predicted.baselines.end() && predicted.step_time_ns > 0) {
      page.verdict +=
          fmt::format(", {:.2f}x as fast as DDP's buckets",
                      static_cast<double>(worst->second) /
                          static_cast<double>(predicted.step_time_ns));
    }
    page.verdict +=
        fmt::format(", {} above its lower bound", share_text(predicted.gap));
  }
  add_prediction(plan, page);
  add_search(plan, page);
  add_buckets(plan, page);
  return page;
}

}  // namespace reprise
