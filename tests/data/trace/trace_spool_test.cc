#include "data/trace/trace_spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>
#include <tuple>

#include "data/file.h"
#include "data/trace/columns.h"
#include "data/trace/trace_file.h"
#include "tests/data/trace/random_trace.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

class Spools : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() /
        fmt::format(
            "reprise_spool_{}_{}", ::getpid(),
            ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_),
                                             fs::directory_iterator()));
  }

 private:
  fs::path folder_;
};

/// A spool and, beside it, what it should add to a trace, by the plain rules of
/// the header.
struct Case {
  TraceSpool spool;
  std::vector<RankInfo> ranks;
  std::vector<int64_t> bases;
  std::vector<StreamInfo> streams;
  std::vector<Event> events;
  std::vector<StepMark> steps;
  std::vector<EventDependency> dependencies;
  std::vector<CollectiveInfo> collectives;  ///< By what add_collective said.
  std::vector<SynchronizationInfo> synchronizations;
};

RankInfo rank_named(uint32_t number) {
  RankInfo rank;
  rank.rank = number;
  return rank;
}

template <typename Value>
void remember(std::vector<Value>& values, int32_t id, const Value& value) {
  const auto place = static_cast<size_t>(id);
  if (place >= values.size()) values.resize(place + 1);
  values[place] = value;
}

class CaseMaker {
 public:
  CaseMaker(uint64_t seed, std::string folder)
      : random_(seed), folder_(std::move(folder)) {}

  Case make(size_t events, bool sorted) {
    Case made;
    made.spool = TraceSpool(folder_);
    const size_t ranks = 1 + below(3);
    for (size_t i = 0; i < ranks; ++i) add_rank(made);
    for (size_t i = 0; i < events; ++i) add_event(made, sorted ? i : below(i));
    for (int32_t i = 0; i < 4; ++i) {
      const StepMark step{.rank = static_cast<uint32_t>(below(ranks)),
                          .step = 3 - i,
                          .start_ns = i,
                          .end_ns = 10 * i};
      made.spool.add_step(step);
      made.steps.push_back(step);
      const EventDependency dependency{.rank = step.rank,
                                       .before = signed_below(5),
                                       .after = signed_below(5)};
      made.spool.add_dependency(dependency);
      made.dependencies.push_back(dependency);
    }
    return made;
  }

 private:
  uint64_t below(uint64_t limit) {
    return random_() % std::max(limit, uint64_t{1});
  }
  int64_t signed_below(uint64_t limit) {
    return static_cast<int64_t>(below(limit));
  }

  /// Numbers repeat within a spool and between spools.
  void add_rank(Case& made) {
    const auto local = static_cast<uint32_t>(made.ranks.size());
    RankInfo rank = rank_named(static_cast<uint32_t>(below(4)));
    rank.host = "a";
    rank.clock_domain = "epoch";
    made.spool.add_rank(rank);
    made.ranks.push_back(rank);
    made.bases.push_back(below(2) == 0 ? 0 : signed_below(1'000'000) - 500'000);
    made.spool.set_time_base(local, made.bases.back());
    for (uint64_t i = 0; i < 1 + below(3); ++i) {
      StreamInfo stream{.rank = local,
                        .name = fmt::format("stream {}", i),
                        .kind = StreamKind::kDeviceStream};
      stream.number = signed_below(9);
      made.spool.add_stream(stream);
      made.streams.push_back(stream);
    }
  }

  void add_event(Case& made, size_t near) {
    const auto stream = static_cast<uint32_t>(below(made.streams.size()));
    Event event{.rank = made.streams[stream].rank, .stream = stream};
    event.kind = static_cast<EventKind>(below(12));
    event.name = made.spool.intern(fmt::format("name {}", below(300)));
    event.start_ns = static_cast<int64_t>(near) * 10 + signed_below(5);
    event.end_ns = event.start_ns + signed_below(100);
    event.enqueue_ns = event.start_ns - signed_below(10);
    event.bytes = signed_below(1 << 20);
    event.correlation = signed_below(1 << 20);
    event.step = static_cast<int32_t>(below(3));
    if (below(4) == 0) add_detail(made, event);
    if (below(5) == 0) {
      event.attributes = static_cast<int32_t>(index_of(
          made.spool.intern(fmt::format("{{\"dims\":{}}}", below(30)))));
    }
    made.spool.add(event);
    made.events.push_back(event);
  }

  void add_detail(Case& made, Event& event) {
    if (event.kind == EventKind::kSynchronization) {
      const SynchronizationInfo one{
          .kind = static_cast<SynchronizationKind>(below(5)),
          .stream = signed_below(8)};
      event.detail = made.spool.add_synchronization(one);
      remember(made.synchronizations, event.detail, one);
    } else {
      CollectiveInfo one;
      one.kind =
          below(2) == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kSend;
      one.group = {0, static_cast<uint32_t>(1 + below(5))};
      one.peer = static_cast<int32_t>(below(4));
      event.detail = made.spool.add_collective(one);
      remember(made.collectives, event.detail, one);
    }
  }

  std::mt19937_64 random_;
  std::string folder_;
};

template <typename Value>
int32_t place_of(std::vector<Value>& values, const Value& value) {
  auto found = std::find(values.begin(), values.end(), value);
  if (found == values.end()) found = values.insert(found, value);
  return static_cast<int32_t>(found - values.begin());
}

/// The trace of the cases, computed one event at a time.
Trace expected_trace(std::span<const Case> cases) {
  Trace trace;
  for (const Case& one : cases) {
    // Strings in the order in which they came to the spool.
    std::vector<uint32_t> local;
    for (const Event& event : one.events) {
      local.push_back(index_of(event.name));
      if (event.attributes >= 0)
        local.push_back(static_cast<uint32_t>(event.attributes));
    }
    std::sort(local.begin(), local.end());
    for (const uint32_t id : local)
      place_of(trace.strings, one.spool.text(StringId{id}));
    for (const auto& collective : one.collectives)
      place_of(trace.collectives, collective);
    for (const auto& synchronization : one.synchronizations)
      place_of(trace.synchronizations, synchronization);
    for (const RankInfo& rank : one.ranks) {
      if (std::none_of(
              trace.ranks.begin(), trace.ranks.end(),
              [&](const RankInfo& other) { return other.rank == rank.rank; }))
        trace.ranks.push_back(rank);
    }
    const auto first_stream = static_cast<uint32_t>(trace.streams.size());
    for (StreamInfo stream : one.streams) {
      stream.rank = one.ranks[stream.rank].rank;
      trace.streams.push_back(stream);
    }
    const auto text = [&](StringId id) { return one.spool.text(id); };
    for (Event event : one.events) {
      const int64_t base = one.bases[event.rank];
      event.start_ns += base;
      event.end_ns += base;
      event.enqueue_ns += base;
      event.rank = one.ranks[event.rank].rank;
      event.stream += first_stream;
      event.name = StringId{
          static_cast<uint32_t>(place_of(trace.strings, text(event.name)))};
      if (event.attributes >= 0) {
        event.attributes =
            place_of(trace.strings,
                     text(StringId{static_cast<uint32_t>(event.attributes)}));
      }
      if (event.detail >= 0) {
        const auto place = static_cast<size_t>(event.detail);
        event.detail =
            event.kind == EventKind::kSynchronization
                ? place_of(trace.synchronizations, one.synchronizations[place])
                : place_of(trace.collectives, one.collectives[place]);
      }
      trace.events.push_back(event);
    }
    for (StepMark step : one.steps) {
      step.start_ns += one.bases[step.rank];
      step.end_ns += one.bases[step.rank];
      step.rank = one.ranks[step.rank].rank;
      trace.steps.push_back(step);
    }
    for (EventDependency dependency : one.dependencies) {
      dependency.rank = one.ranks[dependency.rank].rank;
      trace.dependencies.push_back(dependency);
    }
  }
  const auto sort = [](auto& values, auto key) {
    std::stable_sort(
        values.begin(), values.end(),
        [&](const auto& a, const auto& b) { return key(a) < key(b); });
  };
  sort(trace.events,
       [](const Event& e) { return std::tuple(e.rank, e.start_ns, e.stream); });
  sort(trace.ranks, [](const RankInfo& r) { return r.rank; });
  sort(trace.steps,
       [](const StepMark& s) { return std::tuple(s.rank, s.step); });
  sort(trace.dependencies, [](const EventDependency& d) {
    return std::tuple(d.rank, d.before, d.after);
  });
  return trace;
}

std::vector<TraceSpool> spools_of(std::vector<Case>& cases) {
  std::vector<TraceSpool> spools;
  for (Case& one : cases) spools.push_back(std::move(one.spool));
  return spools;
}

TEST_F(Spools, GatherAndWriteTheTraceThatTheHeaderStates) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CaseMaker maker(seed, path(""));
    std::vector<Case> cases;
    for (uint64_t i = 0; i < 1 + seed % 4; ++i)
      cases.push_back(maker.make(seed * 40, seed % 2 == 0));
    Trace expected = expected_trace(cases);
    std::vector<TraceSpool> spools = spools_of(cases);
    const Result<Trace> gathered = gather_spools(spools);
    ASSERT_TRUE(gathered) << gathered.error().message;
    ASSERT_EQ(*gathered, expected) << seed;
    const Status written = write_spools(spools, "{}", path("a.trace"));
    ASSERT_TRUE(written) << written.error().message;
    const Result<Trace> back = read_trace(path("a.trace"));
    ASSERT_TRUE(back) << back.error().message;
    expected.import_text = "{}";
    ASSERT_EQ(*back, expected) << seed;
  }
}

TEST_F(Spools, GoThroughATemporaryFileWithoutAName) {
  // 400,000 events of 20 bytes or so: more than stays in memory.
  CaseMaker maker(1, path(""));
  std::vector<Case> cases;
  cases.push_back(maker.make(200'000, true));
  cases.push_back(maker.make(200'000, false));
  EXPECT_EQ(files(), 0U);
  Trace expected = expected_trace(cases);
  std::vector<TraceSpool> spools = spools_of(cases);
  ASSERT_TRUE(write_spools(spools, "", path("a.trace")));
  const Result<Trace> back = read_trace(path("a.trace"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, expected);
  EXPECT_EQ(files(), 1U);
}

TEST_F(Spools, GiveTheSameBytesWhateverTheThreadsDo) {
  const auto write = [&](bool threads, const std::string& name) {
    std::vector<Case> cases(5);
    std::vector<std::thread> running;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto fill = [&cases, i, this] {
        cases[i] = CaseMaker(i, path("")).make(70'000, i % 2 == 0);
      };
      if (threads) {
        running.emplace_back(fill);
      } else {
        fill();
      }
    }
    for (std::thread& thread : running) thread.join();
    std::vector<TraceSpool> spools = spools_of(cases);
    EXPECT_TRUE(write_spools(spools, "{}", path(name)));
    return read_file(path(name)).value();
  };
  EXPECT_EQ(write(false, "a.trace"), write(true, "b.trace"));
}

TEST_F(Spools, NumberEqualValuesOnce) {
  TraceSpool spool;
  std::vector<StringId> ids;
  for (int i = 0; i < 5000; ++i)
    ids.push_back(spool.intern(fmt::format("text {}", i)));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(index_of(ids[i]), i);
    EXPECT_EQ(spool.intern(fmt::format("text {}", i)), ids[i]);
    EXPECT_EQ(spool.text(ids[i]), fmt::format("text {}", i));
  }
  EXPECT_EQ(index_of(spool.intern("")), 5000U);
  // Fields that run together must not be taken for each other.
  CollectiveInfo one, other;
  one.communicator = "shuffle";
  one.other_kind = "1";
  other.communicator = "shuffle1";
  EXPECT_EQ(spool.add_collective(one), 0);
  EXPECT_EQ(spool.add_collective(other), 1);
  EXPECT_EQ(spool.add_collective(one), 0);
  EXPECT_EQ(spool.add_synchronization({.stream = 1}), 0);
  EXPECT_EQ(spool.add_synchronization({.waited_stream = 1}), 1);
  EXPECT_EQ(spool.add_synchronization({.stream = 1}), 0);
}

TEST_F(Spools, CompleteARankFromFurtherSpools) {
  std::vector<TraceSpool> spools(2);
  RankInfo bare = rank_named(3);
  bare.clock_domain = "";
  spools[0].add_rank(bare);
  RankInfo full{.rank = 3, .host = "node7", .process = 12, .device = "H100"};
  full.clock_domain = "epoch";
  spools[1].add_rank(full);
  const Result<Trace> trace = gather_spools(spools);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->ranks.size(), 1U);
  EXPECT_EQ(trace->ranks[0], full);
}

TEST_F(Spools, RefuseARankThatNobodyNamed) {
  std::vector<TraceSpool> spools(1);
  RankInfo rank;
  rank.rank = kUnknownRank;
  spools[0].add_rank(rank);
  EXPECT_EQ(gather_spools(spools).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(write_spools(spools, "", path("a.trace")).error().kind,
            ErrorKind::kInvalid);
  spools[0].rank(0).rank = 5;
  EXPECT_TRUE(gather_spools(spools));
  EXPECT_EQ(files(), 0U);
}

TEST_F(Spools, KeepWildTimesApartFromOverflow) {
  std::vector<TraceSpool> spools(1);
  TraceSpool& spool = spools[0];
  spool.add_rank(rank_named(0));
  spool.add_stream({.rank = 0, .name = "s"});
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  Event event{.name = spool.intern("n")};
  event.enqueue_ns = event.start_ns = kLow;
  event.end_ns = kHigh;
  spool.add(event);
  spool.add_step({.start_ns = kLow, .end_ns = kHigh});
  spool.set_time_base(0, kHigh);
  ASSERT_TRUE(write_spools(spools, "", path("a.trace")));
  const Result<Trace> trace = read_trace(path("a.trace"));
  ASSERT_TRUE(trace) << trace.error().message;
  // -2^62 + 2^61 and 2^62 + 2^61.
  EXPECT_EQ(trace->events[0].start_ns, -(int64_t{1} << 61));
  EXPECT_EQ(trace->events[0].end_ns, int64_t{3} << 61);
  EXPECT_EQ(trace->steps[0].end_ns, int64_t{3} << 61);
}

TEST_F(Spools, TellOfAFullDiskWhenGathered) {
  TraceSpool spool(path("no such folder"));
  spool.add_rank(rank_named(0));
  spool.add_stream({.rank = 0, .name = "s"});
  Event event{.name = spool.intern("n")};
  for (int64_t i = 0; i < 500'000; ++i) {
    event.start_ns = event.end_ns = i * i;
    event.bytes = i * i * i;
    spool.add(event);
  }
  const std::span<TraceSpool> spools(&spool, 1);
  const Result<Trace> trace = gather_spools(spools);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().kind, ErrorKind::kIo);
  EXPECT_NE(trace.error().message.find("no such folder"), std::string::npos);
}

TEST_F(Spools, AWriterThatIsKilledLeavesNothing) {
  const int unnamed = ::open(path("").c_str(), O_TMPFILE | O_RDWR, 0600);
  if (unnamed < 0) GTEST_SKIP() << "files need names here";
  ::close(unnamed);
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    Result<TraceFileWriter> file = TraceFileWriter::create(path("a.trace"));
    SegmentEncoder<Event> encoder(event_columns());
    const std::vector<Event> events(kSegmentRecords);
    const bool added =
        file && file->add_events(encoder.encode(events), events.size());
    if (added) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 0U);
}

TEST_F(Spools, AFullDiskLeavesTheOldTraceAndNothingElse) {
  ASSERT_TRUE(write_trace(testing::small_trace(), path("a.trace")));
  const std::string old = read_file(path("a.trace")).value();
  CaseMaker maker(2, path(""));
  std::vector<Case> cases;
  cases.push_back(maker.make(60'000, false));
  std::vector<TraceSpool> spools = spools_of(cases);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_spools(spools, "", path("a.trace"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kIo);
  EXPECT_NE(status.error().message.find("a.trace: cannot write"),
            std::string::npos)
      << status.error().message;
  EXPECT_EQ(read_file(path("a.trace")).value(), old);
  EXPECT_EQ(files(), 1U);
}

TEST_F(Spools, OfJobsOfDifferentSizesAreDoubted) {
  std::vector<TraceSpool> spools(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    RankInfo info;
    info.rank = rank;
    spools[rank].add_rank(info);
    spools[rank].set_environment("world_size", rank < 2 ? "3" : "4");
    spools[rank].set_environment("other", std::to_string(rank));
  }
  const Result<Trace> trace = gather_spools(spools);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->warnings,
            std::vector<std::string>{"files of jobs of 3 and of 4 ranks were "
                                     "joined: they may be of different runs"});
}

}  // namespace
}  // namespace reprise
