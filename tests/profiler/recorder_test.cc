#include "profiler/recorder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "data/file.h"
#include "data/trace/recording_cost.h"
#include "profiler/gather/gather_shards.h"
#include "profiler/shard.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() /
        fmt::format(
            "reprise_recorder_{}_{}", ::getpid(),
            ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string shard(uint32_t rank) const {
    return (folder_ / fmt::format("rank{}.shard", rank)).string();
  }
  std::unique_ptr<Recorder> recorder(uint32_t rank,
                                     size_t events = 1024) const {
    Recorder::Options options;
    options.rank = rank;
    options.shard_path = shard(rank);
    options.events_per_stream = events;
    Result<std::unique_ptr<Recorder>> made = Recorder::create(options);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  static RankInfo clock(int64_t offset_ns) {
    RankInfo rank;
    rank.clock_offset_ns = offset_ns;
    rank.clock_drift_ppm = 0.1;
    rank.clock_reference_ns = 7;
    rank.clock_residual_ns = 9;
    return rank;
  }
  static TrainerContext context() {
    TrainerContext context;
    context.program_text = "HloModule m\n";
    context.plan_text = "{}";
    context.units = {{"dot.1", EventKind::kCompute, 0},
                     {"b0", EventKind::kCollective, 4096}};
    return context;
  }
  Result<Trace> gathered(uint32_t ranks) const {
    std::vector<std::string> paths;
    for (uint32_t rank = ranks; rank-- > 0;) paths.push_back(shard(rank));
    return gather_shards(paths, context());
  }

 private:
  fs::path folder_;
};

/// Two steps of a unit and a collective, with a flush after each.
void record_two_steps(Recorder& recorder) {
  for (int32_t step = 0; step < 2; ++step) {
    const int64_t base = 1000 * (step + 1);
    recorder.record(0, EventKind::kFeed, -1, step, base, base, base + 10, -1);
    recorder.record(1, EventKind::kCollective, 1, step, base + 110, base + 120,
                    base + 300, step);
    recorder.record(0, EventKind::kCompute, 0, step, base + 10, base + 10,
                    base + 110, -1);
    recorder.mark_step(step, step == 0, base, base + 300);
    ASSERT_TRUE(recorder.flush());
  }
}

TEST_F(RecorderTest, GathersWhatAllRanksRecorded) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const auto one = recorder(rank);
    record_two_steps(*one);
    ASSERT_TRUE(one->finish(clock(-50 * int64_t{rank})));
  }
  const Result<Trace> trace = gathered(2);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_TRUE(trace->warnings.empty());
  EXPECT_EQ(trace->program_text, "HloModule m\n");
  ASSERT_EQ(trace->ranks.size(), 2U);
  EXPECT_EQ(trace->ranks[1].clock_offset_ns, -50);
  EXPECT_EQ(trace->ranks[1].clock_drift_ppm, 0.1);
  EXPECT_EQ(trace->ranks[1].clock_reference_ns, 7);
  EXPECT_EQ(trace->ranks[1].clock_residual_ns, 9);
  EXPECT_EQ(trace->ranks[0].process, ::getpid());
  EXPECT_FALSE(trace->ranks[0].host.empty());
  EXPECT_EQ(trace->streams, (std::vector<StreamInfo>{{0, "compute"},
                                                     {0, "communication"},
                                                     {1, "compute"},
                                                     {1, "communication"}}));
  ASSERT_EQ(trace->events.size(), 12U);
  // Rank 1, step 1, in order of start: feed, unit, collective.
  EXPECT_EQ(trace->text(trace->events[9].name), "feed");
  const Event& unit = trace->events[10];
  EXPECT_EQ(trace->text(unit.name), "dot.1");
  EXPECT_EQ(unit.bytes, 0);
  const Event& collective = trace->events[11];
  EXPECT_EQ(collective.rank, 1U);
  EXPECT_EQ(collective.stream, 3U);
  EXPECT_EQ(collective.kind, EventKind::kCollective);
  EXPECT_EQ(collective.step, 1);
  EXPECT_EQ(collective.unit, 1);
  EXPECT_EQ(trace->text(collective.name), "b0");
  EXPECT_EQ(collective.enqueue_ns, 2110);
  EXPECT_EQ(collective.start_ns, 2120);
  EXPECT_EQ(collective.end_ns, 2300);
  EXPECT_EQ(collective.bytes, 4096);
  EXPECT_EQ(collective.correlation, 1);
  ASSERT_EQ(trace->steps.size(), 4U);
  EXPECT_EQ(trace->steps[2], (StepMark{1, 0, 1000, 1300, true}));
  // And the store takes it.
  const std::string path = shard(0) + ".trace";
  ASSERT_TRUE(write_trace(*trace, path));
  EXPECT_EQ(read_trace(path).value(), *trace);
}

TEST_F(RecorderTest, CountsWhatAFullRingLoses) {
  const auto one = recorder(0, 8);
  for (int i = 0; i < 11; ++i)
    one->record(0, EventKind::kCompute, 0, 0, i, i, i + 1, -1);
  EXPECT_EQ(one->lost_events(), 3U);
  ASSERT_TRUE(one->flush());
  // Space again; the next run wraps around the end of the ring.
  for (int i = 20; i < 25; ++i)
    one->record(0, EventKind::kCompute, 0, 1, i, i, i + 1, -1);
  ASSERT_TRUE(one->finish(clock(0)));
  const Result<Trace> trace = gathered(1);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->events.size(), 13U);
  EXPECT_EQ(trace->events[12].start_ns, 24);
  EXPECT_EQ(trace->warnings,
            std::vector<std::string>{"rank 0: 3 events of stream compute lost, "
                                     "the recorder's ring was full"});
}

TEST_F(RecorderTest, FlushesWhileBothStreamsRecord) {
  constexpr int64_t kEvents = 20'000;
  const auto one = recorder(0, 1 << 15);
  const auto work = [&](uint32_t stream) {
    for (int64_t i = 0; i < kEvents; ++i) {
      one->record(stream, EventKind::kCompute, 0, 0, i, i, i, i);
    }
  };
  std::thread compute(work, 0), communication(work, 1);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(one->flush());
  compute.join();
  communication.join();
  ASSERT_TRUE(one->finish(clock(0)));
  const Result<Trace> trace = gathered(1);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->events.size(), 2U * kEvents);
  for (size_t i = 0; i < trace->events.size(); ++i) {
    EXPECT_EQ(trace->events[i].correlation, static_cast<int64_t>(i / 2));
  }
}

TEST_F(RecorderTest, AKilledWriterLosesOnlyWhatItHadNotFlushed) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto one = recorder(1);
    record_two_steps(*one);
    one->record(0, EventKind::kCompute, 0, 2, 1, 1, 2, -1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Result<Trace> trace = gather_shards({shard(1)}, context());
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.size(), 6U);
  ASSERT_EQ(trace->warnings.size(), 1U);
  EXPECT_EQ(
      trace->warnings[0],
      "rank 1: the writer ended early; clock and last events are missing");
}

TEST_F(RecorderTest, AShardCutAnywhereGivesAPrefixAndSaysSo) {
  const auto one = recorder(0);
  record_two_steps(*one);
  ASSERT_TRUE(one->finish(clock(0)));
  const std::string bytes = read_file(shard(0)).value();
  size_t best = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Result<Shard> part = parse_shard(bytes.substr(0, size), "part");
    if (!part) {
      EXPECT_EQ(part.error().kind, ErrorKind::kParse) << size;
      EXPECT_LT(size, 250U) << "only the header is needed";
      continue;
    }
    EXPECT_FALSE(part->warnings.empty()) << size;
    EXPECT_GE(part->runs.size(), best);
    best = part->runs.size();
  }
  EXPECT_EQ(best, 4U);  // Two streams in each of two steps.
}

TEST_F(RecorderTest, EveryFlippedByteOfAShardIsNoticed) {
  const auto one = recorder(0);
  record_two_steps(*one);
  ASSERT_TRUE(one->finish(clock(0)));
  const std::string bytes = read_file(shard(0)).value();
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (at >= 12 && at < 16) continue;  // Reserved, not read.
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    const Result<Shard> read = parse_shard(damaged, "damaged");
    if (read) {
      EXPECT_FALSE(read->warnings.empty()) << "byte " << at;
    }
  }
}

TEST_F(RecorderTest, RefusesForeignAndDoubleShards) {
  ASSERT_TRUE(write_file_atomically(shard(0),
                                    "something else, long enough to look at"));
  EXPECT_EQ(gathered(1).error().kind, ErrorKind::kParse);
  std::string newer("RPRSHARD\x02\0\0\0\0\0\0\0", 16);
  ASSERT_TRUE(write_file_atomically(shard(0), newer));
  EXPECT_EQ(gathered(1).error().kind, ErrorKind::kUnsupported);
  ASSERT_TRUE(recorder(0)->finish(clock(0)));
  EXPECT_EQ(gather_shards({shard(0), shard(0)}, context()).error().message,
            "two shards are of rank 0");
}

TEST_F(RecorderTest, RefusesAUnitThatTheScheduleLacks) {
  const auto one = recorder(0);
  one->record(0, EventKind::kCompute, 2, 0, 1, 1, 2, -1);
  ASSERT_TRUE(one->finish(clock(0)));
  const Result<Trace> trace = gathered(1);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(
      trace.error().message.find("names unit 2, the schedule has 2 units"),
      std::string::npos);
}

TEST_F(RecorderTest, AFullDiskFailsTheFlushAndKeepsTheShardReadable) {
  const auto one = recorder(0);
  record_two_steps(*one);
  const auto size = fs::file_size(shard(0));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = size + 30, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  one->record(0, EventKind::kCompute, 0, 2, 1, 1, 2, -1);
  const Status full = one->flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::kIo);
  EXPECT_NE(full.error().message.find("rank0.shard: cannot write"),
            std::string::npos);
  EXPECT_FALSE(one->finish(clock(0)));
  EXPECT_EQ(fs::file_size(shard(0)), size);
  EXPECT_EQ(gathered(1).value().events.size(), 6U);
}

TEST_F(RecorderTest, RefusesAShardThatCannotBeWritten) {
  Recorder::Options options;
  options.shard_path = shard(0) + "/no/such/folder";
  EXPECT_EQ(Recorder::create(options).error().kind, ErrorKind::kIo);
  options.events_per_stream = 0;
  EXPECT_EQ(Recorder::create(options).error().kind, ErrorKind::kInvalid);
}

// Between a nanosecond, which no clock is read in, and what traces may tell.
TEST_F(RecorderTest, TellsWhatAnEventCosts) {
  const Result<int64_t> cost_ns = Recorder::event_cost_ns();
  ASSERT_TRUE(cost_ns.has_value());
  EXPECT_GT(*cost_ns, 0);
  Trace trace;
  trace.environment[kEventCost] = std::to_string(*cost_ns);
  EXPECT_EQ(event_cost_ns(trace), *cost_ns);
}

}  // namespace
}  // namespace reprise
