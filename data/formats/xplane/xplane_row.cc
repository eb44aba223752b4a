#include "data/formats/xplane/xplane_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "data/io/json_text.h"

namespace reprise {
namespace {

/// Picoseconds before or behind nanoseconds, rounded down; empty when out of
/// range.
std::optional<int64_t> time_ns(int64_t base_ns, int64_t picoseconds) {
  int64_t ns = picoseconds / 1000;
  if (picoseconds % 1000 < 0) --ns;
  if (__builtin_add_overflow(base_ns, ns, &ns)) return std::nullopt;
  return ns;
}

/// `word`123 in "kind:Unknown size:655360 dest:2", or 0.
int64_t detail_behind(std::string_view details, std::string_view word) {
  const size_t at = details.find(word);
  if (at == details.npos) return 0;
  int64_t number = 0;
  std::from_chars(details.data() + at + word.size(),
                  details.data() + details.size(), number);
  return std::max<int64_t>(number, 0);
}

bool starts_like_a_copy(std::string_view name) {
  return name.starts_with("Memcpy") || name.starts_with("memcpy") ||
         name.starts_with("CopyDeviceTo") || name.starts_with("CopyHostTo");
}

void take_stats(const Xplane& plane, const std::vector<std::string_view>& stats,
                XplaneRow& row) {
  for (const std::string_view bytes : stats) row.stats.set(plane.stat(bytes));
}

/// The short name of an op whose name is all of its HLO text.
std::string_view name_of(const XplaneEventMetadata& metadata) {
  const bool whole = metadata.name.starts_with('%') || metadata.name.empty();
  if (whole && !metadata.display_name.empty()) return metadata.display_name;
  const size_t type = metadata.name.find(" = ");
  return whole && type != metadata.name.npos ? metadata.name.substr(1, type - 1)
                                             : metadata.name;
}

}  // namespace

bool read_xplane_row(const Xplane& plane, const XplaneLine& line,
                     std::string_view bytes, XplaneRow& row,
                     FileReport& report) {
  XplaneEvent& raw = row.raw;
  decode_xplane_event(bytes, raw);
  row.event = Event{};
  row.stats.clear();
  if (raw.damaged) {
    ++report.dropped["damaged event"];
    return false;
  }
  if (raw.counted) {
    ++report.ignored["count without a time"];
    return false;
  }
  int64_t end_ps = 0;
  const bool sound =
      raw.duration_ps >= 0 &&
      !__builtin_add_overflow(raw.offset_ps, raw.duration_ps, &end_ps);
  const auto start = time_ns(line.timestamp_ns, raw.offset_ps);
  const auto end = time_ns(line.timestamp_ns, end_ps);
  constexpr int64_t kLatest = std::numeric_limits<int64_t>::max() / 4;
  if (!sound || !start || !end || *start < 0 || *end > kLatest) {
    ++report.dropped["time out of range"];
    return false;
  }
  row.event.start_ns = row.event.enqueue_ns = *start;
  row.event.end_ns = *end;
  const XplaneEventMetadata* metadata = plane.find(raw.metadata);
  row.name = metadata == nullptr ? "unnamed" : name_of(*metadata);
  row.text = {};
  if (metadata != nullptr && metadata->name.starts_with('%'))
    row.text = metadata->name;
  if (metadata != nullptr) take_stats(plane, metadata->stats, row);
  take_stats(plane, raw.stats, row);
  row.event.correlation =
      std::max<int64_t>(-1, row.stats.number(XplaneStat::kCorrelation, -1));
  return true;
}

EventKind xplane_work_kind(const XplaneRow& row) {
  if (row.stats.has(XplaneStat::kKernelDetails)) return EventKind::kCompute;
  if (row.stats.has(XplaneStat::kCopyDetails)) return EventKind::kCopy;
  if (row.stats.has(XplaneStat::kSetDetails)) return EventKind::kMemset;
  if (starts_like_a_copy(row.name)) return EventKind::kCopy;
  const bool set =
      row.name.starts_with("Memset") || row.name.starts_with("memset");
  return set ? EventKind::kMemset : EventKind::kCompute;
}

int64_t xplane_moved_bytes(const XplaneRow& row) {
  const bool copy = row.stats.has(XplaneStat::kCopyDetails);
  const std::string_view details =
      row.stats.text(copy ? XplaneStat::kCopyDetails : XplaneStat::kSetDetails);
  return detail_behind(details, "size:");
}

std::string xplane_attributes(const XplaneStats& stats) {
  std::string text;
  const auto add = [&](XplaneStat stat, std::string_view name) {
    if (!stats.has(stat)) return;
    text += text.empty() ? "{" : ",";
    text += fmt::format("\"{}\":{}", name,
                        stat == XplaneStat::kProgram
                            ? std::to_string(stats.number(stat, 0))
                            : json_quoted(stats.text(stat)));
  };
  add(XplaneStat::kHloOp, "hlo_op");
  add(XplaneStat::kHloModule, "hlo_module");
  add(XplaneStat::kProgram, "program_id");
  add(XplaneStat::kOpName, "op_name");
  return text.empty() ? text : text + "}";
}

}  // namespace reprise
