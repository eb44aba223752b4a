#include "data/formats/nccl_profiler/nccl_profiler_calls.h"

#include <algorithm>

#include "data/formats/collective_points.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Ranks of one process are never so many calls apart.
constexpr size_t kMostOpenCalls = 1 << 16;

}  // namespace

std::string_view json_member(std::string_view object, std::string_view key) {
  JsonScanner members(object);
  while (members.next()) {
    if (members.key() == key) return members.value();
  }
  return {};
}

int64_t number_within(std::string_view value, int64_t limit, int64_t fallback) {
  const int64_t number = parse_integer(value).value_or(-1);
  return number >= 0 && number <= limit ? number : fallback;
}

void CollectiveCostPoints::add(const CollectiveInfo& info, int64_t bytes,
                               int64_t sequence, int64_t time_ns) {
  if (info.kind == CollectiveKind::kUnknown || is_message(info.kind)) return;
  const int64_t group_size = std::max<int64_t>(0, info.group_size);
  Point point{{collective_key(info.kind, group_size, bytes, info.type),
               collective_title(info.kind, group_size, bytes), context_},
              time_ns};
  if (sequence < 0) {
    times_.add(point.subject, time_ns);
    return;
  }
  if (open_.size() >= kMostOpenCalls) close_calls();
  const auto [place, added] = open_.try_emplace(
      {spool_.add_collective(info), bytes, sequence}, std::move(point));
  if (!added) place->second.time_ns = std::min(place->second.time_ns, time_ns);
}

void CollectiveCostPoints::close_calls() {
  for (const auto& [call, point] : open_) {
    times_.add(point.subject, point.time_ns);
  }
  open_.clear();
}

void CollectiveCostPoints::finish() {
  close_calls();
  times_.add_to(spool_);
}

}  // namespace reprise
