// Radix sort from the lowest digit: rank, start and stream of an event, each as
// far above the least one as it lies, packed into one 64-bit key above the
// event's place, and sorted by 11 bits a pass (its 2,048 counts fit the first
// cache). Every pass keeps the order of equals, so events that compare equal
// stay as they came, and streams that came in order take no digit. Cost:
// linear, three to six passes for real traces; keys that leave no room for the
// place fall back to comparing.
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
void sort_by_digit(std::span<const uint64_t> entries,
                   std::span<uint64_t> sorted, unsigned shift) {
  std::array<uint32_t, kDigits> next{};
  const auto digit = [&](uint64_t entry) {
    return static_cast<size_t>(entry >> shift) & (kDigits - 1);
  };
  for (const uint64_t entry : entries) ++next[digit(entry)];
  uint32_t sum = 0;
  for (uint32_t& count : next) sum += std::exchange(count, sum);
  for (const uint64_t entry : entries) sorted[next[digit(entry)]++] = entry;
}

/// For keys of too many bits, which only wild times have.
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
  REPRISE_CHECK(events.size() <= std::numeric_limits<uint32_t>::max());
  Range<uint32_t> ranks, streams;
  Range<int64_t> starts;
  bool in_order = true, streams_in_order = true;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    ranks.add(event.rank);
    starts.add(event.start_ns);
    streams.add(event.stream);
    if (i == 0) continue;
    in_order = in_order && !event_is_before(event, events[i - 1]);
    streams_in_order = streams_in_order && events[i - 1].stream <= event.stream;
  }
  if (in_order) return {};
  const unsigned start_bits = starts.bits();
  const unsigned stream_bits = streams_in_order ? 0 : streams.bits();
  const auto place_bits = static_cast<unsigned>(std::bit_width(events.size()));
  const unsigned bits = place_bits + stream_bits + start_bits + ranks.bits();
  if (bits > 64) return order_by_comparing(events);
  std::vector<uint64_t> entries(events.size()), spare(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    uint64_t key = ranks.above(event.rank) << start_bits;
    key |= starts.above(event.start_ns);
    if (!streams_in_order)
      key = key << stream_bits | streams.above(event.stream);
    entries[i] = key << place_bits | i;
  }
  for (unsigned shift = place_bits; shift < bits; shift += kDigitBits) {
    sort_by_digit(entries, spare, shift);
    entries.swap(spare);
  }
  std::vector<uint32_t> order;
  order.reserve(entries.size());
  const uint64_t places = (uint64_t{1} << place_bits) - 1;
  for (const uint64_t entry : entries)
    order.push_back(static_cast<uint32_t>(entry & places));
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

void put_in_order(std::vector<Event>& events, std::span<const uint32_t> order,
                  std::vector<Event>& room) {
  if (order.empty()) return;
  room.clear();
  room.reserve(events.size());
  for (const uint32_t from : order) room.push_back(events[from]);
  events.swap(room);
}

}  // namespace reprise
