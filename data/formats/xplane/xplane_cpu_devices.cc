#include "data/formats/xplane/xplane_cpu_devices.h"

#include <algorithm>
#include <set>

#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_row.h"

namespace reprise {
namespace {

/// A host has a few devices; more are a damaged file's.
constexpr size_t kMostCpuDevices = 4096;

}  // namespace

CpuDevices::CpuDevices(const std::vector<std::string_view>& hosts) {
  std::set<int64_t> found;
  XplaneRow row;
  FileReport uncounted;
  for (const std::string_view bytes : hosts) {
    const Xplane plane = decode_xplane(bytes);
    for (const std::string_view line_bytes : plane.lines) {
      const XplaneLine line = decode_xplane_line(line_bytes);
      XplaneEvents events(line);
      for (std::string_view one; events.next(one);) {
        if (!read_xplane_row(plane, line, one, row, uncounted)) continue;
        const int64_t ordinal =
            row.stats.number(XplaneStat::kDeviceOrdinal, -1);
        if (ordinal < 0 || !row.stats.has(XplaneStat::kHloOp)) continue;
        if (found.size() < kMostCpuDevices) found.insert(ordinal);
      }
    }
  }
  ordinals_.assign(found.begin(), found.end());
}

uint32_t CpuDevices::place_of(int64_t ordinal) const {
  const auto found =
      std::lower_bound(ordinals_.begin(), ordinals_.end(), ordinal);
  const bool known = found != ordinals_.end() && *found == ordinal;
  return known ? static_cast<uint32_t>(found - ordinals_.begin()) : 0;
}

std::vector<uint32_t> CpuDevices::places(const Xplane& plane,
                                         const XplaneLine& line) const {
  struct Span {
    int64_t start_ns = 0, end_ns = 0;
  };
  std::vector<int64_t> ordinals;
  std::vector<Span> spans;
  XplaneRow row;
  FileReport uncounted;
  XplaneEvents events(line);
  for (std::string_view one; events.next(one);) {
    const bool sound = read_xplane_row(plane, line, one, row, uncounted);
    ordinals.push_back(sound ? row.stats.number(XplaneStat::kDeviceOrdinal, -1)
                             : -1);
    spans.push_back(sound ? Span{row.event.start_ns, row.event.end_ns}
                          : Span{});
  }
  std::vector<size_t> next(ordinals.size() + 1, ordinals.size());
  for (size_t at = ordinals.size(); at-- > 0;) {
    next[at] = ordinals[at] >= 0 ? at : next[at + 1];
  }
  std::vector<uint32_t> places;
  places.reserve(ordinals.size());
  for (size_t at = 0; at < ordinals.size(); ++at) {
    const size_t inner = next[at];
    const bool holds =
        inner < ordinals.size() &&
        (inner == at || spans[inner].start_ns < spans[at].end_ns);
    places.push_back(holds    ? place_of(ordinals[inner])
                     : at > 0 ? places.back()
                              : 0);
  }
  return places;
}

}  // namespace reprise
