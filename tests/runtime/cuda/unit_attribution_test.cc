// `reprise profile` over reprise-train on the fake device, whose work the fake
// CUPTI reports: every kernel and copy of every step belongs to the unit that
// the schedule names, in its order, and none to another.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/process.h"
#include "data/file.h"
#include "data/formats/process_shard/process_shard_reader.h"
#include "data/import/import.h"
#include "data/program/lowered_program.h"
#include "data/trace/trace.h"
#include "data/trace/trace_spool.h"
#include "tests/runtime/cuda/unit_truth.h"
#include "tests/testing/directories.h"
#include "tests/testing/random_plan.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr int32_t kSteps = 4;
/// The fake CUPTI's numbers of the executor's streams, in the order in which it
/// makes them; and what its graphs' branches run on.
constexpr StreamNumbers kEager = {13, 14, 15};
constexpr StreamNumbers kGraph = {13, 1014, 1015};

struct ProfiledRun {
  std::string program = "mlp.1";
  int64_t ranks = 1;
  DeviceCollectives collectives = DeviceCollectives::kNone;
  bool graph = true;
  std::string cupti = FAKE_CUPTI_13;
  int devices = 1;
  std::string plan = {};  ///< A file.
  Words profile_flags = {};
  Variables variables = {};
};

bool is_kernel(const DeviceOperation& operation) {
  return !operation.name.starts_with("Memcpy");
}

std::string source(const std::string& program) {
  return fmt::format("{}/data/programs/{}.hlo", source_directory(), program);
}

class UnitAttribution : public testing::Test {
 protected:
  UnitAttribution() {
    std::string name = testing::TempDir() + "attribution.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
  }
  ~UnitAttribution() override { fs::remove_all(directory_); }

  std::string trace_path() const { return directory_ / "run.trace"; }

  /// Profiles a run; false when it failed.
  bool profile(const ProfiledRun& run) {
    Words words = {REPRISE,      "profile",       "-o",
                   trace_path(), "--keep-shards", directory_ / "shards"};
    words.insert(words.end(), run.profile_flags.begin(),
                 run.profile_flags.end());
    words.emplace_back("--");
    if (run.ranks > 1) {
      words.insert(words.end(), {MPIEXEC, "--oversubscribe", "--bind-to",
                                 "none", "-n", fmt::to_string(run.ranks)});
    }
    words.insert(words.end(),
                 {REPRISE_TRAIN, source(run.program), "--device", "cuda",
                  "--steps", fmt::to_string(kSteps), "--warmup", "1", "--cache",
                  kernel_cache(), "--result", directory_ / "result.json"});
    if (!run.plan.empty()) words.insert(words.end(), {"--plan", run.plan});
    if (!run.graph) words.emplace_back("--no-graph");
    Variables variables = {{"LD_LIBRARY_PATH", FAKE_LIBRARIES},
                           {"REPRISE_CUPTI", run.cupti},
                           {"FAKE_CUDA_STRICT", "1"},
                           {"FAKE_CUDA_SEED", "3"},
                           {"FAKE_CUDA_DEVICES", fmt::to_string(run.devices)},
                           {"OMP_NUM_THREADS", "1"},
                           {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    variables.insert(variables.end(), run.variables.begin(),
                     run.variables.end());
    const Result<int> status = run_process(words, variables);
    EXPECT_EQ(status.value_or(-1), 0);
    return status.value_or(-1) == 0 && read_shards();
  }

  /// Everything that differs from the schedule in the steps given.
  Words differences(const ProfiledRun& run, int32_t first = 0,
                    int32_t end = kSteps) {
    const auto program =
        load_lowered_program(source(run.program), run.plan, run.ranks);
    if (!program) return {program.error().message};
    const auto scheduled =
        scheduled_step(*program, run.collectives, kernel_cache());
    if (!scheduled) return {scheduled.error().message};
    const auto trainer = read_trace(trace_path());
    if (!trainer) return {trainer.error().message};
    Words all;
    const auto add = [&](const Words& more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    for (uint32_t rank = 0; rank < static_cast<uint32_t>(run.ranks); ++rank) {
      // A graph that was made before the window opened is not recorded.
      const bool graph = run.graph && first == 0;
      for (int32_t step = first; step < end; ++step) {
        add(compare_records(device_, rank, step,
                            graph && step > 0 ? kGraph : kEager, *scheduled));
        add(compare_units(*trainer, device_, rank, step, program->schedule,
                          *scheduled));
      }
    }
    EXPECT_EQ(trainer->steps.size(),
              static_cast<size_t>((end - first) * run.ranks));
    const bool is_whole = first == 0 && end == kSteps;
    EXPECT_EQ(trainer->warnings.empty(), is_whole)
        << fmt::format("{}", fmt::join(trainer->warnings, "; "));
    return all;
  }

  /// A verb's JSON; null when it failed.
  nlohmann::json answer(const Words& words) const {
    std::string command = REPRISE;
    for (const std::string& word : words) command += " " + word;
    command += " --format json";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
        ::popen(command.c_str(), "r"), ::pclose);
    std::string text;
    for (int letter = 0; (letter = std::fgetc(pipe.get())) != EOF;)
      text += static_cast<char>(letter);
    return nlohmann::json::parse(text, nullptr, false);
  }

  void expect_attributed(const ProfiledRun& run) {
    ASSERT_TRUE(profile(run));
    EXPECT_EQ(differences(run), Words());
  }

  static std::string kernel_cache() {
    return build_directory() + "/kernel_cache";
  }

  fs::path directory_;
  Trace device_;

 private:
  bool read_shards() {
    const std::string shards = directory_ / "shards";
    ImportOptions options;
    options.kind = process_shards_reader().kind();
    options.spool_directory = directory_;
    auto read = import_files(std::vector{shards}, options);
    if (!read) return false;
    auto trace = gather_spools(read->spools);
    if (!trace) return false;
    device_ = std::move(*trace);
    return true;
  }
};

TEST_F(UnitAttribution, EagerStepsByExternalIds) {
  expect_attributed({.graph = false});
}

// The first step is eager, then its capture makes the nodes, and every later
// step is a replay: one launch, under no unit.
TEST_F(UnitAttribution, GraphsByTheirNodes) { expect_attributed({}); }

TEST_F(UnitAttribution, RecordsOfCuda12) {
  expect_attributed({.cupti = FAKE_CUPTI_12});
}

TEST_F(UnitAttribution, TwoRanksOverNccl) {
  for (const bool graph : {false, true}) {
    expect_attributed({.program = "mlp.2",
                       .ranks = 2,
                       .collectives = DeviceCollectives::kNccl,
                       .graph = graph,
                       .devices = 2,
                       .profile_flags = {"--force"}});
    fs::remove_all(directory_ / "shards");
  }
}

// A thread of its own makes these calls, so units are told from two threads.
TEST_F(UnitAttribution, TwoRanksThroughTheHost) {
  expect_attributed({.program = "mlp.2",
                     .ranks = 2,
                     .collectives = DeviceCollectives::kGloo,
                     .graph = false});
}

// Groups, buckets, chunks, and an order that is not the program's.
TEST_F(UnitAttribution, UnitsOfAPlan) {
  const auto program = load_lowered_program(source("mlp.2"), "", 2);
  ASSERT_TRUE(program) << program.error().message;
  Plan plan = random_valid_plan(program->module, 5, 2);
  const std::string path = directory_ / "plan.json";
  ASSERT_TRUE(write_file_atomically(path, print_plan(plan)));
  expect_attributed({.program = "mlp.2",
                     .ranks = 2,
                     .collectives = DeviceCollectives::kNccl,
                     .devices = 2,
                     .plan = path});
}

// Launched one by one.
TEST_F(UnitAttribution, StepsOfAWindow) {
  const ProfiledRun run = {.profile_flags = {"--steps", "2:4"}};
  ASSERT_TRUE(profile(run));
  EXPECT_EQ(differences(run, 2, 4), Words());
}

TEST_F(UnitAttribution, TheTraceIsAnalyzedAndReplayed) {
  ASSERT_TRUE(profile({}));
  const auto info = answer({"info", trace_path()});
  EXPECT_EQ(info.at("ranks").at(0).at("device"), "cuda") << info;
  const auto analysis = answer({"analyze", trace_path()});
  EXPECT_GT(analysis.at("ranks").at(0).at("compute_ns"), 0) << analysis;
  const auto replay = answer({"replay", trace_path()});
  EXPECT_GT(replay.at("step_time_ns").at("predicted"), 0) << replay;
}

// The check above is one: where the trainer's units are not told, it finds
// every operation of every unit without one.
TEST_F(UnitAttribution, WithoutUnitsEveryOperationDiffers) {
  for (const bool graph : {false, true}) {
    const ProfiledRun run = {.graph = graph,
                             .profile_flags = {"--force"},
                             .variables = {{"LD_PRELOAD", MUTE_UNITS}}};
    ASSERT_TRUE(profile(run));
    fs::remove_all(directory_ / "shards");
    const auto program = load_lowered_program(source("mlp.1"), "", 1);
    ASSERT_TRUE(program);
    const auto scheduled =
        scheduled_step(*program, run.collectives, kernel_cache());
    ASSERT_TRUE(scheduled);
    for (int32_t step = 0; step < kSteps; ++step) {
      const Words wrong = compare_records(
          device_, 0, step, graph && step > 0 ? kGraph : kEager, *scheduled);
      EXPECT_EQ(wrong.size(), scheduled->compute.size());
    }
    const auto trainer = read_trace(trace_path());
    ASSERT_TRUE(trainer);
    EXPECT_EQ(
        trainer->warnings,
        Words{fmt::format(
            "rank 0: {} kernels of its steps belong to no unit",
            kSteps * std::count_if(scheduled->compute.begin(),
                                   scheduled->compute.end(), is_kernel))});
  }
}

}  // namespace
}  // namespace reprise
