// Real traces against figures that an independent program computed from the
// same files (../shared/traces/**/*.truth.json, read in place): every breakdown
// of the whole trace, of each step as the host saw it and as it was launched.
//
// Where a file prints whole microseconds the figures must be equal. Elsewhere
// the other program added doubles of up to 4e12 us, whose last bit is about
// 1 ns, so each event may bring an error of that.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/import/import.h"
#include "data/trace/trace_spool.h"
#include "replay/analysis/analysis.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kTruthFolder = fs::path(shared_directory()) / "traces";

std::vector<fs::path> truth_files() {
  std::vector<fs::path> found;
  if (!fs::exists(kTruthFolder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(kTruthFolder)) {
    if (entry.path().string().ends_with(".truth.json")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The files whose names start like the truth's.
std::vector<std::string> traces_beside(const fs::path& truth) {
  std::string stem = truth.filename().string();
  stem.resize(stem.size() - std::string(".truth.json").size());
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(truth.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(stem) && !name.ends_with(".truth.json")) {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<Trace> import_trace(const std::vector<std::string>& paths) {
  Result<ImportResult> imported = import_files(paths, {});
  if (!imported) return pass(imported.error());
  return gather_spools(imported->spools);
}

int64_t nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

/// Whether all figures of a window are whole microseconds.
bool is_whole(const Json& window) {
  for (const auto& [key, value] : window.items()) {
    if (value.is_number() && std::fmod(value.get<double>(), 1.0) != 0) {
      return false;
    }
  }
  return true;
}

void expect_window(const Breakdown& found, const Json& truth,
                   const std::string& where) {
  const int64_t tolerance_ns =
      is_whole(truth) ? 0 : truth.at("gpu_events").get<int64_t>();
  const auto expect = [&](const char* key, int64_t value_ns) {
    EXPECT_NEAR(static_cast<double>(value_ns),
                static_cast<double>(nanoseconds(truth.at(key))),
                static_cast<double>(tolerance_ns))
        << where << " " << key;
  };
  expect("window_us", found.window_ns);
  expect("compute_us", found.compute_ns);
  expect("nccl_us", found.communication_ns);
  expect("mem_us", found.memory_ns);
  expect("nccl_overlapped_us", found.overlapped_ns);
  expect("nccl_exposed_us", found.exposed_ns);
  expect("idle_us", found.idle_ns);
  expect("gpu_busy_us", found.window_ns - found.idle_ns);
}

void expect_counts(const RankWork& work, const Json& truth,
                   const std::string& where) {
  int64_t kernels = 0, collectives = 0;
  for (const DeviceEvent& event : work.events) {
    kernels += event.work != WorkClass::kMemory ? 1 : 0;
    collectives += event.work == WorkClass::kCommunication ? 1 : 0;
  }
  EXPECT_EQ(static_cast<int64_t>(work.events.size()),
            truth.at("gpu_events").get<int64_t>())
      << where;
  EXPECT_EQ(kernels, truth.at("kernels").get<int64_t>()) << where;
  EXPECT_EQ(collectives, truth.at("nccl_kernels").get<int64_t>()) << where;
}

void expect_streams(const Trace& trace, const RankAnalysis& rank,
                    const Json& truth, const std::string& where) {
  const Json& busy = truth.at("busy_per_stream");
  EXPECT_EQ(rank.streams.size(), busy.size()) << where;
  for (const StreamIdle& stream : rank.streams) {
    const StreamInfo& info = trace.streams[stream.stream];
    const std::string key = fmt::format("{}/{}", info.device, info.number);
    ASSERT_TRUE(busy.contains(key)) << where << " " << key;
    EXPECT_NEAR(static_cast<double>(stream.busy_ns),
                static_cast<double>(nanoseconds(busy.at(key))),
                is_whole(busy) ? 0.0 : truth.at("gpu_events").get<double>())
        << where << " " << key;
  }
}

void expect_steps(const RankAnalysis& rank, const Json& steps,
                  const std::string& file) {
  ASSERT_EQ(rank.steps.size(), steps.size()) << file;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepAnalysis& step = rank.steps[i];
    const std::string name = steps[i].at("name");
    const std::string where = file + " " + name;
    EXPECT_EQ(step.mark.step, std::stoi(name.substr(name.find('#') + 1)));
    EXPECT_EQ(step.mark.end_ns - step.mark.start_ns,
              nanoseconds(steps[i].at("step_dur_us")))
        << where;
    const Json& iteration = steps[i].at("iteration_time_us");
    // A difference of two doubles that are good to 1 ns.
    EXPECT_NEAR(
        static_cast<double>(step.iteration_ns),
        iteration.is_null() ? -1.0 : iteration.get<double>() * 1e3,
        iteration.is_null() || is_whole(steps[i].at("step_cpu")) ? 0.0 : 1.5)
        << where;
    expect_window(step.host, steps[i].at("step_cpu"), where + " step_cpu");
    expect_window(step.launched, steps[i].at("step_launched"),
                  where + " step_launched");
    EXPECT_EQ(step.idle.total_ns(), step.host.idle_ns) << where;
  }
}

void expect_rank(const Trace& trace, const Analysis& analysis, uint32_t number,
                 const Json& truth, const std::string& where) {
  for (const RankAnalysis& rank : analysis.ranks) {
    if (rank.rank != number) continue;
    const Json& whole = truth.at("whole");
    expect_window(rank.window, whole, where + " whole");
    expect_counts(device_work(trace, number), whole, where);
    expect_streams(trace, rank, whole, where);
    if (truth.contains("steps")) expect_steps(rank, truth["steps"], where);
    return;
  }
  ADD_FAILURE() << where << ": no rank " << number;
}

TEST(BreakdownTruth, EveryFigureOfEveryFileIsMet) {
  const std::vector<fs::path> files = truth_files();
  if (files.empty()) GTEST_SKIP() << "../shared/traces is not beside this tree";
  int ranks = 0;
  for (const fs::path& file : files) {
    const Json truth = Json::parse(std::ifstream(file));
    if (!truth.contains("traces")) continue;  // Chakra: no times.
    Result<Trace> trace = import_trace(traces_beside(file));
    ASSERT_TRUE(trace) << file << ": " << trace.error().message;
    const AlignedTrace aligned = AlignedTrace::align(*trace);
    const Result<Analysis> analysis =
        analyze(aligned, {.step = std::nullopt, .critical_path = false});
    ASSERT_TRUE(analysis) << file << ": " << analysis.error().message;
    for (const Json& one : truth["traces"]) {
      const std::string name = one.at("file");
      if (one.contains("devices")) {
        uint32_t rank = 0;
        for (const Json& device : one["devices"]) {
          expect_rank(*trace, *analysis, rank++, device, name);
          ++ranks;
        }
      } else {
        expect_rank(*trace, *analysis, one.at("rank"), one, name);
        ++ranks;
      }
    }
  }
  // 8 of DLRM, 2 sampled, 2 of nsys, 1 each of the other two.
  EXPECT_GE(ranks, 14);
}

}  // namespace
}  // namespace reprise
