// Random training steps under random valid plans: two steps give the bits of
// the identity plan, whether kernels are interpreted or compiled, on one thread
// or on several.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "runtime/process/process_group.h"
#include "tests/testing/directories.h"
#include "tests/testing/random_plan.h"
#include "tests/testing/random_step.h"

namespace reprise {
namespace {

using Arrays = std::vector<std::vector<float>>;

std::vector<float> float_vector(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// What plans did, over all runs.
struct Tally {
  size_t groups = 0, dots = 0, buckets = 0, chunks = 0, copies = 0,
         in_place = 0;

  void add(const Schedule& schedule) {
    for (const Unit& unit : schedule.units) {
      groups += unit.kind == UnitKind::kKernel && unit.ops.size() > 1;
      dots += unit.kind == UnitKind::kLibrary && !unit.dot.is_plain();
      buckets += unit.kind == UnitKind::kCollective && unit.ops.size() > 1;
      chunks += unit.kind == UnitKind::kCollective && unit.collective.chunk > 0;
      copies += unit.kind == UnitKind::kCopy;
      for (const Location& write : unit.writes) {
        in_place += unit.kind == UnitKind::kKernel &&
                    schedule.buffers[index_of(write.buffer)].kind ==
                        BufferKind::kParameter;
      }
    }
  }
};

/// Outputs after each of two steps from the same random parameters; several
/// threads share whatever can be shared.
Arrays run(const Module& module, const Schedule& schedule, bool interpret,
           size_t threads = 1) {
  const auto alone = make_single_process_group();
  const Result<LoadedKernels> kernels =
      load_kernels(schedule,
                   {.interpret = interpret,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone);
  EXPECT_TRUE(kernels) << kernels.error().message;
  const auto communicator = make_solo_communicator();
  const auto executor =
      Executor::create(module, schedule, kernels->code, *communicator, nullptr,
                       {.threads = threads, .worth_sharing_ns = 0});
  EXPECT_TRUE(executor) << executor.error().message;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (size_t p = 0; p < schedule.parameter_buffers.size(); ++p) {
    const auto bytes = (*executor)->parameter(static_cast<int64_t>(p));
    for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      const float value = uniform(random);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  }
  Arrays outputs;
  for (int32_t step = 0; step < 2; ++step) {
    EXPECT_TRUE((*executor)->run_step(step));
    for (size_t o = 0; o < schedule.outputs.size(); ++o)
      outputs.push_back(
          float_vector((*executor)->output(static_cast<int64_t>(o))));
  }
  return outputs;
}

/// The first output and element that differ, or nothing; a NaN is a NaN.
std::string difference(const Arrays& a, const Arrays& b) {
  for (size_t o = 0; o < a.size(); ++o) {
    for (size_t i = 0; i < a[o].size(); ++i) {
      if (std::isnan(a[o][i]) && std::isnan(b[o][i])) continue;
      if (std::memcmp(&a[o][i], &b[o][i], sizeof(float)) == 0) continue;
      return fmt::format("output {} of both steps, element {}: {} and {}", o, i,
                         a[o][i], b[o][i]);
    }
  }
  return {};
}

void expect_agreement(uint64_t seed, Tally* tally, std::set<Opcode>* opcodes) {
  const std::string text = random_step(seed, 40);
  const Result<Module> parsed = parse_hlo(text);
  ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
  const Result<InlinedModule> module = inline_calls(*parsed);
  ASSERT_TRUE(module) << module.error().message;
  for (const Instruction& instruction :
       module->entry_computation().instructions)
    opcodes->insert(instruction.opcode);
  const Result<Schedule> identity =
      lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(identity) << identity.error().message << "\n" << text;
  const Arrays expected = run(*module, *identity, true);
  size_t numbers = 0, all = 0;
  for (const std::vector<float>& output : expected) {
    for (const float value : output) numbers += std::isfinite(value);
    all += output.size();
  }
  EXPECT_GT(2 * numbers, all) << "mostly infinities: this tests little";
  for (uint64_t which = 0; which < 4; ++which) {
    const Plan plan = random_valid_plan(*module, 10 * seed + which, 1);
    const Result<Schedule> schedule = lower_schedule(*module, plan);
    ASSERT_TRUE(schedule) << schedule.error().message;
    tally->add(*schedule);
    // Compiling costs most, so only one plan of each program is compiled.
    for (const bool interpret : {true, false}) {
      if (!interpret && which != seed % 4) continue;
      for (const size_t threads : {1, 3}) {
        const Arrays got = run(*module, *schedule, interpret, threads);
        ASSERT_EQ(difference(expected, got), "")
            << (interpret ? "interpreted" : "compiled") << ", " << threads
            << " threads\n"
            << print_plan(plan) << text;
      }
    }
  }
}

TEST(RandomSteps, GiveTheBitsOfTheIdentityPlan) {
  Tally tally;
  std::set<Opcode> opcodes;
  const char* wanted = std::getenv("REPRISE_RANDOM_STEPS");
  const uint64_t last =
      wanted == nullptr ? 24 : std::strtoull(wanted, nullptr, 10);
  for (uint64_t seed = 0; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    expect_agreement(seed, &tally, &opcodes);
    if (HasFatalFailure()) return;
  }
  // Or the test tests little.
  EXPECT_GT(tally.groups, 100U);
  EXPECT_GT(tally.dots, 20U);
  EXPECT_GT(tally.buckets, 10U);
  EXPECT_GT(tally.chunks, 5U);
  EXPECT_GT(tally.copies, 20U);
  EXPECT_GT(tally.in_place, 20U);
  for (const char* name : {"mlp.2.hlo", "gpt.2.hlo"}) {
    const auto program = parse_hlo_file(source_directory() + "/data/programs/" +
                                        std::string(name));
    ASSERT_TRUE(program) << program.error().message;
    for (const Instruction& instruction :
         program->entry_computation().instructions) {
      EXPECT_TRUE(opcodes.contains(instruction.opcode))
          << opcode_name(instruction.opcode);
    }
  }
}

}  // namespace
}  // namespace reprise
