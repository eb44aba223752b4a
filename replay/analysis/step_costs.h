// What each key of a run costs in a step: sums by key and step, and their
// medians.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/trace/trace.h"
#include "replay/analysis/device_work.h"

namespace reprise {

/// Of one key in one run: medians over its steps of the mean over ranks.
struct StepCost {
  int64_t time_ns = 0;
  double count = 0;
  int64_t mean_ns = 0;  ///< Over its steps.
  int64_t steps = 0;    ///< In how many of them it occurs at all.
  /// Of time_ns, that of collectives until their last rank came.
  int64_t wait_ns = 0;
  /// Of what occurs in fewer than half of the steps medians show nothing.
  bool is_occasional() const { return count <= 0 && steps > 0; }
};
using StepCosts = std::map<std::string, StepCost>;

/// Memory: of each key, of the steps in which it occurs.
class CostTable {
 public:
  /// Of its steps that are no warm-up; a trace without steps is one.
  explicit CostTable(const Trace& trace);

  bool marked() const { return marked_; }
  size_t steps() const { return steps_.size(); }

  /// Place of the step that `event` belongs to, or of that number; -1: of none
  /// that counts.
  int64_t place_of(const RankWork& work, const DeviceEvent& event) const;
  int64_t place_of(int32_t step) const;

  uint32_t key(const std::string& text);
  /// A step of -1 is left out.
  void add(uint32_t key, int64_t step, int64_t time_ns);
  /// Part of what was added.
  void add_wait(uint32_t key, int64_t step, int64_t wait_ns);

  StepCosts medians(size_t ranks) const;

 private:
  struct Cell {
    int64_t step = 0, time_ns = 0, count = 0, wait_ns = 0;
  };
  Cell& cell(uint32_t key, int64_t step);
  StepCost median_of(const std::vector<Cell>& cells, int64_t ranks) const;

  std::map<int32_t, size_t> steps_;
  bool marked_ = false;
  std::map<std::string, uint32_t> keys_;
  std::vector<std::vector<Cell>> cells_;  ///< [key], by step.
};

}  // namespace reprise
