// The collection of real traces beside the checkout, where there is one: counts
// against its manifest, device time against figures that an independent script
// computed, and the two ways to read a file against each other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/kineto/kineto_reader.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

const std::string kTraces = shared_directory() + "/traces";

struct Row {
  std::string file;
  int64_t events = 0, kernels = 0, nccl = 0, steps = 0;
};

/// Rows of the manifest that are of Kineto's files.
std::vector<Row> manifest() {
  std::vector<Row> rows;
  std::ifstream in(kTraces + "/MANIFEST.tsv");
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, '\t');) {
      cells.push_back(cell);
    }
    // file repo path commit licence bytes rank gpu versions events kernels nccl
    // steps notes
    if (cells.size() < 13 ||
        (!line.starts_with("kineto/") &&
         cells[0].find("kineto_2080ti") == line.npos) ||
        cells[8].find("ET schema") != line.npos) {
      continue;
    }
    rows.push_back({cells[0], std::stoll(cells[9]), std::stoll(cells[10]),
                    std::stoll(cells[11]), std::stoll(cells[12])});
  }
  return rows;
}

std::string bytes_of(const std::string& path, std::string_view member = {}) {
  return bytes_of_member(path, member);
}

int64_t sum(const std::map<std::string, int64_t>& counts) {
  int64_t total = 0;
  for (const auto& [what, count] : counts) total += count;
  return total;
}

TEST(KinetoTraces, EveryFileHasTheCountsOfTheManifest) {
  const std::vector<Row> rows = manifest();
  if (rows.empty()) GTEST_SKIP() << "no collection of traces in " << kTraces;
  EXPECT_GE(rows.size(), 35U);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.file);
    const ReadInput input =
        read_input(kineto_reader(), bytes_of(kTraces + "/" + row.file));
    ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
    EXPECT_TRUE(input.recognized);
    const FileReport& report = input.report;
    EXPECT_TRUE(report.refused.empty()) << report.refused;
    EXPECT_EQ(report.events + sum(report.ignored) + sum(report.dropped),
              row.events);
    EXPECT_EQ(report.kernels, row.kernels);
    // Of Gloo the manifest knows nothing.
    const bool gloo = row.file.find("cpu_only") != row.file.npos;
    EXPECT_EQ(report.collectives, gloo ? 10 : row.nccl);
    EXPECT_EQ(report.steps, row.steps);
    EXPECT_TRUE(report.repaired.empty());
    // No file of the collection is damaged; one is of an MTIA accelerator.
    const bool mtia = row.file.find("mtia") != row.file.npos;
    EXPECT_EQ(sum(report.dropped), mtia ? 2136 : 0);
  }
}

/// Device work of a trace, as the truth files define it.
struct DeviceWork {
  int64_t events = 0, kernels = 0, nccl = 0, nccl_ns = 0;
  int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
  std::map<std::string, int64_t> stream_ns;
};

DeviceWork device_work(const Trace& trace) {
  DeviceWork work;
  for (const Event& event : trace.events) {
    const StreamInfo& stream = trace.streams[event.stream];
    const bool collective = event.kind == EventKind::kCollective;
    const bool kernel = event.kind == EventKind::kCompute || collective;
    if (stream.kind != StreamKind::kDeviceStream ||
        (!kernel && event.kind != EventKind::kCopy &&
         event.kind != EventKind::kMemset)) {
      continue;
    }
    const int64_t duration = event.end_ns - event.start_ns;
    ++work.events;
    work.kernels += kernel;
    work.nccl += collective;
    work.nccl_ns += collective ? duration : 0;
    work.start_ns = std::min(work.start_ns, event.start_ns);
    work.end_ns = std::max(work.end_ns, event.end_ns);
    work.stream_ns[std::to_string(stream.device) + "/" +
                   std::to_string(stream.number)] += duration;
  }
  return work;
}

void expect_truth(const nlohmann::json& truth, const DeviceWork& work) {
  EXPECT_EQ(work.events, truth["gpu_events"]);
  EXPECT_EQ(work.kernels, truth["kernels"]);
  EXPECT_EQ(work.nccl, truth["nccl_kernels"]);
  // Sums over doubles, printed to a nanosecond: each event may add half of one.
  const double tolerance_us = 0.0005 * (1 + static_cast<double>(work.events));
  const auto near_us = [&](int64_t nanoseconds, double microseconds) {
    EXPECT_NEAR(static_cast<double>(nanoseconds) / 1000, microseconds,
                tolerance_us);
  };
  near_us(work.nccl_ns, truth["nccl_sum_us"]);
  near_us(work.end_ns - work.start_ns, truth["window_us"]);
  ASSERT_EQ(work.stream_ns.size(), truth["sum_per_stream"].size());
  for (const auto& [stream, time] : truth["sum_per_stream"].items()) {
    ASSERT_TRUE(work.stream_ns.contains(stream)) << stream;
    near_us(work.stream_ns.at(stream), time.get<double>());
  }
}

TEST(KinetoTraces, DeviceTimeIsThatOfTheTruthFiles) {
  if (!std::filesystem::exists(kTraces)) {
    GTEST_SKIP() << "no collection of traces in " << kTraces;
  }
  size_t compared = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(kTraces + "/kineto")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".truth.json")) continue;
    const auto truth = nlohmann::json::parse(std::ifstream(path));
    for (const auto& one : truth["traces"]) {
      const std::string file = one["file"];
      SCOPED_TRACE(file);
      const std::string folder = entry.path().parent_path().string();
      // "archive/member": the archive has the truth file's name.
      const bool member = file.find('/') != file.npos;
      const std::string input_path =
          member ? path.substr(0, path.size() - 11) + ".tar.gz"
                 : folder + "/" + file;
      ReadInput input =
          read_input(kineto_reader(), bytes_of(input_path, member ? file : ""));
      ASSERT_TRUE(input.status.has_value());
      const Trace trace = input.gather();
      EXPECT_EQ(trace.ranks[0].rank, one["rank"]);
      EXPECT_EQ(trace.steps.size(), one["steps"].size());
      expect_truth(one["whole"], device_work(trace));
      ++compared;
    }
  }
  EXPECT_GE(compared, 12U);
}

TEST(KinetoTraces, BlocksAndSingleEventsMakeTheSameTrace) {
  const std::vector<Row> rows = manifest();
  if (rows.empty()) GTEST_SKIP() << "no collection of traces in " << kTraces;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.file);
    const std::string bytes = bytes_of(kTraces + "/" + row.file);
    // Small blocks: many borders, and many events that lie across one.
    KinetoOptions small;
    small.events.block_bytes = 20'000;
    KinetoOptions single;
    single.events.blocks = false;
    ReadInput blocks = read_input(KinetoReader(small), bytes);
    ReadInput singles = read_input(KinetoReader(single), bytes);
    EXPECT_EQ(blocks.report.events, singles.report.events);
    EXPECT_EQ(blocks.report.ignored, singles.report.ignored);
    EXPECT_EQ(blocks.report.dropped, singles.report.dropped);
    EXPECT_EQ(blocks.report.repaired, singles.report.repaired);
    EXPECT_EQ(blocks.report.dialect, singles.report.dialect);
    EXPECT_TRUE(blocks.gather() == singles.gather());
  }
}

}  // namespace
}  // namespace reprise
