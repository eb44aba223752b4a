#include "cli/optimize_imported.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/open_trace.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "data/file.h"
#include "optimizer/ddp/ddp_plan.h"
#include "optimizer/ddp/ddp_recording.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;
using Points = std::vector<std::pair<double, double>>;

/// Size of an all-reduce among `ranks`, from "collective:all-reduce:2:4096:f32"
/// (data/formats/nccl_names.h); 0 of any other key.
double point_bytes(const std::string& key, size_t ranks) {
  const std::string start = fmt::format("collective:all-reduce:{}:", ranks);
  if (!key.starts_with(start)) return 0;
  const std::string size = key.substr(start.size());
  return std::strtod(size.c_str(), nullptr);
}

Result<Points> known_points(const std::string& path, size_t ranks) {
  Points points;
  if (path.empty()) return points;
  const Result<Trace> costs = read_trace_shown(path);
  if (!costs) {
    return pass(costs.error(),
                "--costs of an imported trace is a trace imported from "
                "nccl-tests' output");
  }
  for (const Measurement& each : costs->measurements) {
    const double bytes = point_bytes(each.key, ranks);
    if (bytes <= 0 || each.median_ns <= 0 || each.context != "nccl-tests") {
      continue;
    }
    if (!points.empty() && points.back().first >= bytes) continue;
    points.emplace_back(bytes, static_cast<double>(each.median_ns));
  }
  if (points.empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: no times of all-reduces among {} ranks", path, ranks);
  }
  return points;
}

/// What transfers cost: known, or between two ends.
struct DdpPrices {
  DdpModel one, other;
  bool are_ends = false;
};

/// Of what is not known adds a note.
DdpPrices prices_of(DdpRecording& recording, const Points& points) {
  const DdpModel model = ddp_model(recording, points);
  DdpPrices prices{.one = model, .other = model};
  if (!points.empty()) return prices;
  const bool lacks_ranks = recording.group_size > recording.ranks;
  const double size = recording.gradients.size() > 1 ? only_size(recording) : 0;
  prices.are_ends = lacks_ranks || size > 0;
  if (size > 0) {
    recording.notes.push_back(fmt::format(
        "all-reduces of one size were recorded ({}): what of their {} a "
        "further one costs, and what its bytes, is {}; record buckets of "
        "several sizes, under another cap",
        bytes_text(size), duration_text(model.price.price_ns(size)),
        lacks_ranks ? "a guess"
                    : "not known, so prices are bounds and predictions "
                      "ranges"));
    if (!lacks_ranks)
      std::tie(prices.one, prices.other) = price_ends(recording, model);
  }
  if (lacks_ranks) prices.other = with_least_price(recording, model);
  return prices;
}

class Report {
 public:
  Report(const DdpRecording& recording, const DdpPrices& prices,
         const DdpSearch& search)
      : recording_(recording),
        model_(prices.one),
        prices_(prices),
        search_(search) {
    recorded_ = simulate_buckets(model_, recording.buckets).step_ns;
  }

  double gap() const {
    const double bound_ns = search_.lower_bound_ns;
    return bound_ns > 0 ? (search_.plan.most_ns() - bound_ns) / bound_ns : 0;
  }

  /// Said where the prices are far from what they were fitted to.
  void warn_of_prices() const {
    constexpr double kFar = 0.1;
    const auto recorded = static_cast<double>(recording_.step_time_ns);
    const double off = recorded > 0 ? recorded_ / recorded - 1 : 0;
    if (std::abs(off) <= kFar) return;
    tell(
        "reprise optimize: the recorded buckets took {} and are predicted to "
        "take {} ({:+.0f} %): hold the rows against each other, not against "
        "the recording; were ranks sharing cores, or steps few and uneven?\n",
        time_text(recording_.step_time_ns), duration_text(recorded_),
        100 * off);
  }

  void tell_what_is_kept() const {
    if (!search_.unclaimed) {
      if (prices_.are_ends &&
          search_.plan.buckets == search_.baselines.back().buckets)
        tell(
            "reprise optimize: the recorded buckets are kept: no others are "
            "faster at both ends of the prices\n");
      return;
    }
    tell(
        "reprise optimize: the recorded buckets are kept: they took {} and are "
        "predicted to take {}, the fastest found ({}) {}: too little to "
        "claim\n",
        time_text(recording_.step_time_ns), duration_text(recorded_),
        search_.unclaimed->buckets.size(),
        duration_text(search_.unclaimed->step_ns));
  }

  void explain() const {
    tell(
        "{} gradients, {}; compute {:.3f}x slower beside transfers, "
        "transfers {:.3f}x slower beside compute\n"
        "all-reduce: {} ({:.1f} % residual), up to {} at a time\n"
        "recorded buckets: {} recorded, {} predicted\n",
        model_.gradients.size(), bytes_text(total_bytes()),
        model_.compute_slowdown, model_.collective_slowdown, prices_text(),
        100 * model_.price.residual, model_.workers,
        time_text(recording_.step_time_ns), duration_text(recorded_));
  }

  std::string prices_text() const {
    if (!prices_.are_ends) return price_text(model_.price);
    const auto [low, high] =
        std::minmax(prices_.one.price, prices_.other.price,
                    [](const CollectivePrice& a, const CollectivePrice& b) {
                      return a.latency_ns < b.latency_ns;
                    });
    return price_text(low) + " or " + price_text(high);
  }

  /// Sizes that are alike, or jitter above them, tell no bandwidth.
  std::string price_text(const CollectivePrice& price) const {
    const std::string latency = duration_text(price.latency_ns);
    constexpr double kTold = 0.01;  // Of the latency, by all gradients at once.
    if (total_bytes() / price.bandwidth_bytes_per_s * 1e9 <
        kTold * price.latency_ns) {
      return latency +
             " whatever its size: the recorded sizes tell no bandwidth";
    }
    return fmt::format("{} + {}/s", latency,
                       bytes_text(price.bandwidth_bytes_per_s));
  }

  Table table() const {
    Table table;
    table.headings = {"configuration", "buckets", "predicted",
                      "plan is faster by"};
    for (const DdpSetting* each : settings()) {
      const auto [low, high] = speed_ups(*each);
      table.rows.push_back(
          {shown_name(*each), std::to_string(each->buckets.size()),
           between(duration_text(each->least_ns()),
                   duration_text(each->most_ns())),
           between(fmt::format("{:.2f}x", low), fmt::format("{:.2f}x", high))});
    }
    table.rows.push_back({"lower bound", "",
                          duration_text(search_.lower_bound_ns),
                          fmt::format("gap {:.1f} %", 100 * gap())});
    return table;
  }

  /// For other programs: as JSON names it; a bound is no configuration's.
  Table rows() const {
    Table table;
    table.headings = {"configuration",      "buckets",      "step_time_ns",
                      "least_step_time_ns", "speed_up_low", "speed_up_high"};
    for (const DdpSetting* each : settings()) {
      const auto [low, high] = speed_ups(*each);
      table.rows.push_back(
          {shown_name(*each), std::to_string(each->buckets.size()),
           std::to_string(std::llround(each->most_ns())),
           std::to_string(std::llround(each->least_ns())),
           fmt::format("{:g}", low), fmt::format("{:g}", high)});
    }
    table.rows.push_back({"lower bound", "",
                          std::to_string(std::llround(search_.lower_bound_ns)),
                          "", "", ""});
    return table;
  }

  int64_t recorded_ns() const { return std::llround(recorded_); }

  Json json(double seconds) const {
    Json all = all_but_range(seconds);
    if (search_.plan.least_ns() != search_.plan.most_ns()) {
      all["predicted"]["least_step_time_ns"] =
          std::llround(search_.plan.least_ns());
    }
    return all;
  }

 private:
  Json all_but_range(double seconds) const {
    Json baselines = Json::object(), counts = Json::object();
    for (const DdpSetting& each : search_.baselines) {
      baselines[each.name] = std::llround(each.most_ns());
      counts[each.name] = each.buckets.size();
    }
    Json buckets = Json::array();
    for (const int64_t bytes :
         caps_of(model_.gradients, search_.plan.buckets)) {
      buckets.push_back(bytes);
    }
    return {{"schema", "reprise.optimize/1"},
            {"predicted",
             {{"step_time_ns", std::llround(search_.plan.most_ns())},
              {"baselines", std::move(baselines)},
              {"baseline_buckets", std::move(counts)},
              {"lower_bound_ns", std::llround(search_.lower_bound_ns)},
              {"gap", gap()}}},
            {"recorded",
             {{"step_time_ns", recording_.step_time_ns},
              {"predicted_step_time_ns", std::llround(recorded_)},
              {"steps", recording_.steps.size()}}},
            {"buckets_bytes", std::move(buckets)},
            {"single_cap",
             {{"bytes", search_.single_cap.caps_bytes.front()},
              {"buckets", search_.single_cap.buckets.size()},
              {"step_time_ns", std::llround(search_.single_cap.most_ns())}}},
            {"price",
             {{"latency_ns", std::llround(model_.price.latency_ns)},
              {"bandwidth_bytes_per_s", model_.price.bandwidth_bytes_per_s},
              {"residual", model_.price.residual},
              {"compute_slowdown", model_.compute_slowdown},
              {"collective_slowdown", model_.collective_slowdown},
              {"concurrent", model_.workers}}},
            {"search",
             {{"seconds", seconds}, {"evaluations", search_.evaluations}}},
            {"log", recording_.notes}};
  }

  double total_bytes() const {
    double bytes = 0;
    for (const DdpGradient& each : model_.gradients) {
      bytes += static_cast<double>(each.bytes);
    }
    return bytes;
  }

  /// The table's configurations, the plan last.
  std::vector<const DdpSetting*> settings() const {
    std::vector<const DdpSetting*> all;
    for (const DdpSetting& each : search_.baselines) all.push_back(&each);
    all.push_back(&search_.single_cap);
    all.push_back(&search_.plan);
    return all;
  }

  std::string shown_name(const DdpSetting& setting) const {
    return (&setting == &search_.single_cap ? "best cap: " : "") + setting.name;
  }

  /// By how much the plan is faster, at the worse end of prices and the better.
  std::pair<double, double> speed_ups(const DdpSetting& setting) const {
    return std::minmax({setting.step_ns / search_.plan.step_ns,
                        setting.other_step_ns / search_.plan.other_step_ns});
  }

  static std::string between(const std::string& least,
                             const std::string& most) {
    return least == most ? most : least + " to " + most;
  }

  const DdpRecording& recording_;
  const DdpModel& model_;
  const DdpPrices& prices_;
  const DdpSearch& search_;
  double recorded_ = 0;
};

Plan plan_of(const DdpModel& model, const DdpSearch& search, size_t ranks,
             double gap) {
  Plan plan;
  plan.trace.emplace();
  plan.ranks = static_cast<int64_t>(ranks);
  for (const DdpGradient& each : model.gradients) {
    plan.trace->gradients.push_back({.name = each.name,
                                     .type = each.type,
                                     .shape = each.shape,
                                     .bytes = each.bytes});
  }
  plan.trace->single_cap_bytes = search.single_cap.caps_bytes.front();
  plan.trace->single_cap_step_time_ns =
      std::llround(search.single_cap.most_ns());
  for (const DdpBucket& bucket : search.plan.buckets) {
    Bucket planned{.unit = fmt::format("b{}", plan.buckets.size()),
                   .collectives = {}};
    for (const uint32_t gradient : bucket.gradients) {
      planned.collectives.push_back(model.gradients[gradient].name);
    }
    plan.buckets.push_back(std::move(planned));
  }
  plan.predicted.emplace();
  plan.predicted->step_time_ns = std::llround(search.plan.most_ns());
  plan.predicted->lower_bound_ns = std::llround(search.lower_bound_ns);
  plan.predicted->gap = gap;
  for (const DdpSetting& each : search.baselines) {
    plan.predicted->baselines[each.name] = std::llround(each.most_ns());
  }
  plan.evaluations = search.evaluations;
  plan.made_by = "reprise " REPRISE_VERSION;
  return plan;
}

}  // namespace

Status optimize_imported(Trace trace, const ImportedSearch& options) {
  const auto start = std::chrono::steady_clock::now();
  Result<DdpRecording> recording = ddp_recording(trace);
  if (!recording) return pass(recording.error(), options.trace_path);
  const Result<Points> points =
      known_points(options.costs_path, recording->ranks);
  if (!points) return pass(points.error());
  const DdpPrices prices = prices_of(*recording, *points);
  ProgressLine line;
  DdpSearch search =
      prices.are_ends
          ? search_buckets_between(prices.one, prices.other, recording->buckets,
                                   line.watcher())
          : search_buckets(prices.one, line.watcher());
  line.erase();
  keep_recorded(prices.one, prices.other, recording->buckets,
                recording->step_time_ns, search);
  const Report report(*recording, prices, search);
  Plan plan = plan_of(prices.one, search, recording->ranks, report.gap());
  const auto device = trace.ranks.front().device;
  plan.device = device.empty() ? "cpu" : device;
  plan.trace->recorded_step_time_ns = recording->step_time_ns;
  plan.trace->replayed_step_time_ns = report.recorded_ns();
  plan.trace->fingerprint = "sha256:" + options.trace_sha256;
  const Status written = write_file_atomically(
      options.plan_path, print_plan(plan), options.existing);
  if (!written) return written;
  for (const std::string& note : recording->notes) {
    tell("reprise optimize: {}\n", note);
  }
  report.warn_of_prices();
  report.tell_what_is_kept();
  if (options.explain) report.explain();
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  print_output(options.format,
               options.format == Format::kCsv ? report.rows() : report.table(),
               report.json(seconds.count()));
  return {};
}

}  // namespace reprise
