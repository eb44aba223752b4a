// The real injection library over the fake CUPTI, both versions: what is in
// the shard is what was played, record by record.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/profiler/inject/fake_cupti_script.h"
#include "tests/profiler/inject/host_process.h"

namespace reprise {
namespace {

using fake::Round;

struct Version {
  const char* library;
  const char* note;
};

class InjectCupti : public testing::TestWithParam<Version> {
 protected:
  int play(const std::string& scenario, Variables more = {}) const {
    more.emplace_back("FAKE_CUPTI_PATH", GetParam().library);
    return host_.run_injected({FAKE_CUDA_PROGRAM, scenario}, more);
  }
  HostProcesses host_;
};

std::vector<int64_t> starts(const std::vector<ProcessRecord>& records) {
  std::vector<int64_t> all;
  for (const ProcessRecord& record : records) all.push_back(record.start_ns);
  std::ranges::sort(all);
  return all;
}

/// Records of one shard, by start: the script gives no time twice.
class Recorded {
 public:
  explicit Recorded(const StrictShardContents& shard) : shard_(shard) {
    for (const ProcessRecord& record : shard.records) {
      if (record.start_ns != 0) by_start_[record.start_ns] = record;
    }
  }
  size_t size() const { return by_start_.size(); }
  const ProcessRecord& at(uint64_t start) const {
    return by_start_.at(static_cast<int64_t>(start));
  }

  /// Checks what every record has; returns it for the rest.
  ProcessRecord check(uint64_t start, RecordKind kind, const std::string& name,
                      int64_t correlation, int64_t stream,
                      int32_t device) const {
    const auto found = by_start_.find(static_cast<int64_t>(start));
    if (found == by_start_.end()) {
      ADD_FAILURE() << "no record at " << start;
      return {};
    }
    const ProcessRecord& record = found->second;
    EXPECT_EQ(record.kind, kind) << start;
    EXPECT_EQ(record.end_ns, record.start_ns + 5);
    EXPECT_EQ(shard_.name(record), name) << start;
    EXPECT_EQ(record.correlation, correlation) << start;
    EXPECT_EQ(record.stream, stream) << start;
    EXPECT_EQ(record.device, device) << start;
    return record;
  }
  ProcessRecord call(const Round& round, uint64_t start, uint32_t number,
                     const std::string& name,
                     RecordKind kind = RecordKind::kCall) const {
    return check(round.time + start, kind, name, round.correlation + number,
                 round.thread_id, -1);
  }
  ProcessRecord work(const Round& round, uint64_t start, uint32_t number,
                     RecordKind kind, const std::string& name) const {
    return check(round.time + start, kind, name, round.correlation + number,
                 round.stream, 0);
  }
  ProcessRecord kernel(const Round& round, uint64_t start,
                       uint32_t number) const {
    // _Z6kernelIfEvPT_ is a template's instance.
    return work(round, start, number, RecordKind::kKernel,
                "void kernel<float>(float*)");
  }
  nlohmann::json info(const ProcessRecord& record) const {
    return shard_.info(record);
  }

 private:
  const StrictShardContents& shard_;
  std::map<int64_t, ProcessRecord> by_start_;
};

void check_launches(const Recorded& recorded, const Round& round) {
  const auto unit = static_cast<int64_t>(round.unit);
  // Of the driver's launch within the runtime's, only the latter is there: its
  // start is 9, the driver's 10.
  EXPECT_EQ(recorded.call(round, 9, 0, "cudaLaunchKernel").external_id, unit);
  const ProcessRecord kernel = recorded.kernel(round, 20, 0);
  EXPECT_EQ(kernel.external_id, unit);
  EXPECT_EQ(kernel.graph_node, -1);
  EXPECT_EQ(recorded.info(kernel), nlohmann::json::parse(R"({
      "grid": [64, 1, 1], "block": [128, 1, 1], "registers": 32,
      "static_shared_bytes": 1024, "dynamic_shared_bytes": 4096})"));
  EXPECT_EQ(recorded.call(round, 30, 1, "cuLaunchKernel").external_id, -1);
  EXPECT_EQ(recorded.kernel(round, 40, 1).external_id, -1);
  recorded.call(round, 120, 7, "cudaGraphLaunch", RecordKind::kGraphLaunch);
  EXPECT_EQ(recorded.kernel(round, 130, 7).graph_node, 900);
  EXPECT_EQ(recorded.kernel(round, 140, 7).graph_node, 901);
}

void check_copies(const Recorded& recorded, const Round& round) {
  recorded.call(round, 50, 2, "cudaMemcpyAsync");
  const ProcessRecord copy =
      recorded.work(round, 60, 2, RecordKind::kCopy, "Memcpy HtoD");
  EXPECT_EQ(copy.bytes, 4096 + static_cast<int64_t>(round.unit));
  EXPECT_EQ(recorded.info(copy),
            nlohmann::json::parse(
                R"({"kind": "HtoD", "source": "pinned", "target": "device"})"));
  const ProcessRecord peer =
      recorded.work(round, 70, 3, RecordKind::kCopy, "Memcpy PtoP");
  EXPECT_EQ(peer.bytes, 8192);
  EXPECT_EQ(recorded.info(peer),
            nlohmann::json::parse(
                R"({"kind": "PtoP", "source_device": 0, "target_device": 1})"));
  recorded.call(round, 80, 4, "cudaMemsetAsync");
  EXPECT_EQ(recorded.work(round, 90, 4, RecordKind::kMemset, "Memset").bytes,
            512);
}

void check_waits(const Recorded& recorded, const Round& round) {
  recorded.call(round, 100, 5, "cudaEventRecord");
  recorded.call(round, 108, 6, "cudaStreamWaitEvent");
  // Stream 1 waits for what call 5 recorded on this thread's stream.
  const ProcessRecord wait =
      recorded.check(round.time + 110, RecordKind::kSynchronization,
                     "Stream Wait Event", round.correlation + 6, 1, 0);
  EXPECT_EQ(recorded.info(wait),
            nlohmann::json({{"kind", "stream-wait"},
                            {"waited_stream", round.stream},
                            {"waited_correlation", round.correlation + 5}}));
  recorded.call(round, 150, 8, "cudaStreamSynchronize");
  const ProcessRecord join =
      recorded.work(round, 152, 8, RecordKind::kSynchronization, "Stream Sync");
  EXPECT_EQ(recorded.info(join), nlohmann::json({{"kind", "stream"}}));
}

TEST_P(InjectCupti, TheShardIsWhatWasPlayed) {
  ASSERT_EQ(play("records"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_EQ(shard.notes.at("cupti"),
            GetParam().note + std::string(GetParam().library));
  const Recorded recorded(shard);
  for (int thread = 0; thread < fake::kThreads; ++thread) {
    for (uint32_t number = 0; number < fake::kRounds; ++number) {
      const Round round(thread, number);
      check_launches(recorded, round);
      check_copies(recorded, round);
      check_waits(recorded, round);
      recorded.check(round.time + 180, RecordKind::kOverhead, "Instrumentation",
                     -1, round.thread_id, -1);
      if (HasFailure()) return;
    }
  }
  // 7 calls (one of the driver), a graph's launch, 4 kernels, 2 copies, a
  // memset, 2 waits, an overhead: 18 in each round, and the last kernel.
  constexpr uint64_t kRounds = fake::kThreads * fake::kRounds;
  EXPECT_EQ(recorded.size(), 18 * kRounds + 1);
  EXPECT_EQ(shard.of(RecordKind::kExternal).size(), kRounds);
  EXPECT_EQ(shard.records.size(), 19 * kRounds + 1);
  EXPECT_EQ(shard.end.at("lost"), nlohmann::json({{"cupti dropped", 11},
                                                  {"incomplete", kRounds},
                                                  {"no timestamp", kRounds}}));
}

TEST_P(InjectCupti, ACallOverTwoBuffersIsOne) {
  ASSERT_EQ(play("split-call"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  std::vector<std::string> calls;
  for (const ProcessRecord& call : shard.of(RecordKind::kCall)) {
    calls.push_back(shard.name(call));
  }
  EXPECT_EQ(calls,
            (std::vector<std::string>{"cudaLaunchKernel", "cuLaunchKernel"}));
}

TEST_P(InjectCupti, UnitsNameTheirKernelsAndTheNodesOfGraphs) {
  ASSERT_EQ(play("units"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  std::map<int64_t, int64_t> unit_of_launch;
  const int64_t base = Round(0, 0).correlation;
  for (const ProcessRecord& kernel : shard.of(RecordKind::kKernel)) {
    unit_of_launch[kernel.correlation - base] = kernel.external_id;
  }
  EXPECT_EQ(unit_of_launch,
            (std::map<int64_t, int64_t>{{1, 42}, {2, 43}, {3, 42}, {4, -1}}));
  std::map<int64_t, std::pair<int64_t, int64_t>> nodes;
  for (const ProcessRecord& node : shard.of(RecordKind::kGraphNode)) {
    nodes[node.graph_node] = {node.external_id, node.sequence};
  }
  EXPECT_EQ(nodes,
            (std::map<int64_t, std::pair<int64_t, int64_t>>{{100, {43, -1}},
                                                            {101, {42, -1}},
                                                            {102, {-1, -1}},
                                                            {200, {-1, 100}},
                                                            {201, {-1, 101}}}));
}

TEST_P(InjectCupti, AWindowOfStepsHoldsTheseSteps) {
  ASSERT_EQ(play("steps", {{"REPRISE_PROFILE_STEPS", "2:4"}}), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  std::vector<int64_t> kernels;
  for (const uint32_t step : {2U, 3U}) {
    kernels.push_back(static_cast<int64_t>(Round(0, step).time));
  }
  EXPECT_EQ(starts(shard.of(RecordKind::kKernel)), kernels);
  const auto steps = shard.of(RecordKind::kStep);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].sequence, 2);
  EXPECT_EQ(steps[0].flags, 1);  // Steps 0 to 2 are warm-up.
  EXPECT_EQ(steps[0].start_ns, 12);
  EXPECT_EQ(steps[1].sequence, 3);
  EXPECT_EQ(steps[1].flags, 0);
  EXPECT_EQ(steps[1].end_ns, 23);
}

TEST_P(InjectCupti, AStepThatIsLeftOutRecordsNoNodesOfItsGraph) {
  ASSERT_EQ(play("left-out-graph"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  std::vector<int64_t> kernels;
  for (const uint32_t step : {0U, 1U, 2U, 4U, 5U})
    kernels.push_back(static_cast<int64_t>(Round(0, step).time));
  EXPECT_EQ(starts(shard.of(RecordKind::kKernel)), kernels);
  EXPECT_EQ(shard.of(RecordKind::kStep).size(), 5U);
}

TEST_P(InjectCupti, TheProgramsProfilerRangeIsAWindow) {
  ASSERT_EQ(play("profiler-range", {{"REPRISE_PROFILE_WINDOW", "api"}}),
            kStatus7);
  std::vector<int64_t> kernels;
  for (const uint32_t round : {1U, 2U, 3U}) {
    kernels.push_back(static_cast<int64_t>(Round(0, round).time));
  }
  EXPECT_EQ(starts(host_.only_shard().of(RecordKind::kKernel)), kernels);
}

TEST_P(InjectCupti, ARefusedSubscriptionIsSaid) {
  ASSERT_EQ(play("records", {{"FAKE_CUPTI_REFUSE", "39"}}), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_TRUE(shard.records.empty());
  const std::string note = shard.notes.at("cupti");
  EXPECT_NE(note.find(": held by "), std::string::npos) << note;
  // Only the newer subscription tells who it is.
  EXPECT_EQ(note.find("Nsight Systems") != std::string::npos,
            GetParam().note == std::string("version 130001, "));
  EXPECT_NE(note.find("NVTX ranges and NCCL's collectives are"),
            std::string::npos)
      << note;
  EXPECT_FALSE(shard.end.is_null());
}

// An older CUPTI does not say who holds it: the process shows.
TEST_P(InjectCupti, WhoHoldsItIsSeenInTheProcess) {
  ASSERT_EQ(play("records", {{"FAKE_CUPTI_REFUSE", "39"},
                             {"NSYS_PROFILING_SESSION_ID", "1"}}),
            kStatus7);
  const std::string note = host_.only_shard().notes.at("cupti");
  EXPECT_NE(note.find(": held by Nsight Systems"), std::string::npos) << note;
}

// From CUDA 13.2 on subscribers may share it.
TEST_P(InjectCupti, SharesWithAnotherToolWhereCuptiCan) {
  if (GetParam().note != std::string("version 130001, ")) GTEST_SKIP();
  ASSERT_EQ(play("records",
                 {{"FAKE_CUPTI_REFUSE", "39"}, {"FAKE_CUPTI_SHARES", "1"}}),
            kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_FALSE(shard.records.empty());
  EXPECT_NE(shard.notes.at("cupti").find(", shared with Nsight Systems"),
            std::string::npos)
      << shard.notes.at("cupti");
}

TEST_P(InjectCupti, AMissingDriverIsSaid) {
  ASSERT_EQ(play("records", {{"FAKE_CUPTI_REFUSE", "999"}}), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_TRUE(shard.records.empty());
  const std::string note = shard.notes.at("cupti");
  EXPECT_NE(note.find("CUPTI_ERROR_OF_THE_FAKE (999)"), std::string::npos);
  EXPECT_NE(note.find("no driver"), std::string::npos) << note;
}

TEST_P(InjectCupti, AKilledProgramLeavesWhatWasFlushed) {
  EXPECT_EQ(play("killed"), SIGKILL);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_EQ(shard.of(RecordKind::kKernel).size(), 100U);
  EXPECT_TRUE(shard.end.is_null());
}

TEST_P(InjectCupti, AKilledProgramWhoseQueueWasNeverEmptyLosesABufferAtMost) {
  EXPECT_EQ(play("busy"), SIGKILL);
  const StrictShardContents shard = host_.only_shard();
  // The queue may lie over two buffers of 64 KiB; a kernel has 160 bytes or
  // more in every version.
  constexpr size_t kHeld = fake::kQueuedKernels + 2 * (size_t{64} << 10) / 160;
  static_assert(4 * kHeld < fake::kBusyKernels);
  EXPECT_GE(shard.of(RecordKind::kKernel).size(), fake::kBusyKernels - kHeld);
  EXPECT_TRUE(shard.end.is_null());
}

TEST_P(InjectCupti, AProgramThatEndsAtOnceLosesNothing) {
  EXPECT_EQ(play("exits-at-once"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_EQ(shard.of(RecordKind::kKernel).size(), 100U);
  EXPECT_FALSE(shard.end.is_null());
}

TEST_P(InjectCupti, AnotherToolGetsItsRecordsAndOursKeepsThem) {
  EXPECT_EQ(play("guest"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  std::vector<int64_t> kernels;
  for (const uint32_t round : {0U, 1U, 2U, 3U, 4U}) {
    kernels.push_back(static_cast<int64_t>(Round(0, round).time));
  }
  EXPECT_EQ(starts(shard.of(RecordKind::kKernel)), kernels);
  const std::string note = shard.notes.at("cupti guest");
  EXPECT_TRUE(note.starts_with(
      "fake_cuda_program recorded device work itself 2 times, "))
      << note;
  EXPECT_TRUE(note.ends_with("that work is in its trace and in this one"))
      << note;
}

TEST_P(InjectCupti, AForkedWorkerHasAShardOfItsOwn) {
  EXPECT_EQ(play("forked-worker"), kStatus7);
  std::multiset<size_t> kernels;
  for (const auto& [name, shard] : host_.shards()) {
    kernels.insert(shard.of(RecordKind::kKernel).size());
    EXPECT_FALSE(shard.end.is_null()) << name;
  }
  EXPECT_EQ(kernels, (std::multiset<size_t>{0, 100}));
}

TEST_P(InjectCupti, WithoutOurClockTimesAreShifted) {
  ASSERT_EQ(play("steps", {{"FAKE_CUPTI_NO_CLOCK", "1"}}), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  const std::string note = shard.notes.at("cupti clock");
  const std::string before = "its own, shifted by ";
  ASSERT_TRUE(note.starts_with(before)) << note;
  const int64_t shift = std::stoll(note.substr(before.size()));
  EXPECT_GT(shift, 0);  // The fake's clock says 1.
  const auto kernels = shard.of(RecordKind::kKernel);
  ASSERT_EQ(kernels.size(), 6U);
  EXPECT_EQ(kernels[0].start_ns,
            static_cast<int64_t>(Round(0, 0).time) + shift);
  EXPECT_EQ(kernels[0].end_ns, kernels[0].start_ns + 5);
}

TEST_P(InjectCupti, AKindThatIsRefusedIsSaid) {
  // Without kind 36, events, waits do not know whom they wait for.
  ASSERT_EQ(play("records", {{"FAKE_CUPTI_REFUSE_KIND", "36"}}), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_EQ(shard.notes.at("cupti refused"),
            "kind 36: CUPTI_ERROR_OF_THE_FAKE (27); ");
  const auto waits = shard.of(RecordKind::kSynchronization);
  EXPECT_EQ(waits.size(), size_t{2 * fake::kThreads * fake::kRounds});
  for (const ProcessRecord& wait : waits) {
    EXPECT_FALSE(shard.info(wait).contains("waited_stream"));
  }
}

TEST_P(InjectCupti, ALibraryOfTheToolkitIsFound) {
  const auto home = host_.directory() / "toolkit";
  const auto library =
      home / "lib64" / std::filesystem::path(GetParam().library).filename();
  std::filesystem::create_directories(library.parent_path());
  std::filesystem::copy_file(GetParam().library, library);
  ASSERT_EQ(
      host_.run_injected({FAKE_CUDA_PROGRAM}, {{"CUDA_HOME", home.string()}}),
      kStatus7);
  EXPECT_EQ(host_.only_shard().notes.at("cupti"),
            GetParam().note + library.string());
}

TEST_P(InjectCupti, ALibraryBesideTheProgramsWheelsIsFound) {
  // As Python's packages lie: the program has loaded the runtime's.
  const auto wheels = host_.directory() / "site-packages" / "nvidia";
  const auto runtime = wheels / "cuda_runtime" / "lib" / "libcudart.so.12";
  const auto library = wheels / "cuda_cupti" / "lib" /
                       std::filesystem::path(GetParam().library).filename();
  for (const auto& path : {runtime, library}) {
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::copy_file(GetParam().library, path);
  }
  ASSERT_EQ(host_.run_injected({FAKE_CUDA_PROGRAM},
                               {{"FAKE_CUPTI_PATH", runtime.string()}}),
            kStatus7);
  EXPECT_EQ(host_.only_shard().notes.at("cupti"),
            GetParam().note + library.string());
}

TEST_P(InjectCupti, ALibraryThatIsNamedIsFound) {
  // Not loaded by the program: REPRISE_CUPTI leads to it.
  ASSERT_EQ(host_.run_injected({FAKE_CUDA_PROGRAM},
                               {{"REPRISE_CUPTI", GetParam().library}}),
            kStatus7);
  EXPECT_EQ(host_.only_shard().notes.at("cupti"),
            GetParam().note + std::string(GetParam().library));
}

TEST_P(InjectCupti, WithoutADirectoryNothingHappens) {
  ASSERT_EQ(host_.run({FAKE_CUDA_PROGRAM, "units"},
                      {{"CUDA_INJECTION64_PATH", REPRISE_INJECT},
                       {"FAKE_CUPTI_PATH", GetParam().library}}),
            kStatus7);
  EXPECT_TRUE(host_.shards().empty());
}

INSTANTIATE_TEST_SUITE_P(Versions, InjectCupti,
                         testing::Values(Version{FAKE_CUPTI_12, "version 24, "},
                                         Version{FAKE_CUPTI_13,
                                                 "version 130001, "}),
                         [](const auto& version) {
                           return version.index == 0 ? "Cuda12" : "Cuda13";
                         });

}  // namespace
}  // namespace reprise
