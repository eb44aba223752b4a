// The host calls of one rank by the correlation that ties device work to them.
// Profilers number calls one after the other, so a table by number finds each
// at once; numbers that lie far apart are sorted instead.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

class CallIndex {
 public:
  static constexpr uint32_t kNoCall = std::numeric_limits<uint32_t>::max();

  CallIndex() = default;
  /// Of all events of a rank, which stand at `first` in Trace::events.
  /// Cost: linear; O(n log n) where numbers lie far apart.
  CallIndex(std::span<const Event> events, uint32_t first);

  bool empty() const { return table_.empty() && sorted_.empty(); }
  /// The first call with that correlation, as its place in Trace::events.
  uint32_t of(int64_t correlation) const;

 private:
  int64_t least_ = 0;            ///< Correlation of table_[0].
  std::vector<uint32_t> table_;  ///< [correlation - least_], or kNoCall.
  /// In place of the table: correlation and call.
  std::vector<std::pair<int64_t, uint32_t>> sorted_;
};

}  // namespace reprise
