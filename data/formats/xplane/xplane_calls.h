// Whose the calls of a host with several devices are.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "data/formats/xplane/xplane_proto.h"

namespace reprise {

class XplaneCalls {
 public:
  /// Device work of a rank, which a call of this correlation launched.
  void add(int64_t correlation, uint32_t rank) {
    ranks_.emplace_back(correlation, rank);
  }
  /// After the last one.
  void finish();

  /// The rank of a call's work; none where that is not known.
  std::optional<uint32_t> rank_of(int64_t correlation) const;

  /// Ranks first..last (exclusive).
  struct Owner {
    uint32_t first = 0, last = 1;
  };
  /// Whose what else is on a thread's line (waits, loading data) is: of the
  /// rank that it launches for, where that is one alone; of all `ranks`, where
  /// it marks the program's steps, as it drives them all; else of the first.
  /// **Cost** linear in the line's events, where there are several devices.
  Owner owner_of(const Xplane& plane, const XplaneLine& line,
                 uint32_t ranks) const;

 private:
  std::vector<std::pair<int64_t, uint32_t>> ranks_;  ///< By correlation.
};

}  // namespace reprise
