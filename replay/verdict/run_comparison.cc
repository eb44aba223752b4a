#include "replay/verdict/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include "replay/verdict/run_drift.h"
#include "replay/verdict/steady_state.h"
#include "replay/verdict/students_t.h"

namespace reprise {
namespace {

/// Steps that are resampled in all: a few seconds.
constexpr double kMostWork = 1e8;
constexpr size_t kMostDraws = 1000, kFewestDraws = 100;
/// Fewer of a run behind its warm-up say nothing of what is typical.
constexpr size_t kFewestSteps = 5;
/// A drift shows that runs without one would show as rarely as this.
constexpr double kDriftShows = 0.01;

/// A run behind its warm-up, divided by its references where all have some.
struct SettledRun {
  std::vector<double> steps;
  double log_step = 0, place = 0;
  size_t warmup = 0, block = 1;
};

struct Side {
  std::vector<SettledRun> runs;
  size_t steps() const {
    size_t all = 0;
    for (const SettledRun& run : runs) all += run.steps.size();
    return all;
  }
  double log_step() const {
    double sum = 0;
    for (const SettledRun& run : runs) sum += run.log_step;
    return sum / static_cast<double>(runs.size());
  }
};

/// The warm-up that most runs have: they do the same, and one that is cut in
/// some and left in others makes these differ.
size_t common_warmup(const std::vector<StepRun>& before,
                     const std::vector<StepRun>& after) {
  std::vector<size_t> cuts;
  for (const auto* runs : {&before, &after}) {
    for (const StepRun& run : *runs) cuts.push_back(warmup_steps(run.step_ns));
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts[(cuts.size() - 1) / 2];
}

/// Cuts its own warm-up, or `warmup` where it is long enough for that.
SettledRun settled(const StepRun& run, size_t warmup, bool by_reference) {
  SettledRun result;
  const size_t count = run.step_ns.size();
  const size_t spare = count > 2 * kFewestSteps ? count - 2 * kFewestSteps : 0;
  result.warmup =
      std::max(warmup_steps(run.step_ns), std::min({warmup, count / 2, spare}));
  for (size_t i = result.warmup; i < run.step_ns.size(); ++i) {
    result.steps.push_back(by_reference ? run.step_ns[i] / run.reference_ns[i]
                                        : run.step_ns[i]);
  }
  result.block = block_length(result.steps);
  return result;
}

Side settled(const std::vector<StepRun>& runs, size_t warmup,
             bool by_reference) {
  Side side;
  for (const StepRun& run : runs) {
    side.runs.push_back(settled(run, warmup, by_reference));
  }
  return side;
}

/// A side's value under resampling: its variance and degrees of freedom.
struct Uncertainty {
  double variance = 0, freedom = 1;
};

double variance_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / (count - 1);
}

class Resampler {
 public:
  Resampler(double trim, uint64_t seed) : trim_(trim), random_(seed) {}

  /// Of single runs' values, summed over them.
  double variance_within(const Side& side) {
    const auto draws = static_cast<size_t>(std::clamp(
        kMostWork / 10 / static_cast<double>(side.steps()), 20.0, 100.0));
    double sum = 0;
    for (const SettledRun& run : side.runs) {
      std::vector<double> values;
      for (size_t i = 0; i < draws; ++i) values.push_back(draw(run));
      sum += variance_of(values);
    }
    return sum;
  }

  Uncertainty of(const Side& side) {
    const auto count = static_cast<double>(std::max(side.steps(), size_t{1}));
    const auto draws = static_cast<size_t>(
        std::clamp(kMostWork / count, static_cast<double>(kFewestDraws),
                   static_cast<double>(kMostDraws)));
    std::vector<double> values;
    for (size_t i = 0; i < draws; ++i) values.push_back(draw(side));
    // Of one run its blocks are what there are several of.
    const SettledRun& first = side.runs.front();
    const auto units = static_cast<double>(
        side.runs.size() > 1
            ? side.runs.size()
            : std::max(first.steps.size() / first.block, size_t{2}));
    return {.variance = variance_of(values) * units / (units - 1),
            .freedom = units - 1};
  }

 private:
  /// Below `bound`, the same on every machine.
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  double draw(const Side& side) {
    double sum = 0;
    for (size_t i = 0; i < side.runs.size(); ++i) {
      sum += draw(side.runs[below(side.runs.size())]);
    }
    return sum / static_cast<double>(side.runs.size());
  }

  double draw(const SettledRun& run) {
    std::vector<double> steps;
    const size_t count = run.steps.size();
    steps.reserve(count);
    while (steps.size() < count) {
      const size_t start = below(count - run.block + 1);
      const size_t length = std::min(run.block, count - steps.size());
      const auto from = run.steps.begin() + static_cast<std::ptrdiff_t>(start);
      steps.insert(steps.end(), from,
                   from + static_cast<std::ptrdiff_t>(length));
    }
    return std::log(trimmed_mean(std::move(steps), trim_));
  }

  double trim_;
  std::mt19937_64 random_;
};

/// Leaves out of each run what makes them all most certain: more where steps
/// come late, less where they have two paces, as the middle of them jumps from
/// one to the other. It follows how steps vary within runs, never which run is
/// slower.
/// Source: Jaeckel, "Some flexible estimates of location", Annals of
/// Mathematical Statistics 42 (1971).
double trim(Side& before, Side& after, uint64_t seed) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const double share : {0.25, 0.1, 0.05, 0.4}) {
    Resampler resampler(share, seed);
    const double variance =
        resampler.variance_within(before) + resampler.variance_within(after);
    if (variance >= least) continue;
    best = share;
    least = variance;
  }
  for (Side* side : {&before, &after}) {
    for (SettledRun& run : side->runs)
      run.log_step = std::log(trimmed_mean(run.steps, best));
  }
  return best;
}

bool all_have_references(const std::vector<StepRun>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const StepRun& run) {
    return !run.reference_ns.empty();
  });
}

SideSummary summary_of(const std::vector<StepRun>& runs, const Side& side,
                       double trim) {
  SideSummary summary{.runs = runs.size(), .steps = side.steps()};
  std::vector<double> all;
  double logs = 0, squares = 0;
  const double middle = side.log_step();
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t cut = side.runs[i].warmup;
    summary.warmup_steps += cut;
    const std::vector<double> steps(
        runs[i].step_ns.begin() + static_cast<std::ptrdiff_t>(cut),
        runs[i].step_ns.end());
    all.insert(all.end(), steps.begin(), steps.end());
    logs += std::log(trimmed_mean(steps, trim));
    const double off = side.runs[i].log_step - middle;
    squares += off * off;
  }
  const auto count = static_cast<double>(runs.size());
  summary.step_ns = std::exp(logs / count);
  if (runs.size() > 1) summary.spread = std::sqrt(squares / (count - 1));
  summary.mean_ns = std::accumulate(all.begin(), all.end(), 0.0) /
                    static_cast<double>(all.size());
  std::sort(all.begin(), all.end());
  summary.p90_ns = all[(all.size() * 9 + 9) / 10 - 1];  // Nearest rank.
  return summary;
}

/// Places of runs in time: their recorded starts, else the order as given.
void place_runs(const std::vector<StepRun>& before,
                const std::vector<StepRun>& after, bool alternating,
                Side& before_side, Side& after_side) {
  const auto timed = [](const StepRun& run) { return run.start_ns >= 0; };
  const bool known = std::all_of(before.begin(), before.end(), timed) &&
                     std::all_of(after.begin(), after.end(), timed);
  const auto place = [&](const std::vector<StepRun>& runs, Side& side,
                         double first, double stride) {
    for (size_t i = 0; i < runs.size(); ++i) {
      side.runs[i].place = known
                               ? static_cast<double>(runs[i].start_ns -
                                                     before.front().start_ns) /
                                     1e9
                               : first + stride * static_cast<double>(i);
    }
  };
  const auto gap = static_cast<double>(before.size());
  place(before, before_side, 0, alternating ? 2 : 1);
  place(after, after_side, alternating ? 1 : gap, alternating ? 2 : 1);
}

std::vector<PlacedRun> placed(const Side& side) {
  std::vector<PlacedRun> runs;
  for (const SettledRun& run : side.runs) {
    runs.push_back({run.place, run.log_step});
  }
  return runs;
}

/// Why the sides cannot be compared at all; "" where they can.
std::string obstacle(const std::vector<StepRun>& before,
                     const std::vector<StepRun>& after, const Side& before_side,
                     const Side& after_side, bool by_reference) {
  std::set<std::string> programs;
  std::set<int64_t> ranks;
  for (const auto* runs : {&before, &after}) {
    for (const StepRun& run : *runs) {
      if (!run.program.empty()) programs.insert(run.program);
      if (run.ranks > 0) ranks.insert(run.ranks);
    }
  }
  if (programs.size() > 1) {
    return fmt::format("The runs are of different programs: {} and {}.",
                       *programs.begin(), *std::next(programs.begin()));
  }
  if (ranks.size() > 1) {
    return fmt::format("The runs are of different numbers of ranks: {} and {}.",
                       *ranks.begin(), *std::next(ranks.begin()));
  }
  if (std::min(before.size(), after.size()) < 2 && !by_reference) {
    return "One run a side says nothing about the next one: give several, or "
           "a reference of the machine's pace beside each step.";
  }
  for (const auto& [runs, side] :
       {std::pair(&before, &before_side), std::pair(&after, &after_side)}) {
    for (size_t i = 0; i < runs->size(); ++i) {
      if (side->runs[i].steps.size() >= kFewestSteps) continue;
      return fmt::format("{} has {} steps behind its warm-up, {} are too few.",
                         (*runs)[i].name, side->runs[i].steps.size(),
                         kFewestSteps - 1);
    }
  }
  return {};
}

double ratio_of(double logarithm) { return std::expm1(logarithm); }

/// A change and how sure it is, in logarithms.
struct Estimate {
  double change = 0, error = 0, freedom = 1;
};

/// The interval's half, and how much more a change must be to leave it as
/// often.
std::pair<double, double> widths_of(const Estimate& estimate,
                                    double confidence) {
  const StudentsT chance(std::max(estimate.freedom, 1.0));
  return {
      estimate.error * boost::math::quantile(chance, 1 - (1 - confidence) / 2),
      estimate.error * boost::math::quantile(chance, confidence)};
}

Verdict verdict_of(double low, double high) {
  if (high < 0) return Verdict::kFaster;
  return low > 0 ? Verdict::kSlower : Verdict::kNoDifference;
}

/// What runs vary by at least. A few may all have met the same of two paces by
/// chance: where no order of them is as rare as the confidence asks (as the
/// permutations of two sides are), what changes of pace within runs promise for
/// the next run counts beside what these runs show.
double least_variance(const Side& before, const Side& after,
                      double confidence) {
  double rarest = 2;  // Of all ways to part the runs, two separate them.
  for (size_t i = 1; i <= after.runs.size(); ++i) {
    rarest *=
        static_cast<double>(i) / static_cast<double>(before.runs.size() + i);
  }
  const size_t runs = before.runs.size() + after.runs.size();
  if (rarest <= 1 - confidence || runs <= 2) return 0;
  std::vector<std::span<const double>> all;
  for (const Side* side : {&before, &after}) {
    for (const SettledRun& run : side->runs) all.emplace_back(run.steps);
  }
  return pace_variance(all);
}

Estimate resampled_change(const Side& before, const Side& after, double trim,
                          double least, uint64_t seed) {
  Resampler resampler(trim, seed);
  Uncertainty one = resampler.of(before), other = resampler.of(after);
  one.variance =
      std::max(one.variance, least / static_cast<double>(before.runs.size()));
  other.variance =
      std::max(other.variance, least / static_cast<double>(after.runs.size()));
  const double variance = one.variance + other.variance;
  const double parts = one.variance * one.variance / one.freedom +
                       other.variance * other.variance / other.freedom;
  return {.change = after.log_step() - before.log_step(),
          .error = std::sqrt(variance),
          .freedom = parts > 0 ? variance * variance / parts
                               : std::min(one.freedom, other.freedom)};
}

/// An interval of the change, in logarithms, and what would leave it as often.
struct Span {
  double low = 0, high = 0, detectable = 0;
};

Span span_of(const DriftFit& drift, double confidence) {
  const double rest = (1 - confidence) / 2;
  Span span{.low = change_quantile(drift, rest),
            .high = change_quantile(drift, 1 - rest)};
  span.detectable = (span.high - span.low + change_quantile(drift, confidence) -
                     change_quantile(drift, 1 - confidence)) /
                    2;
  return span;
}

Span span_of(const Estimate& estimate, double confidence) {
  const auto [width, often] = widths_of(estimate, confidence);
  return {.low = estimate.change - width,
          .high = estimate.change + width,
          .detectable = width + often};
}

/// Where a drift shows, the change beside it is what counts; where none does,
/// the interval holds both estimates, with a drift and without one.
void decide(const Estimate& plain, const DriftFit& drift, double confidence,
            RunComparison& result) {
  Span span = span_of(plain, confidence);
  const Verdict without_drift = verdict_of(span.low, span.high);
  const bool shows = drift.fits && drift.chance < kDriftShows;
  if (drift.fits) {
    const Span beside = span_of(drift, confidence);
    span = shows ? beside
                 : Span{.low = std::min(span.low, beside.low),
                        .high = std::max(span.high, beside.high),
                        .detectable =
                            std::max(span.detectable, beside.detectable)};
  }
  if (shows) {
    result.change = ratio_of(drift.change);
    result.drift = ratio_of(plain.change - drift.change);
    result.remarks.push_back(fmt::format(
        "The machine's pace drifts over the runs: {:+.1f} % from one side's "
        "middle to the other's; the change is what is left beside it.",
        100 * result.drift));
  }
  result.low = ratio_of(span.low);
  result.high = ratio_of(span.high);
  result.detectable = ratio_of(span.detectable);
  result.verdict = verdict_of(span.low, span.high);
  if (result.verdict == Verdict::kNoDifference &&
      without_drift != Verdict::kNoDifference) {
    result.verdict = Verdict::kNotComparable;
    result.remarks.push_back(
        "Steps differ, but a drift of the machine's pace may be all of it: "
        "take runs of both sides in turn.");
  }
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kNoDifference:
      return "no difference";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kNotComparable:
      return "not comparable";
  }
  return {};
}

RunComparison compare_runs(const std::vector<StepRun>& before,
                           const std::vector<StepRun>& after,
                           const ComparisonOptions& options) {
  RunComparison result;
  result.by_reference =
      all_have_references(before) && all_have_references(after);
  const size_t warmup = common_warmup(before, after);
  Side before_side = settled(before, warmup, result.by_reference);
  Side after_side = settled(after, warmup, result.by_reference);
  const double share = trim(before_side, after_side, options.seed);
  result.before = summary_of(before, before_side, share);
  result.after = summary_of(after, after_side, share);
  result.change = ratio_of(after_side.log_step() - before_side.log_step());
  result.low = -1;
  result.high = result.detectable = std::numeric_limits<double>::infinity();
  const std::string why =
      obstacle(before, after, before_side, after_side, result.by_reference);
  if (!why.empty()) {
    result.remarks.push_back(why);
    return result;
  }
  place_runs(before, after, options.alternating, before_side, after_side);
  const double least =
      least_variance(before_side, after_side, options.confidence);
  decide(resampled_change(before_side, after_side, share, least, options.seed),
         fit_drift(placed(before_side), placed(after_side), least),
         options.confidence, result);
  return result;
}

}  // namespace reprise
