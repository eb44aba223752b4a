#include "tests/runtime/kernels/cuda_program_kernels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "optimizer/baselines/baselines.h"
#include "tests/optimizer/synthetic_costs.h"
#include "tests/testing/directories.h"
#include "tests/testing/random_plan.h"

namespace reprise {

std::vector<Kernel> program_kernels() {
  std::vector<Kernel> kernels;
  std::set<std::string> seen;
  const auto add = [&](const InlinedModule& module, const Plan& plan) {
    const Result<Schedule> schedule = lower_schedule(module, plan);
    ASSERT_TRUE(schedule) << schedule.error().message;
    for (const Kernel& kernel : schedule->kernels) {
      if (seen.insert(kernel_key(kernel)).second) kernels.push_back(kernel);
    }
  };
  for (const auto& [name, ranks] : {std::pair{"mlp.1", 1},
                                    {"mlp.2", 2},
                                    {"mlp.4", 4},
                                    {"gpt.1", 1},
                                    {"gpt.2", 2},
                                    {"gpt.4", 4}}) {
    const std::string path =
        source_directory() + "/data/programs/" + name + ".hlo";
    const Result<std::string> text = read_file(path);
    EXPECT_TRUE(text) << path;
    if (!text) continue;
    const Result<Module> parsed = parse_hlo(*text, path);
    EXPECT_TRUE(parsed) << parsed.error().message;
    const Result<InlinedModule> module = inline_calls(*parsed);
    EXPECT_TRUE(module) << module.error().message;
    if (!module) continue;
    add(*module, identity_plan(*module, ranks));
    add(*module, random_valid_plan(*module, 1, ranks));
    for (const char* baseline : {"xla", "ddp+fusion"}) {
      const Result<Plan> plan =
          baseline_plan(baseline, *module, ranks, synthetic_costs());
      EXPECT_TRUE(plan) << plan.error().message;
      if (plan) add(*module, *plan);
    }
  }
  return kernels;
}

std::vector<char> random_argument(const KernelArgument& argument,
                                  std::mt19937_64& generator) {
  std::vector<char> bytes(static_cast<size_t>(
      argument.elements * primitive_type_bits(argument.type) / 8));
  if (argument.is_output) {
    bytes.assign(bytes.size(), 0x7f);
  } else if (argument.type == PrimitiveType::kF32) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const float value = normal(generator);
      std::memcpy(&bytes[i], &value, 4);
    }
  } else if (argument.type == PrimitiveType::kS32) {
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const int32_t value = static_cast<int32_t>(generator() % 62) - 1;
      std::memcpy(&bytes[i], &value, 4);
    }
  } else if (argument.type == PrimitiveType::kPred) {
    for (char& byte : bytes) byte = static_cast<char>(generator() & 1);
  } else {
    for (char& byte : bytes) byte = static_cast<char>(generator() % 64);
  }
  return bytes;
}

}  // namespace reprise
