#include "data/formats/nvtx_ranges.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

struct Named {
  std::string name;
  int64_t start_ns, end_ns;
};

/// "number@start" of each step.
std::vector<std::string> counted_steps(const std::vector<Named>& ranges) {
  std::vector<StepRange> candidates;
  for (const Named& range : ranges)
    note_step_range(range.name, range.start_ns, range.end_ns, candidates);
  std::vector<std::string> steps;
  for (const StepRange& step : steps_among(candidates))
    steps.push_back(fmt::format("{}@{}", step.number, step.start_ns));
  return steps;
}

using Steps = std::vector<std::string>;

TEST(NvtxRanges, NumbersOfStepsAreReadHoweverTheyAreWritten) {
  for (const char* name :
       {"step 5", "Iteration: 5", "train_step_5", "Step 5/100", "step 5 of 90",
        "iter[5]", "batch (5)", "Epoch 3 Batch 5", "epoch_12_step_5",
        "Epoch 1, iteration 5", "ProfilerStep#5"}) {
    const auto range = step_range(name);
    ASSERT_TRUE(range.has_value()) << name;
    EXPECT_EQ(range->number, 5) << name;
  }
  EXPECT_EQ(step_range("Epoch 3 Batch 5")->epoch, 3);
  for (const char* name :
       {"Optimizer.step#Adam.step", "optimizer_step", "epoch 3", "layer 5",
        "layer 2 step 5", "step", "micro_batch", "lr_scheduler_step"}) {
    const auto range = step_range(name);
    EXPECT_LT(range ? range->number : -1, 0) << name;
    EXPECT_EQ(range.has_value(), std::string(name) == "step") << name;
  }
}

TEST(NvtxRanges, NumbersGoOnWhereAnEpochBegins) {
  EXPECT_EQ(counted_steps({{"epoch 0 step 8", 0, 10},
                           {"epoch 0 step 9", 10, 20},
                           {"epoch 1 step 0", 20, 30},
                           {"epoch 1 step 1", 30, 40}}),
            (Steps{"8@0", "9@10", "10@20", "11@30"}));
}

// Micro-batches are more in number, and lie within their step.
TEST(NvtxRanges, AStepIsNotOneOfItsMicroBatches) {
  std::vector<Named> ranges;
  for (int64_t step = 0; step < 3; ++step) {
    ranges.push_back(
        {fmt::format("step {}", step), 100 * step, 100 * step + 90});
    for (int64_t part = 0; part < 4; ++part) {
      const int64_t from = 100 * step + 20 * part;
      ranges.push_back({fmt::format("micro_batch {}", part), from, from + 20});
    }
  }
  EXPECT_EQ(counted_steps(ranges), (Steps{"0@0", "1@100", "2@200"}));
}

// A long evaluation lies between the steps, or is all that there is.
TEST(NvtxRanges, StepsThatTrainCountBeforeThoseThatDoNot) {
  std::vector<Named> ranges = {{"eval step 0", 200, 700},
                               {"eval step 1", 700, 1200}};
  EXPECT_EQ(counted_steps(ranges), (Steps{"0@200", "1@700"}));
  for (const int64_t from : {0, 100, 1200})
    ranges.push_back({fmt::format("step {}", from / 100), from, from + 90});
  EXPECT_EQ(counted_steps(ranges), (Steps{"0@0", "1@100", "12@1200"}));
}

TEST(NvtxRanges, RangesWithoutANumberAreCountedWhereTheyFillTheTime) {
  EXPECT_EQ(counted_steps({{"train_step", 0, 90},
                           {"train_step", 100, 190},
                           {"train_step", 200, 290}}),
            (Steps{"1@0", "2@100", "3@200"}));
  // A phase that calls itself so leaves the rest of the step between.
  EXPECT_EQ(counted_steps({{"training_step", 0, 50},
                           {"training_step", 100, 150},
                           {"training_step", 200, 250}}),
            Steps());
  // Numbers are better.
  EXPECT_EQ(counted_steps({{"step", 0, 100},
                           {"step", 100, 200},
                           {"step", 200, 300},
                           {"iteration 4", 5, 95},
                           {"iteration 5", 105, 195}}),
            (Steps{"4@5", "5@105"}));
}

}  // namespace
}  // namespace reprise
