#include "data/formats/nccl_profiler/nccl_profiler_calls.h"

#include <algorithm>
#include <array>

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

int64_t whole_buffer_bytes(std::string_view op, int64_t bytes,
                           int64_t group_size) {
  constexpr std::array<std::string_view, 5> kInParts = {
      "all-gather", "reduce-scatter", "all-to-all", "gather", "scatter"};
  const bool in_parts =
      std::find(kInParts.begin(), kInParts.end(), op) != kInParts.end();
  if (in_parts && group_size > 0 &&
      __builtin_mul_overflow(bytes, group_size, &bytes)) {
    return 0;
  }
  return std::max<int64_t>(0, bytes);
}

void CollectiveCostPoints::add(const CollectiveInfo& info, int64_t bytes,
                               int64_t sequence, int64_t time_ns) {
  if (info.op.empty() || info.op == "send" || info.op == "receive") return;
  const int64_t group_size = std::max<int64_t>(0, info.group_size);
  Point point{{collective_key(info.op, group_size, bytes, info.data_type),
               collective_title(info.op, group_size, bytes), context_},
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
