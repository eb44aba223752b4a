#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>

#include "data/file.h"
#include "data/trace/event_order.h"
#include "data/trace/trace.h"
#include "tests/data/trace/random_trace.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

class TraceStore : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() /
        fmt::format(
            "reprise_trace_store_{}_{}", ::getpid(),
            ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  std::string written(const Trace& trace) const {
    const Status status = write_trace(trace, path("written.trace"));
    EXPECT_TRUE(status) << status.error().message;
    return read_file(path("written.trace")).value_or("");
  }

  static Result<Trace> read_bytes(const std::string& bytes) {
    return parse_trace(bytes, "bytes.trace");
  }

  /// Runs SQL on a written trace, as a stranger could.
  std::string edited(const Trace& trace, const char* sql) const {
    const std::string before = written(trace);
    EXPECT_TRUE(write_file_atomically(path("edited.trace"), before));
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path("edited.trace").c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
    return read_file(path("edited.trace")).value_or("");
  }

  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_),
                                             fs::directory_iterator()));
  }

 private:
  fs::path folder_;
};

TEST_F(TraceStore, GivesBackEveryFieldOfASmallTrace) {
  const Trace trace = testing::detailed_trace();
  const Result<Trace> back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, trace);
}

TEST_F(TraceStore, GivesBackAnEmptyTrace) {
  const Result<Trace> back = read_bytes(written(Trace{}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, Trace{});
}

TEST_F(TraceStore, GivesBackRandomTracesWithExtremeValues) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Trace trace =
        testing::random_trace(seed, 100 + seed * 37, 1 + seed % 4);
    const Result<Trace> back = read_bytes(written(trace));
    ASSERT_TRUE(back) << seed << ": " << back.error().message;
    EXPECT_EQ(*back, trace) << seed;
  }
}

TEST_F(TraceStore, SplitsManyEventsIntoSegments) {
  // 65,536 events a segment: three segments, the last with one event.
  const Trace trace = testing::random_trace(7, 2 * 65'536 + 1, 2);
  const Result<Trace> back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, trace);
}

TEST_F(TraceStore, WritesTheSameBytesForTheSameTrace) {
  const Trace trace = testing::random_trace(3, 1000, 2);
  EXPECT_EQ(written(trace), written(trace));
}

TEST_F(TraceStore, EveryFlippedByteIsRefusedOrHarmless) {
  const Trace trace = testing::detailed_trace();
  const std::string bytes = written(trace);
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    // Free space of pages is zeros: every 16th of them stands for the rest.
    if (bytes[at] == 0 && at % 16 != 0) continue;
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    const Result<Trace> back = read_bytes(damaged);
    if (back) {
      EXPECT_EQ(*back, trace) << "byte " << at;
    } else {
      EXPECT_FALSE(back.error().message.empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000U);
}

TEST_F(TraceStore, RefusesATraceCutAnywhere) {
  const std::string bytes = written(testing::small_trace());
  for (const size_t size : {size_t{0}, size_t{50}, size_t{100},
                            bytes.size() / 2, bytes.size() - 1}) {
    const Result<Trace> back = read_bytes(bytes.substr(0, size));
    ASSERT_FALSE(back) << size;
    EXPECT_EQ(back.error().kind, ErrorKind::kParse);
    EXPECT_NE(back.error().message.find("bytes.trace: "), std::string::npos);
  }
  const Result<Trace> half = read_bytes(bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(half.error().message.find("cut short"), std::string::npos)
      << half.error().message;
}

TEST_F(TraceStore, RefusesANewerSchemaSayingBothVersions) {
  const Result<Trace> back =
      read_bytes(edited(testing::small_trace(), "PRAGMA user_version = 7"));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(back.error().message.find(
                "trace schema 7; this build reads up to schema 2"),
            std::string::npos)
      << back.error().message;
}

TEST_F(TraceStore, ReadsSchema1WithTheNewFieldsAtTheirDefaults) {
  // The small trace, as the last version of schema 1 wrote it.
  const Result<Trace> back =
      read_trace(source_directory() + "/tests/fuzz/corpus/trace/small");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, testing::small_trace());
}

TEST_F(TraceStore, SortsEventsOfAnyOrderAndKeepsTheOrderOfEquals) {
  // Three segments of events that lie in no order, over three ranks; equal
  // keys stay as they stood.
  std::mt19937_64 random(5);
  Trace trace = testing::random_trace(11, 150'000, 3);
  std::shuffle(trace.events.begin(), trace.events.end(), random);
  for (size_t i = 0; i < trace.events.size(); i += 3)
    trace.events[i].start_ns = trace.events[i].end_ns = 7;
  std::vector<Event> by_stream = trace.events;
  std::stable_sort(
      by_stream.begin(), by_stream.end(),
      [](const Event& a, const Event& b) { return a.stream < b.stream; });
  for (std::vector<Event> events : {trace.events, by_stream}) {
    std::vector<Event> sorted = events;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Event& a, const Event& b) {
                       return std::tie(a.rank, a.start_ns, a.stream) <
                              std::tie(b.rank, b.start_ns, b.stream);
                     });
    std::vector<Event> other = events, room;
    put_in_order(other, event_order(other), room);
    sort_events(events);
    EXPECT_EQ(events, sorted);
    EXPECT_EQ(other, sorted);
    EXPECT_TRUE(event_order(sorted).empty());
  }
}

TEST_F(TraceStore, RefusesOtherFiles) {
  EXPECT_EQ(read_bytes("{\"traceEvents\": []}").error().kind,
            ErrorKind::kParse);
  EXPECT_EQ(read_bytes(std::string(5000, '\0')).error().kind,
            ErrorKind::kParse);
  EXPECT_EQ(read_trace(path("missing.trace")).error().kind, ErrorKind::kIo);
  const Result<Trace> other =
      read_bytes(edited(testing::small_trace(), "PRAGMA application_id = 1"));
  EXPECT_NE(other.error().message.find("not a Reprise trace"),
            std::string::npos);
}

TEST_F(TraceStore, RefusesForeignSchemaAndEditedRows) {
  const struct {
    const char* sql;
    const char* says;
  } cases[] = {
      {"UPDATE step SET end_ns = end_ns + 1 WHERE id = 0",
       "table step: checksum over 4 rows"},
      {"DELETE FROM event_column WHERE name = 'unit'",
       "segment 0: column unit is missing"},
      {"UPDATE event_column SET data = x'00' WHERE name = 'kind'",
       "segment 0: column kind checksum over 1 bytes differs"},
      {"DELETE FROM event_column", "0 records found, table segment"},
      {"UPDATE rank SET host = 3 WHERE id = 1", "table rank: checksum"},
      {"CREATE VIEW v AS SELECT 1", "table sqlite_schema: unexpected entries"},
      {"DROP TABLE step; CREATE VIEW step AS SELECT 1",
       "table sqlite_schema: expected"},
      {"CREATE TRIGGER t AFTER INSERT ON step BEGIN SELECT 1; END",
       "unexpected entries"},
      {"ALTER TABLE step ADD COLUMN extra INTEGER",
       "expected \"CREATE TABLE step\""},
  };
  for (const auto& [sql, says] : cases) {
    const Result<Trace> back = read_bytes(edited(testing::small_trace(), sql));
    ASSERT_FALSE(back) << sql;
    EXPECT_EQ(back.error().kind, ErrorKind::kParse) << sql;
    EXPECT_NE(back.error().message.find(says), std::string::npos)
        << back.error().message;
  }
}

TEST_F(TraceStore, RefusesToWriteATraceThatContradictsItself) {
  Trace bad = testing::small_trace();
  bad.events[1].stream = 99;
  EXPECT_EQ(write_trace(bad, path("bad.trace")).error().kind,
            ErrorKind::kInvalid);
  bad = testing::small_trace();
  std::swap(bad.events.front(), bad.events.back());
  EXPECT_EQ(write_trace(bad, path("bad.trace")).error().kind,
            ErrorKind::kInvalid);
  bad = testing::small_trace();
  bad.events[0].end_ns = bad.events[0].start_ns - 1;
  EXPECT_EQ(write_trace(bad, path("bad.trace")).error().kind,
            ErrorKind::kInvalid);
  const auto refuses = [&](auto spoil) {
    Trace spoilt = testing::detailed_trace();
    spoil(spoilt);
    EXPECT_EQ(write_trace(spoilt, path("bad.trace")).error().kind,
              ErrorKind::kInvalid);
  };
  // Two collectives, one synchronization, three strings.
  refuses([](Trace& t) { t.events[0].detail = 2; });
  refuses([](Trace& t) { t.events[0].detail = -2; });
  refuses([](Trace& t) {
    t.events[0].kind = EventKind::kSynchronization;
    t.events[0].detail = 1;
  });
  refuses([](Trace& t) { t.events[0].attributes = 3; });
  refuses([](Trace& t) { t.streams[0].kind = static_cast<StreamKind>(4); });
  refuses([](Trace& t) { t.collectives[0].group = {1, 0}; });
  refuses([](Trace& t) { t.collectives[0].group = {1, 1}; });
  refuses([](Trace& t) { std::swap(t.dependencies[0], t.dependencies[1]); });
  refuses([](Trace& t) {
    t.synchronizations[0].kind = static_cast<SynchronizationKind>(5);
  });
  EXPECT_EQ(files(), 0U);
}

TEST_F(TraceStore, AFullDiskLeavesTheOldTraceAndNothingElse) {
  const std::string old = written(testing::small_trace());
  // A file size limit stops the write as a full disk does, without root.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = old.size() / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status =
      write_trace(testing::random_trace(1, 5000, 2), path("written.trace"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kIo);
  EXPECT_NE(status.error().message.find("written.trace: cannot write"),
            std::string::npos);
  EXPECT_EQ(read_file(path("written.trace")).value(), old);
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace reprise
