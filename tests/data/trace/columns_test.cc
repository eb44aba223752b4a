#include "data/trace/columns.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace reprise {
namespace {

size_t place_of(std::string_view name) {
  for (size_t i = 0; i < event_columns().size(); ++i) {
    if (event_columns()[i].name == name) return i;
  }
  ADD_FAILURE() << name;
  return 0;
}

/// Decodes `bytes` as the column over `count` events; the error, or "".
std::string decode(std::string_view name, std::string_view bytes, size_t count,
                   std::optional<ColumnEncoding> encoding = {}) {
  const ColumnSpec<Event>& spec = event_columns()[place_of(name)];
  const ColumnBytes column{encoding.value_or(spec.encoding), bytes};
  std::vector<Event> events(count);
  const Status decoded = decode_segment<Event>(
      std::span(&spec, 1), std::span(&column, 1), std::span(events));
  return decoded ? "" : decoded.error().message;
}

/// One column of the events' segment.
std::string encode(std::string_view name, const std::vector<Event>& events,
                   ColumnEncoding encoding) {
  SegmentEncoder<Event> encoder(event_columns());
  const ColumnBytes& column = encoder.encode(events)[place_of(name)];
  EXPECT_EQ(column.encoding, encoding);
  return std::string(column.bytes);
}

TEST(Columns, EncodesAsTheFormatSays) {
  // Differences 300, -1, 0 after zigzag: 600 = 0xd8 0x04, 1, 0.
  std::vector<Event> events(3);
  events[0].start_ns = 300;
  events[1].start_ns = 299;
  events[2].start_ns = 299;
  const std::string bytes = encode("start_ns", events, ColumnEncoding::kDelta);
  EXPECT_EQ(bytes, std::string("\xd8\x04\x01\x00", 4));
  EXPECT_EQ(count_values(bytes), 3U);
}

TEST(Columns, WritesRunsWhereTheyAreFewer) {
  // 5 five times, then -1 twice: zigzag 10, 5 times, zigzag 1, twice.
  std::vector<Event> events(7);
  for (size_t i = 0; i < events.size(); ++i) events[i].step = i < 5 ? 5 : -1;
  EXPECT_EQ(encode("step", events, ColumnEncoding::kRuns), "\x0a\x05\x01\x02");
  // A column at its default takes two bytes and the count's.
  events.assign(60'000, Event{});
  EXPECT_EQ(encode("graph_node", events, ColumnEncoding::kRuns),
            "\x01\xe0\xd4\x03");
  // 1000 values that all differ: 64 + 1000 / 4 runs are the most.
  events.assign(1000, Event{});
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].bytes = static_cast<int64_t>(i % 50);
    events[i].sequence = static_cast<int64_t>(i);
  }
  std::string plain(1000, '\0');
  for (size_t i = 0; i < plain.size(); ++i)
    plain[i] = static_cast<char>(i % 50 * 2);
  EXPECT_EQ(encode("bytes", events, ColumnEncoding::kPlain), plain);
  EXPECT_EQ(encode("sequence", events, ColumnEncoding::kDelta),
            std::string(1, '\0') + std::string(999, '\2'));
}

TEST(Columns, EncodesTimesRelativeToTheStart) {
  std::vector<Event> events(1);
  events[0].enqueue_ns = 95;
  events[0].start_ns = 100;
  events[0].end_ns = 103;
  // 3 and 5, once each.
  EXPECT_EQ(encode("duration_ns", events, ColumnEncoding::kRuns), "\x06\x01");
  EXPECT_EQ(encode("queued_ns", events, ColumnEncoding::kRuns), "\x0a\x01");
}

TEST(Columns, EncodesInTheOrderGiven) {
  std::vector<Event> events(3);
  for (size_t i = 0; i < 3; ++i) events[i].start_ns = static_cast<int64_t>(i);
  SegmentEncoder<Event> encoder(event_columns());
  const std::vector<uint32_t> order = {2, 0, 1};
  EXPECT_EQ(encoder.encode(events, order)[0].bytes, "\x04\x03\x02");
}

TEST(Columns, RefusesDamage) {
  EXPECT_EQ(decode("bytes", {"\x02\x04", 2}, 2), "");
  const std::string cut = "column bytes: record 1 of 2 is cut short";
  EXPECT_EQ(decode("bytes", {"\x02", 1}, 2), cut);
  EXPECT_EQ(decode("bytes", {"\x02\x80", 2}, 2), cut);
  EXPECT_EQ(decode("bytes", {"\x02\x04\x06", 3}, 2),
            "column bytes: more values than 2 records (1 bytes left)");
  // Ten bytes hold 70 bits: only the lowest of the last seven is a bit of the
  // value.
  EXPECT_EQ(decode("bytes", std::string(9, '\xff') + '\x01', 1), "");
  EXPECT_EQ(decode("bytes", std::string(9, '\xff') + '\x02', 1),
            "column bytes: record 0 of 1 is cut short");
}

TEST(Columns, RefusesDamagedRuns) {
  const auto runs = [](std::string_view bytes, size_t count) {
    return decode("bytes", bytes, count, ColumnEncoding::kRuns);
  };
  EXPECT_EQ(runs({"\x02\x02", 2}, 2), "");
  const std::string cut = "column bytes: record 1 of 2 is cut short";
  EXPECT_EQ(runs({"\x02\x01", 2}, 2), cut);
  EXPECT_EQ(runs({"\x02\x01\x02", 3}, 2), cut);              // No count.
  EXPECT_EQ(runs({"\x02\x01\x02\x00\x02\x01", 6}, 2), cut);  // Zero times.
  EXPECT_EQ(runs({"\x02\x03", 2}, 2),
            "column bytes: more values than 2 records (0 bytes left)");
}

TEST(Columns, RefusesValuesThatDoNotFit) {
  EXPECT_EQ(decode("kind", "\x18", 1),
            "column kind: record 0 of 1: value 12 is out of range");
  EXPECT_EQ(decode("stream", "\x01", 1),
            "column stream: record 0 of 1: value -1 is out of range");
  EXPECT_EQ(decode("name", {"\x80\x80\x80\x80\x20", 5}, 1),
            "column name: record 0 of 1: value 4294967296 is out of range");
}

}  // namespace
}  // namespace reprise
