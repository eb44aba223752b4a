// Which units threads share, and in how many parts: each unit that gains by it,
// where the step as a whole gains, too.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "data/parallel.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/part_trials.h"

namespace reprise {

/// Below this a unit is never shared. A part's start and end cost a few
/// microseconds where the others are awake, and some tens where they sleep.
inline constexpr double kWorthSharing_ns = 20'000;

/// Whether a unit that may be shared gains by it: its first runs are timed, in
/// parts and whole by turns, and again some after ever more runs: something
/// else may have had the cores the first time, as where a job starts. All units
/// of a step take the same turns, so each is timed among others like it. Parts
/// have the bits of the whole, so no result depends on what is found.
class UnitTrial {
 public:
  static constexpr uint32_t kRunsEach = 3, kRuns = 2 * kRunsEach;
  /// Runs from the first trial's begin to the next, and how much later each is.
  static constexpr uint32_t kFirstAgain = 30, kLaterBy = 10;
  /// Sharing takes the time of every core, so it must leave less than this
  /// share of the whole's time.
  static constexpr double kMostOfWhole = 0.8;

  bool is_over() const { return runs_ >= kRuns; }
  /// Of the next run, until the trial is over; then of all.
  bool in_parts() const { return is_over() ? gains_ : runs_ % 2 == 0; }
  void add(int64_t time_ns) {
    int64_t& least = least_ns_[runs_ % 2];
    least = std::min(least, time_ns);
    ++runs_;
    gains_ = static_cast<double>(least_ns_[0]) <
             kMostOfWhole * static_cast<double>(least_ns_[1]);
  }
  /// A run after the trial.
  void count_run() {
    if (++runs_ < again_) return;
    runs_ = 0;
    again_ *= kLaterBy;
    least_ns_.fill(std::numeric_limits<int64_t>::max());
  }

 private:
  uint64_t runs_ = 0, again_ = kFirstAgain;  ///< From a trial's begin.
  bool gains_ = false;
  std::array<int64_t, 2> least_ns_{std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::max()};
};

/// Whether the step gains by what its units share: a team that waits for the
/// next unit takes time of cores that are two threads of one, or empties their
/// caches, which no unit's own time shows. After the units' trials, steps with
/// sharing and without take turns, by rows that are long enough for a team to
/// fall asleep in (a millisecond or two). Long steps are left to the units'
/// trials: such losses are a few microseconds a unit.
class StepTrial {
 public:
  static constexpr uint32_t kFirst = UnitTrial::kRuns;  ///< Step.
  static constexpr uint32_t kRow = 40;                  ///< Steps.
  static constexpr uint32_t kUnjudged = 32;  ///< First steps of each row.
  static constexpr uint32_t kRows = 4;
  static constexpr int64_t kLong_ns = 1'000'000;
  /// Of the time without, that with sharing must leave less.
  static constexpr double kMostOfWhole = 0.9;

  bool is_over() const { return step_ >= kFirst + kRows * kRow; }
  /// In the next step, until the trial is over; then in all.
  bool shares() const {
    if (is_over()) return gains_;
    return step_ < kFirst || row() % 2 == 0;
  }
  void add(int64_t time_ns) {
    if (is_over()) return;
    if (step_ >= kFirst && (step_ - kFirst) % kRow >= kUnjudged)
      least_ns_[row() % 2] = std::min(least_ns_[row() % 2], time_ns);
    ++step_;
    if (step_ == kFirst + kRow && least_ns_[0] > kLong_ns) {
      step_ = kFirst + kRows * kRow;
      return;
    }
    gains_ = static_cast<double>(least_ns_[0]) <
             kMostOfWhole * static_cast<double>(least_ns_[1]);
  }

 private:
  uint32_t row() const { return (step_ - kFirst) / kRow; }

  uint32_t step_ = 0;
  bool gains_ = true;
  std::array<int64_t, 2> least_ns_{std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::max()};
};

/// The team of a rank; a unit may be shared by its estimate, so by the program
/// and plan alone. Whether it stays so, UnitTrial and StepTrial tell.
struct SharedWork {
  ThreadTeam* team = nullptr;  ///< Null: one thread.
  double worth_sharing_ns = kWorthSharing_ns;
  const StepTrial* steps = nullptr;  ///< Null where `team` is.
  PartTrials* trials = nullptr;      ///< Null where `team` is.

  /// In how many parts, at most `most`, something runs that takes one core so
  /// long; 1: whole.
  size_t parts(double estimate_ns, size_t most) const {
    if (team == nullptr || estimate_ns < worth_sharing_ns) return 1;
    return std::clamp<size_t>(most, 1, team->size());
  }

  /// Of one core, to an order of magnitude: memory at 10 bytes a nanosecond,
  /// dots at 50 flops, kernels at 2 (what a core with AVX2 does at least).
  static constexpr double kBytesPerNs = 10, kDotFlopsPerNs = 50,
                          kKernelFlopsPerNs = 2;
  static double estimate_ns(const Unit& unit) {
    return std::max(
        unit.bytes / kBytesPerNs,
        unit.flops / (unit.kind == UnitKind::kLibrary ? kDotFlopsPerNs
                                                      : kKernelFlopsPerNs));
  }
};

/// Something in parts, which the threads of a team share where that gains.
class SharedParts {
 public:
  SharedParts() = default;  ///< It runs whole.
  SharedParts(const SharedWork& work, size_t parts)
      : SharedParts(work, std::vector<size_t>{parts}) {}
  /// Parts of stages that run one after the other, those of each at once.
  SharedParts(const SharedWork& work, std::vector<size_t> stages)
      : team_(work.team),
        steps_(work.steps),
        stages_(std::move(stages)),
        count_(std::accumulate(stages_.begin(), stages_.end(), size_t{0})) {}

  size_t count() const { return count_; }
  /// Never in parts.
  bool is_whole() const { return count_ <= stages_.size(); }

  /// Runs `part(i)` for each i below count(), or `whole()`; true if all that
  /// ran returned true.
  template <typename Whole, typename Part>
  bool run(const Whole& whole, const Part& part) {
    if (is_whole() || !steps_->shares()) return whole();
    const bool in_parts = trial_.in_parts();
    if (trial_.is_over()) {
      trial_.count_run();
      return in_parts ? run_parts(part) : whole();
    }
    const auto start = std::chrono::steady_clock::now();
    const bool ran = in_parts ? run_parts(part) : whole();
    trial_.add((std::chrono::steady_clock::now() - start).count());
    return ran;
  }

 private:
  template <typename Part>
  bool run_parts(const Part& part) {
    std::atomic<bool> ran{true};
    size_t first = 0;
    for (const size_t parts : stages_) {
      const auto run = [&](size_t i) {
        if (!part(first + i)) ran.store(false, std::memory_order_relaxed);
      };
      if (parts == 1) {
        run(0);
      } else {
        team_->run(parts, run);
      }
      first += parts;
    }
    return ran;
  }

  ThreadTeam* team_ = nullptr;
  const StepTrial* steps_ = nullptr;
  std::vector<size_t> stages_{1};
  size_t count_ = 1;
  UnitTrial trial_;
};

}  // namespace reprise
