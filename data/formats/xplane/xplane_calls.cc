#include "data/formats/xplane/xplane_calls.h"

#include <algorithm>

#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_row.h"

namespace reprise {

void XplaneCalls::finish() { std::sort(ranks_.begin(), ranks_.end()); }

std::optional<uint32_t> XplaneCalls::rank_of(int64_t correlation) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(),
                                      std::pair(correlation, uint32_t{0}));
  if (found == ranks_.end() || found->first != correlation) return std::nullopt;
  return found->second;
}

XplaneCalls::Owner XplaneCalls::owner_of(const Xplane& plane,
                                         const XplaneLine& line,
                                         uint32_t ranks) const {
  std::optional<uint32_t> owner;
  bool of_several = false, marks_steps = false;
  XplaneRow row;
  FileReport uncounted;
  XplaneEvents events(line);
  for (std::string_view one; !ranks_.empty() && events.next(one);) {
    if (!read_xplane_row(plane, line, one, row, uncounted)) continue;
    marks_steps |= row.stats.has(XplaneStat::kStepNumber);
    const auto rank = rank_of(row.event.correlation);
    of_several |= rank && owner && *rank != *owner;
    if (rank) owner = rank;
  }
  if (owner && !of_several) return {*owner, *owner + 1};
  return marks_steps ? Owner{0, ranks} : Owner{};
}

}  // namespace reprise
