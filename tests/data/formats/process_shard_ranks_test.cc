#include "data/formats/process_shard/process_shard_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/process_shard/process_shard_reader.h"
#include "tests/data/formats/recorded_process.h"

namespace reprise {
namespace {

using Kind = RecordKind;

std::string kernel_shard(const Who& who, int kernels = 1, int32_t device = 0) {
  ShardBuilder shard(header(who));
  for (int i = 0; i < kernels; ++i) {
    shard.add({.start_ns = 100 + i * 10,
               .end_ns = 105 + i * 10,
               .correlation = i,
               .stream = 7,
               .device = device,
               .kind = Kind::kKernel},
              "k");
  }
  shard.end(R"({"end_ns": 9000, "lost": {}})");
  return shard.bytes();
}

// mpirun -> sh -> python, on two ranks; rank 1's python has a data worker that
// recorded a range, and mpirun itself is nobody's.
TEST(ProcessShard, LaunchersShellsAndWorkersAreNoRanks) {
  const Shards shards;
  shards.add("h0.10.process.shard",
             kernel_shard({.program = "/usr/bin/mpirun", .process = 10}, 0));
  for (int64_t rank = 0; rank < 2; ++rank) {
    const int64_t shell = 20 + rank, python = 30 + rank;
    shards.add(fmt::format("h0.{}.process.shard", shell),
               kernel_shard({.program = "/bin/sh",
                             .process = shell,
                             .parent = 10,
                             .rank = rank,
                             .ranks = 2},
                            0));
    shards.add(
        fmt::format("h0.{}.process.shard", python),
        kernel_shard(
            {.process = python, .parent = shell, .rank = rank, .ranks = 2}, 3));
  }
  ShardBuilder worker(header({.process = 40, .parent = 31}));
  worker.add({.start_ns = 1, .end_ns = 2, .stream = 41, .kind = Kind::kRange},
             "load");
  worker.end();
  shards.add("h0.40.process.shard", worker.bytes());
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].process, 30);
  EXPECT_EQ(trace.ranks[1].process, 31);
  const Event* load = find(trace, "load", EventKind::kAnnotation, 1);
  ASSERT_NE(load, nullptr);
  EXPECT_EQ(stream_of(trace, *load).process, 40);
  EXPECT_EQ(stream_of(trace, *load).name, "thread 41 (python3 40)");
  EXPECT_EQ(result->files.size(), 3u);  // Two ranks, and mpirun.
  EXPECT_NE(missing_of(*result).find("h0 10 mpirun is no rank"),
            std::string::npos);
  EXPECT_EQ(trace.events.size(), 7u);  // 2 x 3 kernels and the range.
}

// Of four ranks two ran where the shards were not kept.
TEST(ProcessShard, RanksThatLeftNothingAreTold) {
  const Shards shards;
  for (const int64_t rank : {0, 2}) {
    shards.add(fmt::format("h0.{}.process.shard", 30 + rank),
               kernel_shard({.process = 30 + rank, .rank = rank, .ranks = 4}));
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NE(missing_of(*result).find("Of 4 ranks, rank 1,3 left no shard here"),
            std::string::npos)
      << missing_of(*result);
}

TEST(ProcessShard, WithoutNumbersACommunicatorNumbersRanks) {
  const Shards shards;
  for (int rank = 0; rank < 2; ++rank) {
    // The one that started first is rank 1 of the communicator.
    const Who who{.process = 100 + rank, .start_ns = 2000 - rank};
    ShardBuilder shard(header(who));
    shard.add({.start_ns = 1,
               .end_ns = 2,
               .correlation = 1,
               .bytes = 8,
               .stream = 3,
               .kind = Kind::kCollective},
              "AllReduce", call_info(rank));
    shard.end();
    shards.add(fmt::format("{}.shard", rank), shard.bytes());
  }
  auto result = shards.import();
  ASSERT_TRUE(result);
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].process, 100);
  EXPECT_EQ(trace.ranks[1].process, 101);
}

TEST(ProcessShard, AProcessOfSeveralDevicesIsSeveralRanks) {
  ShardBuilder shard(header({}));
  for (int32_t device = 0; device < 2; ++device) {
    shard
        .add({.start_ns = 10,
              .end_ns = 14,
              .correlation = device,
              .stream = 101,
              .kind = Kind::kCall},
             "cudaLaunchKernel")
        .add({.start_ns = 20,
              .end_ns = 50,
              .correlation = device,
              .stream = 7,
              .device = device,
              .kind = Kind::kKernel},
             "k");
  }
  shard.add({.start_ns = 0, .end_ns = 99, .sequence = 1, .kind = Kind::kStep});
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  const Trace trace = read.gather();
  ASSERT_EQ(trace.ranks.size(), 2u);
  for (const uint32_t rank : {0u, 1u}) {
    EXPECT_NE(find(trace, "k", EventKind::kCompute, rank), nullptr);
    EXPECT_NE(find(trace, "cudaLaunchKernel", EventKind::kRuntime, rank),
              nullptr);
    EXPECT_EQ(trace.ranks[rank].device, fmt::format("cuda:{}", rank));
  }
  EXPECT_EQ(trace.steps.size(), 2u);
}

// An exec keeps the process: its two images have correlations of their own,
// which must not meet.
TEST(ProcessShard, ImagesOfAProcessAreOneRank) {
  const Shards shards;
  shards.add(
      "h0.5.process.shard",
      kernel_shard({.program = "/bin/sh", .process = 5, .rank = 0, .ranks = 1},
                   2));
  shards.add(
      "h0.5.process.2.shard",
      kernel_shard({.process = 5, .rank = 0, .ranks = 1, .start_ns = 2000}, 2));
  auto result = shards.import();
  ASSERT_TRUE(result);
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.ranks.size(), 1u);
  std::vector<int64_t> correlations;
  for (const Event& event : trace.events) {
    correlations.push_back(event.correlation);
  }
  std::sort(correlations.begin(), correlations.end());
  EXPECT_EQ(correlations, (std::vector<int64_t>{0, 1, 2, 3}));
}

// Two hosts that booted apart: their clocks meet in the epoch's.
TEST(ProcessShard, HostsMeetOnTheEpochsClock) {
  const Shards shards;
  shards.add("a/h0.5.process.shard",
             kernel_shard({.process = 5, .rank = 0, .ranks = 2}));
  shards.add("b/h1.5.process.shard",
             kernel_shard({.host = "h1",
                           .boot = "b1",
                           .process = 5,
                           .rank = 1,
                           .ranks = 2,
                           .epoch_offset_ns = 7'000'000}));
  auto result = shards.import();
  ASSERT_TRUE(result);
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(find(trace, "k")->start_ns, 5'000'100);
  EXPECT_EQ(find(trace, "k", EventKind::kCompute, 1)->start_ns, 7'000'100);
}

TEST(ProcessShard, ACommandThatRecordedNothingHasItsLife) {
  const Shards shards;
  shards.add("h0.5.process.shard", kernel_shard({.process = 5}, 0));
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.text(trace.events[0].name), "python3");
  EXPECT_EQ(trace.events[0].start_ns, 1000);
  EXPECT_EQ(trace.events[0].end_ns, 9000);
}

TEST(ProcessShard, WhatIsDamagedIsCountedAndTheRestKept) {
  ShardBuilder shard(header({}));
  std::vector<size_t> borders;
  for (int i = 0; i < 3; ++i) {
    shard.add({.start_ns = i, .end_ns = i, .stream = 1, .kind = Kind::kRange},
              "r");
    shard.flush();
    borders.push_back(shard.bytes().size());
  }
  shard.end(R"({"end_ns": 5, "lost": {"ring full": 12}})");
  const std::string whole = shard.bytes();

  ReadInput good = read_input(process_shard_reader(), whole);
  EXPECT_EQ(good.spool.event_count(), 3);
  EXPECT_EQ(good.report.dropped.at("not recorded: ring full"), 12);

  std::string payload = whole;  // A byte of the second record.
  payload[borders[1] - 1] = static_cast<char>(payload[borders[1] - 1] ^ 1);
  ReadInput flipped = read_input(process_shard_reader(), payload);
  EXPECT_EQ(flipped.spool.event_count(), 2);
  EXPECT_EQ(flipped.report.dropped.at("damaged segment"), 1);

  std::string head = whole;  // A byte of the third segment's header.
  head[borders[1] + 5] = static_cast<char>(head[borders[1] + 5] ^ 1);
  ReadInput resumed = read_input(process_shard_reader(), head);
  EXPECT_EQ(resumed.spool.event_count(), 2);
  EXPECT_EQ(resumed.report.dropped.at("damaged segment"), 1);
  EXPECT_EQ(resumed.report.dropped.at("not recorded: ring full"), 12);

  ReadInput cut =
      read_input(process_shard_reader(), whole.substr(0, borders[2] - 7));
  EXPECT_EQ(cut.spool.event_count(), 2);
  EXPECT_EQ(cut.report.dropped.at("last segment cut short"), 1);
  ASSERT_EQ(cut.report.missing.size(), 1u);
  EXPECT_NE(cut.report.missing[0].find("without closing"), std::string::npos);
}

TEST(ProcessShard, WhatIsNoShardIsRefusedInWords) {
  ReadInput other = read_input(process_shard_reader(), "RPRSHARD and so on");
  EXPECT_FALSE(other.recognized);
  ASSERT_FALSE(other.status);
  EXPECT_NE(other.status.error().message.find("not a process shard"),
            std::string::npos);
  std::string newer = ShardBuilder(header({})).bytes();
  newer[8] = 9;
  ReadInput later = read_input(process_shard_reader(), newer);
  ASSERT_FALSE(later.status);
  EXPECT_EQ(later.status.error().kind, ErrorKind::kUnsupported);
  ReadInput headless = read_input(process_shard_reader(),
                                  newer.replace(8, 1, "\x01").substr(0, 20));
  ASSERT_FALSE(headless.status);
  EXPECT_NE(headless.status.error().message.find("header segment"),
            std::string::npos);
}

TEST(ProcessShard, ARefusedShardDoesNotLoseTheOthers) {
  const Shards shards;
  shards.add("h0.5.process.shard", kernel_shard({.process = 5}));
  std::string newer = kernel_shard({.process = 6});
  newer[8] = 9;
  shards.add("h0.6.process.shard", newer);
  auto result = shards.import();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->files.size(), 2u);
  EXPECT_NE(result->files[1].refused.find("version 9"), std::string::npos);
  EXPECT_EQ(gather(*result).events.size(), 1u);
}

TEST(ProcessShard, ADirectoryWithOtherFilesFallsApart) {
  const Shards shards;
  shards.add("h0.5.process.shard",
             kernel_shard({.process = 5, .rank = 3, .ranks = 4}));
  shards.add("notes.txt", "hello");
  auto result = shards.import();
  ASSERT_TRUE(result);
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].rank, 3u);
}

TEST(ProcessShard, ShellsThatRecordedNothingAreOneSentence) {
  const Shards shards;
  // What a wrapper of python starts before python: a dozen of these.
  const std::vector<std::string> programs = {"/bin/bash", "/bin/bash",
                                             "/usr/bin/readlink"};
  for (size_t i = 0; i < programs.size(); ++i) {
    const auto process = static_cast<int64_t>(10 + i);
    shards.add(fmt::format("h0.{}.process.shard", process),
               kernel_shard({.program = programs[i], .process = process}, 0));
  }
  shards.add("h0.30.process.shard",
             kernel_shard({.process = 30, .rank = 0, .ranks = 1}));
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(missing_of(*result),
            "3 processes that recorded nothing (bash, readlink) are no rank "
            "and belong to none alone: launchers or shells.\n");
}

TEST(ProcessShard, AShardThatCouldNotBeWrittenIsRefusedAndTheRestRead) {
  const Shards shards;
  shards.add("h0.30.process.shard",
             kernel_shard({.process = 30, .rank = 0, .ranks = 1}, 3));
  shards.add("h0.31.process.shard", "");
  shards.add("h0.32.process.shard", "RPR");
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 3u);
  EXPECT_EQ(result->files[1].refused,
            "it is empty: its process could not write it");
  EXPECT_EQ(result->files[2].refused, result->files[1].refused);
  EXPECT_EQ(gather(*result).events.size(), 3u);
}

TEST(ProcessShard, AnUnclosedShardIsNamedOnlyWhereARankHasSeveral) {
  for (const bool is_alone : {true, false}) {
    const Shards shards;
    const Who who{.process = 30, .rank = 0, .ranks = 1};
    ShardBuilder unclosed(header(who));
    unclosed.add(
        {.start_ns = 1, .end_ns = 2, .stream = 7, .kind = Kind::kKernel}, "k");
    shards.add("h0.30.process.shard", unclosed.bytes());
    if (!is_alone) {
      shards.add("h0.29.process.shard",
                 kernel_shard({.process = 29, .rank = 0, .ranks = 1}, 3));
    }
    auto result = shards.import();
    ASSERT_TRUE(result) << result.error().message;
    const std::string missing = missing_of(*result);
    EXPECT_EQ(missing.find("the process ended without closing") == 0, is_alone)
        << missing;
    EXPECT_EQ(missing.find("h0.30.process.shard: the process ended") ==
                  std::string::npos,
              is_alone)
        << missing;
  }
}

/// Steps of a process whose ranges, of 10 ns every 100 ns, have these numbers.
std::vector<StepMark> steps_of(const std::vector<int64_t>& numbers) {
  ShardBuilder shard(header({}));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto start_ns = static_cast<int64_t>(i * 100);
    shard.add({.start_ns = start_ns,
               .end_ns = start_ns + 10,
               .stream = 1,
               .kind = Kind::kRange},
              fmt::format("step {}", numbers[i]));
  }
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  return read.gather().steps;
}

TEST(ProcessShard, StepsOfALaterEpochCountOn) {
  // 5 6 7, then 5 6 again, which are the fourth and the fifth: 8 9.
  const std::vector<StepMark> steps = steps_of({5, 6, 7, 5, 6});
  ASSERT_EQ(steps.size(), 5u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, static_cast<int32_t>(5 + i));
    EXPECT_EQ(steps[i].start_ns, static_cast<int64_t>(i * 100));
  }
  // Numbers that fall elsewhere are no steps, nor those beyond all counting.
  EXPECT_TRUE(steps_of({5, 7, 6}).empty());
  EXPECT_TRUE(steps_of({0, 999999999, 0, 999999999, 0, 999999999}).empty());
}

TEST(ProcessShard, OneStepAloneIsAStep) {
  const std::vector<StepMark> steps = steps_of({41});  // As of --steps 41:42.
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step, 41);
}

}  // namespace
}  // namespace reprise
