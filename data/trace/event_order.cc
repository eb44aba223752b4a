// Radix sort from the lowest digit: rank, start and stream of an event, each as
// far above the least one as it lies, packed into one 64-bit key and sorted by
// 11 bits a pass (its 2,048 counts fit the first cache). Every pass keeps the
// order of equals, so events that compare equal stay as they came. Cost:
// linear, three to six passes for real traces; keys of more than 64 bits fall
// back to comparing.
#include "data/trace/event_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "data/result.h"

namespace reprise {
namespace {

struct Entry {
  uint64_t key = 0;  ///< Rank, start and stream, as far as they differ.
  uint32_t place = 0;
};

constexpr unsigned kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

auto key_of(const Event& event) {
  return std::tie(event.rank, event.start_ns, event.stream);
}
bool event_is_before(const Event& a, const Event& b) {
  return key_of(a) < key_of(b);
}

/// The values of one field.
template <typename Field>
struct Range {
  Field least = std::numeric_limits<Field>::max();
  Field most = std::numeric_limits<Field>::min();

  void add(Field value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  /// How far a value lies above the least one, and the bits that takes.
  uint64_t above(Field value) const {
    return static_cast<uint64_t>(value) - static_cast<uint64_t>(least);
  }
  unsigned bits() const {
    return static_cast<unsigned>(std::bit_width(above(most)));
  }
};

/// Sorts by the digit at `shift`, stable, from `entries` into `sorted`.
void sort_by_digit(const std::vector<Entry>& entries,
                   std::vector<Entry>& sorted, unsigned shift) {
  std::array<uint32_t, kDigits> next{};
  const auto digit = [&](const Entry& entry) {
    return static_cast<size_t>(entry.key >> shift) & (kDigits - 1);
  };
  for (const Entry& entry : entries) ++next[digit(entry)];
  uint32_t sum = 0;
  for (uint32_t& count : next) sum += std::exchange(count, sum);
  for (const Entry& entry : entries) sorted[next[digit(entry)]++] = entry;
}

/// For keys of more than 64 bits, which only wild times have.
std::vector<uint32_t> order_by_comparing(std::span<const Event> events) {
  std::vector<uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return event_is_before(events[a], events[b]);
  });
  return order;
}

}  // namespace

std::vector<uint32_t> event_order(std::span<const Event> events) {
  if (std::is_sorted(events.begin(), events.end(), event_is_before)) return {};
  REPRISE_CHECK(events.size() <= std::numeric_limits<uint32_t>::max());
  Range<uint32_t> ranks, streams;
  Range<int64_t> starts;
  for (const Event& event : events) {
    ranks.add(event.rank);
    starts.add(event.start_ns);
    streams.add(event.stream);
  }
  const unsigned start_bits = starts.bits(), stream_bits = streams.bits();
  const unsigned bits = ranks.bits() + start_bits + stream_bits;
  if (bits > 64) return order_by_comparing(events);
  std::vector<Entry> entries(events.size()), spare(events.size());
  for (uint32_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    // A shift by 64 is not defined; a field of 64 bits stands alone.
    uint64_t key = start_bits < 64 ? ranks.above(event.rank) << start_bits : 0;
    key |= starts.above(event.start_ns);
    entries[i] = {key << stream_bits | streams.above(event.stream), i};
  }
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    sort_by_digit(entries, spare, shift);
    entries.swap(spare);
  }
  std::vector<uint32_t> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(entry.place);
  return order;
}

void sort_events(std::span<Event> events) {
  put_in_order(events, event_order(events));
}

void put_in_order(std::span<Event> events, std::vector<uint32_t> order) {
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

std::vector<uint32_t> sort_events(std::vector<Event>& events,
                                  std::vector<Event>& room) {
  std::vector<uint32_t> order = event_order(events);
  if (order.empty()) return order;
  room.clear();
  room.reserve(events.size());
  for (const uint32_t from : order) room.push_back(events[from]);
  events.swap(room);
  return order;
}

}  // namespace reprise
