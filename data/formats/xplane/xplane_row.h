// One event of an XLA profile with its times, name and the statistics that say
// what it is.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_proto.h"
#include "data/trace/trace.h"

namespace reprise {

/// The known statistics of one event and of its metadata.
class XplaneStats {
 public:
  void clear() { known_.reset(); }
  void set(const XplaneStatValue& value) {
    const auto place = static_cast<size_t>(value.stat);
    values_[place] = value;
    known_.set(place, value.stat != XplaneStat::kOther);
  }
  bool has(XplaneStat stat) const {
    return known_.test(static_cast<size_t>(stat));
  }
  int64_t number(XplaneStat stat, int64_t fallback) const {
    return has(stat) ? values_[static_cast<size_t>(stat)].number : fallback;
  }
  std::string_view text(XplaneStat stat) const {
    return has(stat) ? values_[static_cast<size_t>(stat)].text
                     : std::string_view();
  }

 private:
  std::array<XplaneStatValue, kXplaneStats> values_;
  std::bitset<kXplaneStats> known_;
};

struct XplaneRow {
  Event event;  ///< Its times and correlation.
  std::string_view name;
  std::string_view text;  ///< All of the op's HLO, where it is named by that.
  XplaneStats stats;
  XplaneEvent raw;
};

/// Decodes an XEvent into `row`, whose memory is used again; counts and
/// refuses those without sound times. Picoseconds are rounded down, start and
/// end alike, so that what touched still touches.
bool read_xplane_row(const Xplane& plane, const XplaneLine& line,
                     std::string_view bytes, XplaneRow& row,
                     FileReport& report);

/// Of an event on a device's stream: kCompute, kCopy or kMemset, as its
/// statistics say, else its name.
EventKind xplane_work_kind(const XplaneRow& row);
/// Bytes of a copy or set; 0 if unknown.
int64_t xplane_moved_bytes(const XplaneRow& row);

/// By which op and program the event came, as a JSON object; empty if unknown.
std::string xplane_attributes(const XplaneStats& stats);

}  // namespace reprise
