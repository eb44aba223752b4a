// Programs with collectives whose result has another size than their operand,
// trained by ranks that are threads here, through Gloo.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "runtime/process/process_group.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

using Floats = std::vector<float>;

constexpr float kFirst = 10;  ///< Rank r holds 10 r, 10 r + 1, ….
constexpr int kPart = 6;      ///< Elements of a rank's part.

/// Gathers 2 x of all ranks, scales that by the rank's number from 1 on, and
/// gives each rank its part of the sum.
std::string program(int ranks) {
  std::string group;
  for (int rank = 0; rank < ranks; ++rank)
    group += fmt::format("{}{}", rank > 0 ? "," : "", rank);
  return fmt::format(R"(HloModule gathers
add_f32 {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}}
ENTRY main {{
  x = f32[2,3] parameter(0)
  number = f32[] parameter(1)
  twice = f32[2,3] add(x, x)
  all = f32[{0},3] all-gather(twice), replica_groups={{{{{1}}}}}, dimensions={{0}}
  numbers = f32[{0},3] broadcast(number), dimensions={{}}
  scaled = f32[{0},3] multiply(all, numbers)
  part = f32[2,3] reduce-scatter(scaled), replica_groups={{{{{1}}}}}, dimensions={{0}}, to_apply=add_f32
  less = f32[2,3] subtract(part, x)
  ROOT out = (f32[{0},3], f32[2,3]) tuple(all, less)
}}
)",
                     2 * ranks, group);
}

Result<InlinedModule> parse(int ranks) {
  const Result<Module> parsed = parse_hlo(program(ranks));
  if (!parsed) return pass(parsed.error());
  return inline_calls(*parsed);
}

void set(std::span<std::byte> bytes, const Floats& values) {
  ASSERT_GE(bytes.size(), values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), values.size() * sizeof(float));
}

Floats floats_of(std::span<const std::byte> bytes) {
  Floats values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Two steps of one rank; the outputs of the second.
void run_rank(const InlinedModule& module, const Schedule& schedule, int rank,
              Communicator& communicator, std::vector<Floats>* outputs) {
  const auto alone = make_single_process_group();
  const Result<LoadedKernels> kernels =
      load_kernels(schedule,
                   {.interpret = true,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone);
  ASSERT_TRUE(kernels) << kernels.error().message;
  const auto executor = Executor::create(module, schedule, kernels->code,
                                         communicator, nullptr, {});
  ASSERT_TRUE(executor) << executor.error().message;
  Floats x(kPart);
  for (int i = 0; i < kPart; ++i)
    x[static_cast<size_t>(i)] =
        kFirst * static_cast<float>(rank) + static_cast<float>(i);
  set((*executor)->parameter(0), x);
  set((*executor)->parameter(1), {static_cast<float>(rank + 1)});
  for (int32_t step = 0; step < 2; ++step) {
    const Status done = (*executor)->run_step(step);
    ASSERT_TRUE(done) << done.error().message;
  }
  outputs->push_back(floats_of((*executor)->output(0)));
  outputs->push_back(floats_of((*executor)->output(1)));
}

/// By hand: part r of what is gathered is 2 (10 r + i) = 20 r + 2 i. Rank k
/// adds k + 1 times that, all of them n (n + 1) / 2 times; rank r keeps part r
/// and subtracts its x, 10 r + i.
void expect_outputs(int ranks, int rank, const std::vector<Floats>& outputs) {
  ASSERT_EQ(outputs.size(), 2U);
  const int sum = ranks * (ranks + 1) / 2;
  Floats all, less;
  for (int part = 0; part < ranks; ++part) {
    for (int i = 0; i < kPart; ++i)
      all.push_back(static_cast<float>(20 * part + 2 * i));
  }
  for (int i = 0; i < kPart; ++i) {
    less.push_back(
        static_cast<float>(sum * (20 * rank + 2 * i) - (10 * rank + i)));
  }
  EXPECT_EQ(outputs[0], all);
  EXPECT_EQ(outputs[1], less);
}

class CollectivePrograms : public testing::TestWithParam<int> {};

TEST_P(CollectivePrograms, GatherAndScatterAsComputedByHand) {
  const int ranks = GetParam();
  const Result<InlinedModule> module = parse(ranks);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, ranks));
  ASSERT_TRUE(schedule) << schedule.error().message;
  std::string path = std::filesystem::temp_directory_path() / "reprise_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  std::vector<std::vector<Floats>> outputs(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = make_file_process_group(path + "/r", rank, ranks, 20);
      ASSERT_TRUE(group) << group.error().message;
      const auto communicator = make_gloo_communicator(**group, 20);
      ASSERT_TRUE(communicator) << communicator.error().message;
      run_rank(*module, *schedule, rank, **communicator,
               &outputs[static_cast<size_t>(rank)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(path);
  for (int rank = 0; rank < ranks; ++rank)
    expect_outputs(ranks, rank, outputs[static_cast<size_t>(rank)]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivePrograms, testing::Values(2, 3, 4));

// One rank: neither moves anything, and 1 x 2 x - x = x.
TEST(CollectivesOfOneRank, GiveTheirOperandsBack) {
  const Result<InlinedModule> module = parse(1);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto communicator = make_solo_communicator();
  std::vector<Floats> outputs;
  run_rank(*module, *schedule, 0, *communicator, &outputs);
  expect_outputs(1, 0, outputs);
}

}  // namespace
}  // namespace reprise
