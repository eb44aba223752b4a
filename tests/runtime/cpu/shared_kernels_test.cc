// Which ranges of a kernel's iterations the threads of a rank take.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/cpu/unit_calls.h"
#include "tests/testing/named_ops.h"

namespace reprise {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

std::mutex mutex;
Ranges taken;

void note_range(void* const*, int64_t begin, int64_t end) {
  const std::scoped_lock lock(mutex);
  taken.emplace_back(begin, end);
}

constexpr const char* kText = R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[600] parameter(0)
  zero = f32[] constant(0)
  s = f32[1] slice(x), slice={[5:6]}
  f = f32[] reshape(s)
  b = f32[600] broadcast(f), dimensions={}
  shifted = f32[600] add(x, b)
  rows = f32[60,10] reshape(x)
  sums = f32[10] reduce(rows, zero), dimensions={0}, to_apply=add
  y = f32[6000] parameter(1)
  less = f32[6000] negate(y)
  ROOT out = (f32[600]) tuple(shifted)
})";

class SharedKernels : public testing::Test {
 protected:
  /// What two threads take of the kernel of these ops; its output may lie over
  /// its input.
  Ranges ranges_of(const std::vector<std::string>& ops,
                   const std::vector<std::string>& outputs, bool in_place) {
    const Kernel kernel = *lower_kernel(module_, named_ops(module_, ops),
                                        named_ops(module_, outputs));
    Unit unit;
    unit.kind = UnitKind::kKernel;
    unit.kernel = 0;
    unit.bytes = 1e6;  // 100 us.
    int32_t buffer = 0;
    std::vector<std::byte*> buffers(kernel.arguments.size(), memory_.data());
    for (const KernelArgument& argument : kernel.arguments) {
      Location location;
      location.buffer =
          BufferId{static_cast<uint32_t>(in_place ? 0 : buffer++)};
      location.size_bytes = argument.elements * 4;
      (argument.is_output ? unit.writes : unit.reads).push_back(location);
    }
    for (size_t i = 0; i < buffers.size(); ++i)
      buffers[i] = memory_.data() + i * (1 << 15);
    ThreadTeam team(2, [] {});
    StepTrial steps;
    SharedWork work;
    work.team = &team;
    work.steps = &steps;
    const Schedule schedule;
    const UnitContext context{
        .module = module_,
        .schedule = schedule,
        .kernels = {{.function = note_range,
                     .kernel = &kernel,
                     .iterations = kernel_iterations(kernel)}},
        .buffers = buffers,
        .team = work};
    UnitCalls calls;
    EXPECT_TRUE(calls.bind(context, unit));
    taken.clear();
    EXPECT_TRUE(calls.run(0));
    std::sort(taken.begin(), taken.end());
    return taken;
  }

 private:
  const Module module_ = *parse_hlo(kText);
  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 18);
};

TEST_F(SharedKernels, AreHalvesOfALoop) {
  EXPECT_EQ(ranges_of({"s", "shifted"}, {"shifted"}, false),
            (Ranges{{0, 300}, {300, 600}}));
}

TEST_F(SharedKernels, AreOneRangeWhereEachBeginsWithWhatTheOtherOverwrites) {
  EXPECT_EQ(ranges_of({"s", "shifted"}, {"shifted"}, true), (Ranges{{0, 600}}));
}

TEST_F(SharedKernels, AreHalvesOfEachPartThatIsWorthIt) {
  // A sum over rows is its first values, too few to share, and one loop that
  // none can; the other nest is.
  EXPECT_EQ(ranges_of({"sums", "less"}, {"sums", "less"}, false),
            (Ranges{{0, 10}, {10, 11}, {11, 3011}, {3011, 6011}}));
}

}  // namespace
}  // namespace reprise
