// Every real dump beside the checkout: lowered and priced, with its peak of
// memory, and run, or the one reason why not. A dump that starts to run, or
// stops, fails; what runs is run by tests/cli/dumps_test.py. The table is
// printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/hlo/hlo.h"
#include "data/hlo/proto/hlo_proto.h"
#include "data/manifest/infer.h"
#include "data/plan/plan.h"
#include "data/program/refusals.h"
#include "data/schedule/schedule.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

const fs::path kDumps = fs::path(source_directory()) / ".." / "shared" / "hlo";

/// What is said of a dump that does not run; of one that is not even lowered,
/// with neither price nor peak, after "not lowered: ".
struct Reason {
  const char* file;  ///< Without the ending.
  const char* reason;
};

constexpr const char* kAttention =
    "custom-call \"te_fused_attn_forward_ffi\" with a tuple result does not "
    "run";
constexpr const char* kGelu = "custom-call \"AwsNeuronGelu\" does not run";
constexpr const char* kInfeed = "infeed with a tuple result does not run";

/// All others run.
constexpr Reason kReasons[] = {
    {"hlo_llama31_405b_bf16_16x8", kAttention},
    {"hlo_llama31_405b_bf16_64x8", kAttention},
    {"hlo_llama31_405b_fp8_16x8", kAttention},
    {"hlo_llama31_405b_fp8_64x8", kAttention},
    {"hlo_llama31_70b_bf16_16x8", kAttention},
    {"hlo_llama31_70b_bf16_32x8", kAttention},
    {"hlo_llama31_70b_fp8_16x8", kAttention},
    {"hlo_llama31_70b_fp8_32x8", kAttention},
    {"hlo_llama31_8b_bf16_1x8", kAttention},
    {"hlo_llama31_8b_bf16_2x8", kAttention},
    {"hlo_mixtral_8x7b_bf16_1x8", kAttention},
    {"hlo_mixtral_8x7b_bf16_2x8", kAttention},
    {"nv_maxtext_1n1g_jit_train_step_before_optimization",
     "not lowered: the partitioner that makes one rank's program"},
    {"tf_mnist_training_loop", kInfeed},
    {"tfipu_cnn_train_dp", kInfeed},
    {"tfipu_conv_pipeline_dp", kInfeed},
    {"tfipu_linreg_train_dp", kInfeed},
    {"tfipu_rnn", "not lowered: a tuple made by get-tuple-element"},
    {"torchxla_bert_baseline1", kGelu},
    {"torchxla_bert_dp_g5", kGelu},
    {"torchxla_bert_tp1_dp1_fwdbwd", kGelu},
    {"torchxla_bertlarge_dp_tp_fwdbwd", kGelu},
    {"torchxla_gpt2_tp8_infer", kGelu},
    {"torchxla_gpu_sched_SyncTensorsGraph.23_2",
     "custom-call \"__cublas$gemm\" with a tuple result does not run"},
    {"torchxla_llama2_dp1_tp1_pp1_train",
     "custom-call \"AwsNeuronSoftmax\" does not run"}};

std::string reason_for(const std::string& file) {
  const auto* found =
      std::find_if(std::begin(kReasons), std::end(kReasons),
                   [&](const Reason& reason) { return reason.file == file; });
  return found == std::end(kReasons) ? "" : found->reason;
}

/// One unit's price is its operations and bytes; each has some.
std::string priced(const Schedule& schedule) {
  double flops = 0, bytes = 0;
  for (const Unit& unit : schedule.units) {
    EXPECT_TRUE(std::isfinite(unit.flops) && unit.flops >= 0) << unit.name;
    EXPECT_TRUE(std::isfinite(unit.bytes) && unit.bytes >= 0) << unit.name;
    flops += unit.flops;
    bytes += unit.bytes;
  }
  EXPECT_GT(bytes, 0);
  EXPECT_GT(schedule.arena_bytes, 0);
  EXPECT_GE(schedule.arena_bytes, schedule.peak_temporary_bytes);
  return fmt::format(
      "{} ranks, {} units, {:.4g} flops, {:.4g} bytes moved, peak {} bytes",
      schedule.ranks, schedule.units.size(), flops, bytes,
      schedule.arena_bytes);
}

/// What is said of a program that is not lowered, or not run.
std::string said_of(const InlinedModule& module) {
  const int64_t ranks = ranks_of(module);
  const Result<Schedule> schedule =
      lower_schedule(module, identity_plan(module, ranks));
  if (!schedule) return "not lowered: " + schedule.error().message;
  fmt::print("{}\n", priced(*schedule));
  const Status runs = refuse(refusals_of(module, *schedule));
  return runs ? "" : runs.error().message;
}

std::string said_of(const std::string& path) {
  const Result<Module> module = read_hlo_file(path);
  if (!module) return "not read: " + module.error().message;
  const Result<InlinedModule> inlined = inline_calls(*module);
  if (!inlined) return "not lowered: " + inlined.error().message;
  return said_of(*inlined);
}

/// Both parts of a reason stand in what is said, in this order.
bool says(const std::string& said, std::string reason) {
  const std::string prefix = "not lowered: ";
  if (said.starts_with(prefix) != reason.starts_with(prefix)) return false;
  if (reason.starts_with(prefix)) reason = reason.substr(prefix.size());
  return said.find(reason) != std::string::npos;
}

TEST(DumpTable, LowersAndPricesEveryDumpAndRunsItOrSaysWhyNot) {
  if (!fs::exists(kDumps)) GTEST_SKIP() << "no dumps at " << kDumps;
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(kDumps)) {
    if (item.path().extension() == ".hlo") files.push_back(item.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    fmt::print("{}: ", path.filename().string());
    const std::string said = said_of(path.string());
    const std::string reason = reason_for(path.stem().string());
    if (!said.empty()) fmt::print("  {}\n", said);
    EXPECT_TRUE(reason.empty() ? said.empty() : says(said, reason))
        << path.filename() << ": `" << said << "`, expected `" << reason << '`';
  }
  EXPECT_GT(files.size(), 40U);
}

}  // namespace
}  // namespace reprise
