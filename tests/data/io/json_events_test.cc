// How events are read from a stream; what is read, tests of the formats say.
#include "data/io/json_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace reprise {
namespace {

class CountedReads : public ByteSource {
 public:
  explicit CountedReads(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<size_t> read(std::span<char> into) override {
    ++reads;
    const size_t count = std::min(into.size(), bytes_.size() - place_);
    std::copy_n(bytes_.data() + place_, count, into.data());
    place_ += count;
    return count;
  }

  size_t reads = 0;

 private:
  std::string bytes_;
  size_t place_ = 0;
};

// A read moves what is left to the buffer's front: one for each event moved 256
// KiB to take 400 bytes.
TEST(JsonEventStream, SingleEventsAreReadHalfABlockAtATime) {
  constexpr size_t kEvents = 5000, kBlock = 1 << 14;
  std::string text = "[";
  for (size_t i = 0; i < kEvents; ++i) {
    text += (i == 0 ? "" : ",\n") +
            ("{\"ph\": \"X\", \"name\": \"" + std::to_string(i) + "\"}");
  }
  text += "]";
  CountedReads source(text);
  JsonEventStream stream(source, {.blocks = false, .block_bytes = kBlock});
  size_t events = 0;
  Result<JsonEventStream::Piece> piece = stream.next();
  for (; piece && *piece == JsonEventStream::Piece::kEvent;
       piece = stream.next()) {
    ++events;
  }
  ASSERT_TRUE(piece) << piece.error().message;
  EXPECT_EQ(events, kEvents);
  // The first fills a block, each other at least half; the last finds nothing.
  EXPECT_LE(source.reads, 2 * text.size() / kBlock + 2);
}

std::map<std::string, int64_t> dropped(const std::string& text) {
  CountedReads source(text);
  JsonEventStream stream(source);
  Result<JsonEventStream::Piece> piece = stream.next();
  while (piece && *piece != JsonEventStream::Piece::kEnd) piece = stream.next();
  EXPECT_TRUE(piece);
  return stream.dropped();
}

TEST(JsonEventStream, ASecondDocumentIsDroppedAloud) {
  const std::map<std::string, int64_t> another = {
      {"another JSON document behind the first one", 1}};
  for (const std::string one :
       {R"([{"ph": "X"}])", R"({"traceEvents": [{"ph": "X"}], "a": 1})"}) {
    EXPECT_TRUE(dropped(one + "\n").empty()) << one;
    EXPECT_EQ(dropped(one + "\n" + one), another) << one;
  }
}

}  // namespace
}  // namespace reprise
