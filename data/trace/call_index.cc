#include "data/trace/call_index.h"

#include <algorithm>

namespace reprise {
namespace {

/// Places in the table for each event at most: four bytes each, beside an event
/// of 96.
constexpr size_t kMostPlaces = 4;

bool is_call(const Event& event) {
  return event.kind == EventKind::kRuntime && event.correlation >= 0;
}

}  // namespace

CallIndex::CallIndex(std::span<const Event> events, uint32_t first) {
  int64_t most = -1;
  least_ = std::numeric_limits<int64_t>::max();
  for (const Event& event : events) {
    if (!is_call(event)) continue;
    least_ = std::min(least_, event.correlation);
    most = std::max(most, event.correlation);
  }
  if (most < 0) return;
  const auto range = static_cast<uint64_t>(most - least_);
  const bool dense = range < events.size() * kMostPlaces;
  if (dense) table_.assign(range + 1, kNoCall);
  uint32_t place = first;
  for (const Event& event : events) {
    const uint32_t call = place++;
    if (!is_call(event)) continue;
    if (!dense) {
      sorted_.emplace_back(event.correlation, call);
      continue;
    }
    uint32_t& known = table_[static_cast<size_t>(event.correlation - least_)];
    known = std::min(known, call);
  }
  std::sort(sorted_.begin(), sorted_.end());
}

uint32_t CallIndex::of(int64_t correlation) const {
  if (!table_.empty()) {
    const auto place =
        static_cast<uint64_t>(correlation) - static_cast<uint64_t>(least_);
    return place < table_.size() ? table_[place] : kNoCall;
  }
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(),
                                      std::pair(correlation, uint32_t{0}));
  return found != sorted_.end() && found->first == correlation ? found->second
                                                               : kNoCall;
}

}  // namespace reprise
