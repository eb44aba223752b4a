#include "data/trace/columns.h"

#include <algorithm>
#include <limits>

namespace reprise {
namespace {

constexpr uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t unzigzag(uint64_t code) {
  return static_cast<int64_t>(code >> 1 ^ (~(code & 1) + 1));
}
/// Differences and sums modulo 2^64: any pair of values survives the round
/// trip.
constexpr int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) -
                              static_cast<uint64_t>(b));
}
constexpr int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

/// Takes one varint off the front; false when it is cut short or over 64 bits.
bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

template <typename Field>
bool narrow(Field& field, int64_t value) {
  if (value < int64_t{std::numeric_limits<Field>::min()} ||
      value > int64_t{std::numeric_limits<Field>::max()}) {
    return false;
  }
  field = static_cast<Field>(value);
  return true;
}

bool set_kind(Event& event, int64_t value) {
  if (value < 0 || value > static_cast<int64_t>(kLastEventKind)) return false;
  event.kind = static_cast<EventKind>(value);
  return true;
}

bool set_name(Event& event, int64_t value) {
  uint32_t id = 0;
  if (!narrow(id, value)) return false;
  event.name = StringId{id};
  return true;
}

using enum ColumnEncoding;

constexpr ColumnSpec kEventColumns[] = {
    {"start_ns", kDelta, [](const Event& e) { return e.start_ns; },
     [](Event& e, int64_t v) { return narrow(e.start_ns, v); }},
    {"duration_ns", kPlain,
     [](const Event& e) { return minus(e.end_ns, e.start_ns); },
     [](Event& e, int64_t v) { return narrow(e.end_ns, plus(e.start_ns, v)); }},
    {"queued_ns", kPlain,
     [](const Event& e) { return minus(e.start_ns, e.enqueue_ns); },
     [](Event& e, int64_t v) {
       return narrow(e.enqueue_ns, minus(e.start_ns, v));
     }},
    {"rank", kDelta, [](const Event& e) { return int64_t{e.rank}; },
     [](Event& e, int64_t v) { return narrow(e.rank, v); }},
    {"stream", kPlain, [](const Event& e) { return int64_t{e.stream}; },
     [](Event& e, int64_t v) { return narrow(e.stream, v); }},
    {"kind", kPlain,
     [](const Event& e) { return static_cast<int64_t>(e.kind); }, set_kind},
    {"step", kDelta, [](const Event& e) { return int64_t{e.step}; },
     [](Event& e, int64_t v) { return narrow(e.step, v); }},
    {"unit", kDelta, [](const Event& e) { return int64_t{e.unit}; },
     [](Event& e, int64_t v) { return narrow(e.unit, v); }},
    {"name", kPlain, [](const Event& e) { return int64_t{index_of(e.name)}; },
     set_name},
    {"bytes", kPlain, [](const Event& e) { return e.bytes; },
     [](Event& e, int64_t v) { return narrow(e.bytes, v); }},
    {"correlation", kDelta, [](const Event& e) { return e.correlation; },
     [](Event& e, int64_t v) { return narrow(e.correlation, v); }},
};

}  // namespace

std::span<const ColumnSpec> event_columns() { return kEventColumns; }

std::string encode_column(const ColumnSpec& column,
                          std::span<const Event> events) {
  std::string bytes;
  bytes.reserve(events.size() * 2);
  int64_t before = 0;
  for (const Event& event : events) {
    const int64_t value = column.get(event);
    append_varint(bytes, zigzag(minus(value, before)));
    if (column.encoding == kDelta) before = value;
  }
  return bytes;
}

size_t count_values(std::string_view bytes) {
  return static_cast<size_t>(
      std::count_if(bytes.begin(), bytes.end(),
                    [](char byte) { return (byte & 0x80) == 0; }));
}

Status decode_column(const ColumnSpec& column, ColumnEncoding encoding,
                     std::string_view bytes, std::span<Event> events) {
  int64_t before = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    uint64_t code = 0;
    if (!take_varint(bytes, code)) {
      return fail(ErrorKind::kParse, "event {} of {} is cut short", i,
                  events.size());
    }
    const int64_t value = plus(before, unzigzag(code));
    if (!column.set(events[i], value)) {
      return fail(ErrorKind::kParse, "event {} of {}: value {} is out of range",
                  i, events.size(), value);
    }
    if (encoding == kDelta) before = value;
  }
  if (!bytes.empty()) {
    return fail(ErrorKind::kParse, "{} bytes too many after {} events",
                bytes.size(), events.size());
  }
  return {};
}

}  // namespace reprise
