// Whose the calls of a host with several devices are.
#pragma once

#include <cstdint>
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

  /// The rank of a call's work; `otherwise` where that is not known.
  uint32_t rank_of(int64_t correlation, uint32_t otherwise) const;

  /// The rank that a thread launches for, where that is one alone: what else
  /// is on its line (waits, say) is this rank's too. Else the first. **Cost**
  /// linear in the line's events, where there are several devices.
  uint32_t owner_of(const Xplane& plane, const XplaneLine& line) const;

 private:
  std::vector<std::pair<int64_t, uint32_t>> ranks_;  ///< By correlation.
};

}  // namespace reprise
