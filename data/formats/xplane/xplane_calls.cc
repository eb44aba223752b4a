#include "data/formats/xplane/xplane_calls.h"

#include <algorithm>

#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_row.h"

namespace reprise {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

}  // namespace

void XplaneCalls::finish() { std::sort(ranks_.begin(), ranks_.end()); }

uint32_t XplaneCalls::rank_of(int64_t correlation, uint32_t otherwise) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(),
                                      std::pair(correlation, uint32_t{0}));
  const bool known = found != ranks_.end() && found->first == correlation;
  return known ? found->second : otherwise;
}

uint32_t XplaneCalls::owner_of(const Xplane& plane,
                               const XplaneLine& line) const {
  uint32_t owner = kNobody;
  XplaneRow row;
  FileReport uncounted;
  XplaneEvents events(line);
  for (std::string_view one; !ranks_.empty() && events.next(one);) {
    if (!read_xplane_row(plane, line, one, row, uncounted)) continue;
    const uint32_t rank = rank_of(row.event.correlation, kNobody);
    if (rank == kNobody || rank == owner) continue;
    if (owner != kNobody) return 0;
    owner = rank;
  }
  return owner == kNobody ? 0 : owner;
}

}  // namespace reprise
