// Writes a loop of the entry anew without some of its products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "data/hlo/loop_body.h"
#include "data/hlo/module.h"

namespace reprise {

/// A while of the entry whose state is a tuple that nothing else reads.
struct CountedLoop {
  InstructionId loop{};
  ComputationId condition{}, body{};
  size_t counter = 0;
  int64_t trips = 0;
};

/// Which row of an array a step has.
struct RowIndex {
  StepPlace place;
  InstructionId index{};  ///< Of the body.
};

/// An element of the state to which steps add a product, seen through views.
struct SumSink {
  size_t element = 0;
  std::vector<InstructionId> views;  ///< From the product on.
};

/// A matrix in a product.
struct Factor {
  InstructionId value{};
  int64_t contracting = 0;
};

/// A product that steps only add to elements of the state.
struct LeavingSum {
  InstructionId product{};
  Factor lhs, rhs;  ///< Not transposed.
  RowIndex at;      ///< Of its factors' rows.
  std::vector<SumSink> sinks;
};

/// A product with weights whose rows the loop only keeps.
struct LeavingKept {
  InstructionId product{};
  size_t element = 0;
  RowIndex at;
};

/// A product of a row that the loop reads with weights.
struct LeavingRead {
  InstructionId product{};
  RowIndex at;
};

/// A value of which every step leaves a row in an array of its own.
struct LoopRows {
  InstructionId value{};
  RowIndex at;
};

/// A value, and the sign of the place of its rows: there are two places.
using RowKey = std::pair<InstructionId, int64_t>;

/// Ids are of LoopBody's body; none is named twice.
struct LeavingProducts {
  std::vector<LeavingSum> sums;
  std::vector<LeavingKept> kept;
  std::vector<LeavingRead> read;
  std::map<RowKey, LoopRows> rows;

  bool empty() const { return sums.empty() && kept.empty() && read.empty(); }
};

/// Whether a condition reads nothing of the state but the counter.
bool reads_counter_alone(const Computation& condition, const CountedLoop& loop);

/// Sums and kept rows lose their elements of the state, rows and products that
/// are read get new ones at its end. Returns the loop's new place in the entry.
/// Requires: all that reads the loop picks an element.
InstructionId rewrite_loop(const LoopBody& body, const LeavingProducts& leaving,
                           const CountedLoop& loop, Module* module);

}  // namespace reprise
