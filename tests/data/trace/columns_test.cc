#include "data/trace/columns.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace reprise {
namespace {

const ColumnSpec& column(std::string_view name) {
  for (const ColumnSpec& one : event_columns()) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << name;
  return event_columns().front();
}

/// Decodes `bytes` as the column over `count` events; the error, or "".
std::string decode(std::string_view name, std::string_view bytes,
                   size_t count) {
  std::vector<Event> events(count);
  const ColumnSpec& spec = column(name);
  const Status decoded = decode_column(spec, spec.encoding, bytes, events);
  return decoded ? "" : decoded.error().message;
}

TEST(Columns, EncodesAsTheFormatSays) {
  // Differences 300, -1, 0 after zigzag: 600 = 0xd8 0x04, 1, 0.
  std::vector<Event> events(3);
  events[0].start_ns = 300;
  events[1].start_ns = 299;
  events[2].start_ns = 299;
  const std::string bytes = encode_column(column("start_ns"), events);
  EXPECT_EQ(bytes, std::string("\xd8\x04\x01\x00", 4));
  EXPECT_EQ(count_values(bytes), 3U);
}

TEST(Columns, EncodesTimesRelativeToTheStart) {
  std::vector<Event> events(1);
  events[0] = {.enqueue_ns = 95, .start_ns = 100, .end_ns = 103};
  EXPECT_EQ(encode_column(column("duration_ns"), events), "\x06");  // 3
  EXPECT_EQ(encode_column(column("queued_ns"), events), "\x0a");    // 5
}

TEST(Columns, RefusesDamage) {
  EXPECT_EQ(decode("bytes", {"\x02\x04", 2}, 2), "");
  EXPECT_EQ(decode("bytes", {"\x02", 1}, 2), "event 1 of 2 is cut short");
  EXPECT_EQ(decode("bytes", {"\x02\x80", 2}, 2), "event 1 of 2 is cut short");
  EXPECT_EQ(decode("bytes", {"\x02\x04\x06", 3}, 2),
            "1 bytes too many after 2 events");
  // Ten bytes hold 70 bits: only the lowest of the last seven is a bit of the
  // value.
  EXPECT_EQ(decode("bytes", std::string(9, '\xff') + '\x01', 1), "");
  EXPECT_EQ(decode("bytes", std::string(9, '\xff') + '\x02', 1),
            "event 0 of 1 is cut short");
}

TEST(Columns, RefusesValuesThatDoNotFit) {
  EXPECT_EQ(decode("kind", "\x0a", 1), "event 0 of 1: value 5 is out of range");
  EXPECT_EQ(decode("stream", "\x01", 1),
            "event 0 of 1: value -1 is out of range");
  EXPECT_EQ(decode("name", {"\x80\x80\x80\x80\x20", 5}, 1),
            "event 0 of 1: value 4294967296 is out of range");
}

}  // namespace
}  // namespace reprise
