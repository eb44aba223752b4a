// Files of the field, where they are beside the checkout.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/data/formats/nsys_import.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

int64_t number_of(const Trace& trace, EventKind kind) {
  return std::count_if(trace.events.begin(), trace.events.end(),
                       [&](const Event& event) { return event.kind == kind; });
}

const std::string kFolder = shared_directory() + "/traces/nsys_sqlite/";

class NsysFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) {
      GTEST_SKIP() << "no real traces beside the checkout";
    }
  }
};

/// Union of the intervals, in ns.
int64_t union_ns(std::vector<std::pair<int64_t, int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  int64_t total = 0;
  int64_t end = INT64_MIN;
  for (const auto& [from, to] : intervals) {
    if (to <= end) continue;
    total += to - std::max(from, end);
    end = to;
  }
  return total;
}

int64_t nanoseconds(double microseconds) {
  return std::llround(microseconds * 1000);
}

TEST_F(NsysFiles, MeetTheTruthOfTwoGpus) {
  const std::string base = kFolder + "nsys-ai/mfu_2gpu_before";
  const Imported result = import_path(base + ".sqlite");
  ASSERT_TRUE(result.status.has_value()) << result.status.error().message;
  const Trace& trace = result.trace;
  const auto truth =
      nlohmann::json::parse(read_file(base + ".truth.json").value());
  const auto& devices = truth.at("traces").at(0).at("devices");
  ASSERT_EQ(trace.ranks.size(), devices.size());
  const int64_t epoch = 1779782330176752435;  // utcEpochNs of the file.
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    const auto& whole = devices.at(rank).at("whole");
    std::vector<std::pair<int64_t, int64_t>> busy, compute, nccl, memory;
    int64_t sum = 0;
    for (const Event& event : trace.events) {
      const std::pair interval(event.start_ns, event.end_ns);
      if (event.rank != rank) continue;
      if (event.kind == EventKind::kCompute) compute.push_back(interval);
      if (event.kind == EventKind::kCollective) nccl.push_back(interval);
      if (event.kind == EventKind::kCopy || event.kind == EventKind::kMemset) {
        memory.push_back(interval);
      }
    }
    for (const auto* kind : {&compute, &nccl, &memory}) {
      busy.insert(busy.end(), kind->begin(), kind->end());
    }
    for (const auto& [from, to] : busy) sum += to - from;
    EXPECT_EQ(busy.size(), whole.at("gpu_events").get<size_t>());
    EXPECT_EQ(compute.size() + nccl.size(), whole.at("kernels").get<size_t>());
    EXPECT_EQ(nccl.size(), whole.at("nccl_kernels").get<size_t>());
    // The truth has three decimals of a microsecond: whole nanoseconds.
    EXPECT_EQ(union_ns(compute), nanoseconds(whole.at("compute_us")));
    EXPECT_EQ(union_ns(nccl), nanoseconds(whole.at("nccl_us")));
    EXPECT_EQ(union_ns(memory), nanoseconds(whole.at("mem_us")));
    EXPECT_EQ(union_ns(busy), nanoseconds(whole.at("gpu_busy_us")));
    EXPECT_EQ(sum,
              nanoseconds(whole.at("sum_per_stream").begin()->get<double>()));
    EXPECT_EQ(std::min_element(busy.begin(), busy.end())->first - epoch,
              nanoseconds(whole.at("window_start")));
  }
}

TEST_F(NsysFiles, HoldWhatTheirTablesHold) {
  // Rows by table, counted with the sqlite3 shell. mfu: 4010 kernels, 1020
  // copies, 269 sets, 366 waits, 7466 calls, 19118 ranges, 6 of overhead.
  const Imported mfu = import_path(kFolder + "nsys-ai/mfu_2gpu_before.sqlite");
  EXPECT_EQ(mfu.report.dialect, "schema 3.25.0 nsys 2026.2.1.210");
  EXPECT_EQ(mfu.report.events, 4010 + 1020 + 269 + 366 + 7466 + 19118 + 6);
  EXPECT_EQ(mfu.report.kernels, 4010);
  EXPECT_EQ(mfu.report.collectives, 66);
  EXPECT_EQ(number_of(mfu.trace, EventKind::kRuntime), 7466);
  EXPECT_EQ(number_of(mfu.trace, EventKind::kSynchronization), 366);
  EXPECT_TRUE(mfu.report.dropped.empty());
  EXPECT_TRUE(mfu.report.repaired.empty());
  EXPECT_EQ(mfu.trace.ranks[0].host, "modal");
  EXPECT_EQ(mfu.trace.ranks[0].clock_domain, "epoch");
  // 3986 of the 4010 kernels have their launch in the cut window.
  std::set<std::pair<uint32_t, int64_t>> launches;
  int64_t launched = 0;
  for (const Event& event : mfu.trace.events) {
    if (event.kind == EventKind::kRuntime) {
      launches.emplace(event.rank, event.correlation);
    }
  }
  for (const Event& event : mfu.trace.events) {
    const bool is_kernel = event.kind == EventKind::kCompute ||
                           event.kind == EventKind::kCollective;
    launched += is_kernel && launches.contains({event.rank, event.correlation});
  }
  EXPECT_EQ(launched, 3986);

  const Imported h100 = import_path(kFolder + "nsys-ai/h100_2gpu_1s.sqlite");
  EXPECT_EQ(h100.report.kernels, 3442);
  EXPECT_EQ(h100.trace.ranks.size(), 2u);
  EXPECT_EQ(number_of(h100.trace, EventKind::kRuntime), 5796);

  const Imported mock = import_path(kFolder + "nsys-ai/mock.sqlite");
  EXPECT_EQ(mock.report.kernels, 2);
  EXPECT_EQ(number_of(mock.trace, EventKind::kRuntime), 9);
  EXPECT_EQ(number_of(mock.trace, EventKind::kOverhead), 25 + 6);
  EXPECT_EQ(mock.trace.ranks[0].device, "NVIDIA GeForce RTX 3080");
  // No NVTX, and one wait for an event that was never recorded.
  EXPECT_EQ(mock.report.missing.size(), 2u);
}

TEST_F(NsysFiles, WithoutKernelsSayWhatThatCosts) {
  const Imported result =
      import_path(kFolder + "no_kernel_table_2025.5/report1.sqlite");
  ASSERT_TRUE(result.status.has_value());
  EXPECT_TRUE(result.report.refused.empty());
  EXPECT_EQ(result.report.kernels, 0);
  EXPECT_EQ(number_of(result.trace, EventKind::kMemset), 1);
  EXPECT_EQ(number_of(result.trace, EventKind::kRuntime), 23);
  EXPECT_EQ(result.report.ignored.at("OS runtime call"), 698);
  ASSERT_FALSE(result.report.missing.empty());
  EXPECT_TRUE(result.report.missing[0].starts_with("No kernels are in the"));
}

TEST_F(NsysFiles, DamagedFilesLoseOnlyWhatIsDamaged) {
  const std::string bytes = read_file(kFolder + "nsys-ai/mock.sqlite").value();
  const std::string path = ::testing::TempDir() + "/nsys_damaged." +
                           std::to_string(::getpid()) + ".sqlite";
  int imported = 0;
  // Cut at each quarter, or with one page of zeros.
  for (int part = 1; part < 12; ++part) {
    std::string damaged = bytes;
    const size_t at = bytes.size() / 12 * static_cast<size_t>(part);
    if (part % 2 == 0) {
      damaged.resize(at);
    } else {
      std::fill_n(damaged.begin() + static_cast<ptrdiff_t>(at / 4096 * 4096),
                  4096, '\0');
    }
    ASSERT_TRUE(write_file_atomically(path, damaged).has_value());
    InputFile input;
    input.name = input.path = path;
    input.head = damaged.substr(0, 65536);
    const auto source = memory_source(damaged);
    input.source = source.get();
    TraceSpool spool;
    FileReport report;
    const Status status = nsys_reader().read(input, spool, report);
    if (!status) {
      EXPECT_FALSE(status.error().message.empty());
    } else {
      ++imported;
    }
  }
  EXPECT_GT(imported, 0);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace reprise
