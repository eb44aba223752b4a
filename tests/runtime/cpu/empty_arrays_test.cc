// What ops over arrays without elements give, by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

std::vector<float> run(const std::string& entry,
                       const std::vector<std::vector<float>>& parameters) {
  const std::string text = R"(HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
last {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY main {
)" + entry + "}\n";
  TextProgram program(text);
  for (size_t p = 0; p < parameters.size(); ++p) {
    const auto place = program.executor().parameter(static_cast<uint32_t>(p));
    EXPECT_EQ(place.size(), parameters[p].size() * sizeof(float));
    std::memcpy(place.data(), parameters[p].data(), place.size());
  }
  EXPECT_TRUE(program.executor().run_step(0));
  const auto output = program.executor().output(0);
  std::vector<float> values(output.size() / sizeof(float));
  std::memcpy(values.data(), output.data(), output.size());
  return values;
}

// As jax.numpy's x.at[:].add(y) is lowered: no index names a dimension.
TEST(EmptyArrays, AScatterByNoIndexTakesTheWholeArray) {
  const std::string attributes =
      "scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=";
  EXPECT_EQ(run(R"(  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  i = s32[0] constant({})
  s = f32[2,3] scatter(x, i, y), update_window_dims={0,1}, inserted_window_dims={}, )" +
                    attributes + "sum\n  ROOT t = (f32[2,3]) tuple(s)\n",
                {{1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60}}),
            (std::vector<float>{11, 22, 33, 44, 55, 66}));
  // A row of it: its windows begin at 0.
  EXPECT_EQ(run(R"(  x = f32[2,3] parameter(0)
  y = f32[3] parameter(1)
  i = s32[0] constant({})
  s = f32[2,3] scatter(x, i, y), update_window_dims={0}, inserted_window_dims={0}, )" +
                    attributes + "last\n  ROOT t = (f32[2,3]) tuple(s)\n",
                {{1, 2, 3, 4, 5, 6}, {7, 8, 9}}),
            (std::vector<float>{7, 8, 9, 4, 5, 6}));
}

// x.at[()].add(y), and twice into the same element.
TEST(EmptyArrays, AScatterByNoIndexTakesAScalar) {
  EXPECT_EQ(run(R"(  x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = s32[0] constant({})
  s = f32[] scatter(x, i, y), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=sum
  ROOT t = (f32[]) tuple(s)
)",
                {{1.5}, {2}}),
            std::vector<float>{3.5});
  EXPECT_EQ(run(R"(  x = f32[] parameter(0)
  y = f32[4] parameter(1)
  i = s32[4,0] constant({ {}, {}, {}, {} })
  s = f32[] scatter(x, i, y), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=sum
  ROOT t = (f32[]) tuple(s)
)",
                {{1}, {2, 3, 4, 5}}),
            std::vector<float>{15});
}

// A shift by one on one rank: nobody sends, and what receives nothing has
// zeros; a rank that sends to itself has what it had.
TEST(EmptyArrays, APermuteOfNoPairsGivesZeros) {
  EXPECT_EQ(run(R"(  x = f32[3] parameter(0)
  none = f32[3] collective-permute(x), source_target_pairs={}
  own = f32[3] collective-permute(x), source_target_pairs={{0,0}}
  both = f32[6] concatenate(none, own), dimensions={0}
  ROOT t = (f32[6]) tuple(both)
)",
                {{1, 2, 3}}),
            (std::vector<float>{0, 0, 0, 1, 2, 3}));
}

}  // namespace
}  // namespace reprise
