// A shipped program, lowered under any plan and trained in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/manifest/manifest.h"
#include "data/plan/plan.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/kernel_loader.h"
#include "runtime/process/communicator.h"
#include "runtime/process/process_group.h"
#include "runtime/train/training_run.h"

namespace reprise {

/// Edits HLO text before it is parsed.
using Rewrite = std::function<std::string(const std::string& hlo)>;

struct TestProgram {
  InlinedModule module;
  Manifest manifest;
};

/// Loads `data/programs/NAME.hlo` and its manifest.
Result<TestProgram> load_test_program(const std::string& name,
                                      const Rewrite& rewrite = {});

/// One rank under one plan.
struct TestRun {
  Schedule schedule;
  LoadedKernels kernels;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<TrainingRun> run;
};

/// Lowers and compiles. The program must outlive the run. Rank 0 alone, unless
/// a communicator says otherwise.
Result<std::unique_ptr<TestRun>> make_test_run(
    const TestProgram& program, const Plan& plan, bool interpret = false,
    int64_t rank = 0, std::unique_ptr<Communicator> communicator = nullptr);

/// Trains from step 0 and returns each step's loss.
Result<std::vector<double>> train_steps(TestRun& run, int32_t steps);

/// Runs ranks 0 and 1, each on a thread of its own.
void on_two_threads(const std::function<void(int)>& rank);

/// One rank's work in a group of two.
using RankOfTwo =
    std::function<Result<std::vector<std::string>>(ProcessGroup& group)>;
/// Runs ranks 0 and 1 and gives what each made. Errors: theirs.
Result<std::vector<std::vector<std::string>>> run_two_ranks(
    const RankOfTwo& rank);

/// Trains both ranks of a program for two over Gloo, on the CPU: digests of the
/// state of each.
Result<std::vector<std::vector<std::string>>> train_two_ranks(
    const TestProgram& program, const Plan& plan, int32_t steps);

/// Rewrites the text so that the result of the all-reduce `name` is halved.
std::string halve_all_reduce(const std::string& hlo, const std::string& name);
/// Names of the all-reduces in the text, in order.
std::vector<std::string> all_reduces(const std::string& hlo);

}  // namespace reprise
