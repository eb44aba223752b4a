// Small programs of several ranks against JAX: every collective that JAX has,
// in many types, groups and forms, also inside loops, through lowering and the
// CPU's executor, ranks being threads. Programs and values are in
// collective_cases.jsonl, made by make_collective_cases.py.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "tests/runtime/cpu/jax_values.h"
#include "tests/runtime/cpu/rank_threads.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

struct CollectiveCase {
  std::string name, hlo;
  std::vector<std::vector<std::string>> inputs, outputs;  ///< [rank]
};

const std::vector<CollectiveCase>& collective_cases() {
  static const std::vector<CollectiveCase> kCases = [] {
    std::vector<CollectiveCase> cases;
    std::ifstream file(source_directory() +
                       "/tests/runtime/cpu/collective_cases.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      CollectiveCase& one = cases.emplace_back();
      one.name = json["name"];
      one.hlo = json["hlo"];
      for (const auto& rank : json["inputs"])
        one.inputs.push_back(decode_arrays(rank));
      for (const auto& rank : json["outputs"])
        one.outputs.push_back(decode_arrays(rank));
    }
    return cases;
  }();
  return kCases;
}

class CollectiveCases : public testing::TestWithParam<CollectiveCase> {};

/// Two steps of one rank, so that what a step leaves behind shows.
void run_rank(const CollectiveCase& one, const InlinedModule& module,
              const Schedule& schedule, RankThread& own) {
  const auto alone = make_single_process_group();
  const Result<LoadedKernels> kernels =
      load_kernels(schedule,
                   {.interpret = true,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone);
  ASSERT_TRUE(kernels) << kernels.error().message;
  const auto executor =
      Executor::create(module, schedule, kernels->code, *own.communicator,
                       nullptr, {.rank = own.rank, .called = own.called.get()});
  ASSERT_TRUE(executor) << executor.error().message;
  const auto& inputs = one.inputs[static_cast<size_t>(own.rank)];
  const auto& outputs = one.outputs[static_cast<size_t>(own.rank)];
  for (int32_t step = 0; step < 2; ++step) {
    for (size_t n = 0; n < inputs.size(); ++n) {
      const auto to = (*executor)->parameter(static_cast<int64_t>(n));
      ASSERT_EQ(to.size(), inputs[n].size());
      std::memcpy(to.data(), inputs[n].data(), to.size());
    }
    const Status done = (*executor)->run_step(step);
    ASSERT_TRUE(done) << done.error().message;
  }
  const Computation& entry = module.entry_computation();
  const Shape& root = entry.at(entry.root).shape;
  for (size_t k = 0; k < outputs.size(); ++k) {
    expect_close(fmt::format("rank {}, output {}", own.rank, k),
                 root.is_tuple() ? root.elements[k] : root,
                 (*executor)->output(static_cast<int64_t>(k)), outputs[k]);
  }
}

TEST_P(CollectiveCases, AgreeWithJax) {
  const CollectiveCase& one = GetParam();
  const auto ranks = static_cast<int>(one.inputs.size());
  const Result<InlinedModule> module = parse_inlined(one.hlo, one.name);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, ranks));
  ASSERT_TRUE(schedule) << schedule.error().message;
  run_rank_threads(ranks, 20, [&](RankThread& own) {
    run_rank(one, *module, *schedule, own);
  });
}

std::string test_name(const std::string& name) {
  std::string plain = name;
  for (char& c : plain) c = std::isalnum(c) != 0 ? c : '_';
  return plain;
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveCases,
                         testing::ValuesIn(collective_cases()),
                         [](const auto& one) {
                           return test_name(one.param.name);
                         });

}  // namespace
}  // namespace reprise
