#include "data/trace/trace_by_rank.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/trace/trace_spool.h"
#include "tests/data/trace/random_trace.h"

namespace reprise {
namespace {

class TraceByRankTest : public ::testing::Test {
 protected:
  ~TraceByRankTest() override { std::filesystem::remove(path_); }

  /// Of this process alone.
  const std::string path_ = std::filesystem::temp_directory_path() /
                            fmt::format("reprise_by_rank_{}.trace", ::getpid());
};

/// The events of all ranks, one rank after the other, as `trace` gives them.
std::vector<Event> events_of(const TraceByRank& trace) {
  std::vector<Event> all;
  for (size_t part = 0; part < trace.size(); ++part) {
    const RankEvents events = trace.at(part);
    EXPECT_EQ(events.number(events.first), all.size());
    for (uint32_t i = events.first; i < events.last; ++i)
      all.push_back(events.trace.events[i]);
  }
  return all;
}

void expect_same(const TraceByRank& packed, const Trace& whole) {
  ASSERT_TRUE(packed.is_packed());
  ASSERT_EQ(packed.event_count(), whole.events.size());
  EXPECT_EQ(events_of(packed), whole.events);
  const TraceByRank loaded = TraceByRank::borrow(whole);
  ASSERT_EQ(packed.size(), loaded.size());
  for (size_t part = packed.size(); part-- > 0;) {
    EXPECT_EQ(packed.span(part).start_ns, loaded.span(part).start_ns);
    EXPECT_EQ(packed.span(part).end_ns, loaded.span(part).end_ns);
    const RankEvents events = packed.of_rank(loaded.rank(part));
    EXPECT_EQ(events.number(events.first), loaded.first_event(part));
  }
  for (uint32_t event = 0; event < whole.events.size(); ++event) {
    ASSERT_EQ(packed.name(event), loaded.name(event));
    ASSERT_EQ(packed.kind(event), loaded.kind(event));
    ASSERT_EQ(packed.stream_kind(event), loaded.stream_kind(event));
  }
}

TEST_F(TraceByRankTest, IsTheSamePackedAndWhole) {
  Trace trace = testing::random_trace(7, 20'000, 5);
  trace.program_text.clear();
  ASSERT_TRUE(write_trace(trace, path_));
  size_t visited = 0;
  const Result<TraceByRank> packed = TraceByRank::read(
      path_, 0,
      [&](const RankEvents& events) { visited += events.last - events.first; });
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ(visited, 20'000U);
  expect_same(*packed, trace);
  EXPECT_EQ(packed->of_rank(99).last, 0U);
  const Result<TraceByRank> loaded = TraceByRank::read(path_, 20'000);
  ASSERT_TRUE(loaded);
  EXPECT_FALSE(loaded->is_packed());
  EXPECT_EQ(loaded->whole(), trace);
}

TEST_F(TraceByRankTest, KeepsTheEventsOfOurProgramsInMemory) {
  Trace trace = testing::random_trace(8, 1'000, 2);
  trace.program_text = "HloModule m";
  ASSERT_TRUE(write_trace(trace, path_));
  const Result<TraceByRank> read = TraceByRank::read(path_, 0);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->whole(), trace);
}

/// 150,000 events in segments of 8,192; each began before the one in front of
/// it. `rank_of` tells whose an event is.
void write_events(const std::string& path,
                  const std::function<int64_t(int64_t)>& rank_of) {
  std::vector<TraceSpool> spools(1);
  TraceSpool& spool = spools[0];
  for (const uint32_t rank : {0U, 1U, 2U}) {
    RankInfo info;
    info.rank = rank;
    spool.add_rank(info);
    StreamInfo stream;
    stream.rank = rank;
    spool.add_stream(stream);
  }
  const StringId name = spool.intern("op");
  for (int64_t i = 0; i < 150'000; ++i) {
    const auto rank = static_cast<uint32_t>(rank_of(i));
    const int64_t start_ns = 1'000'000 - i;
    spool.add({.rank = rank,
               .stream = rank,
               .kind = EventKind::kHostOp,
               .name = name,
               .enqueue_ns = start_ns,
               .start_ns = start_ns,
               .end_ns = start_ns + 10,
               .correlation = i});
  }
  ASSERT_TRUE(write_spools(spools, "", path));
}

TEST_F(TraceByRankTest, JoinsRanksThatComeAgain) {
  const std::function<int64_t(int64_t)> orders[] = {
      // All segments have events of all ranks.
      [](int64_t i) { return i % 3; },
      // Each segment is of one rank, which comes again.
      [](int64_t i) { return i / 8'192 % 2; },
      // Rank after rank, in whole segments and parts of them.
      [](int64_t i) { return i / 50'000; },
      // The same, one coming again.
      [](int64_t i) { return i / 40'000 % 3; },
      // Whole segments of a rank, then one that it shares.
      [](int64_t i) { return i < 131'072 ? i / 65'536 : i % 3; }};
  for (const auto& rank_of : orders) {
    write_events(path_, rank_of);
    const Result<Trace> whole = read_trace(path_);
    ASSERT_TRUE(whole);
    const Result<TraceByRank> packed = TraceByRank::read(path_, 0);
    ASSERT_TRUE(packed) << packed.error().message;
    expect_same(*packed, *whole);
    std::filesystem::remove(path_);
  }
}

}  // namespace
}  // namespace reprise
