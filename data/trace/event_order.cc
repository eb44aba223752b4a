#include "data/trace/event_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "data/result.h"

namespace reprise {
namespace {

struct Entry {
  uint64_t start = 0;  ///< From the earliest on.
  uint32_t stream = 0;
  uint32_t place = 0;
};

constexpr unsigned kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

/// Sorts by one digit of `key`, stable, from `entries` into `sorted`.
template <typename Key>
void sort_by_digit(const std::vector<Entry>& entries,
                   std::vector<Entry>& sorted, unsigned shift, Key key) {
  std::array<uint32_t, kDigits> next{};
  const auto digit = [&](const Entry& entry) {
    return static_cast<size_t>(key(entry) >> shift) & (kDigits - 1);
  };
  for (const Entry& entry : entries) ++next[digit(entry)];
  uint32_t sum = 0;
  for (uint32_t& count : next) sum += std::exchange(count, sum);
  for (const Entry& entry : entries) sorted[next[digit(entry)]++] = entry;
}

/// Sorts by a whole key, lowest digit first; digits in which no two keys differ
/// (`varying` has no bit there) are passed over.
template <typename Key>
void sort_by(std::vector<Entry>& entries, std::vector<Entry>& spare,
             uint64_t varying, Key key) {
  for (unsigned shift = 0; shift < 64 && varying >> shift != 0;
       shift += kDigitBits) {
    if ((varying >> shift & (kDigits - 1)) == 0) continue;
    sort_by_digit(entries, spare, shift, key);
    entries.swap(spare);
  }
}

bool is_in_order(std::span<const Event> events) {
  const auto key = [](const Event& e) {
    return std::tie(e.rank, e.start_ns, e.stream);
  };
  return std::is_sorted(
      events.begin(), events.end(),
      [&](const Event& a, const Event& b) { return key(a) < key(b); });
}

}  // namespace

std::vector<uint32_t> event_order(std::span<const Event> events) {
  if (is_in_order(events)) return {};
  REPRISE_CHECK(events.size() <= std::numeric_limits<uint32_t>::max());
  const auto first = std::min_element(
      events.begin(), events.end(),
      [](const Event& a, const Event& b) { return a.start_ns < b.start_ns; });
  const auto earliest = static_cast<uint64_t>(first->start_ns);
  std::vector<Entry> entries(events.size()), spare(events.size());
  uint64_t starts = 0, streams = 0, ranks = 0;  // Bits in which keys differ.
  for (uint32_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    entries[i] = {static_cast<uint64_t>(event.start_ns) - earliest,
                  event.stream, i};
    starts |= entries[i].start;
    streams |= event.stream ^ events[0].stream;
    ranks |= event.rank ^ events[0].rank;
  }
  sort_by(entries, spare, streams,
          [](const Entry& entry) { return uint64_t{entry.stream}; });
  sort_by(entries, spare, starts,
          [](const Entry& entry) { return entry.start; });
  sort_by(entries, spare, ranks, [&](const Entry& entry) {
    return uint64_t{events[entry.place].rank};
  });
  std::vector<uint32_t> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(entry.place);
  return order;
}

void sort_events(std::span<Event> events) {
  std::vector<uint32_t> order = event_order(events);
  // Along each cycle of the permutation; what is done points to itself.
  for (uint32_t i = 0; i < order.size(); ++i) {
    if (order[i] == i) continue;
    const Event saved = events[i];
    uint32_t to = i;
    while (order[to] != i) {
      const uint32_t from = std::exchange(order[to], to);
      events[to] = events[from];
      to = from;
    }
    order[to] = to;
    events[to] = saved;
  }
}

}  // namespace reprise
