// In which types ranks combine what kernels hold in fewer bits.
#include "data/hlo/wide_sums.h"

#include <gtest/gtest.h>

#include <string>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/hlo/routine.h"
#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

TEST(WideSums, AreMadeInF32WhereTheHeaderSaysSo) {
  const std::string text = R"(
add { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b) }
most { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] maximum(a, b) }
ENTRY m {
  x = bf16[4] parameter(0)
  y = f32[2] parameter(1)
  t = bf16[4] tanh(x)
  one = bf16[4] all-reduce(t), replica_groups={}, to_apply=add
  top = bf16[4] all-reduce(t), replica_groups={}, to_apply=most
  two = (bf16[4], f32[2]) all-reduce(t, y), replica_groups={}, to_apply=add
  g = bf16[4] get-tuple-element(two), index=0
  h = f32[2] get-tuple-element(two), index=1
  w = f32[4] convert(one)
  ROOT r = (f32[4], bf16[4], bf16[4], f32[2]) tuple(w, top, g, h)
})";
  const auto inlined = inline_calls(module_of(
      "HloModule m, frontend_attributes={reprise_sums=\"f32\"}" + text));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  // What tanh makes is read before it is rounded, the sum after.
  EXPECT_EQ(signatures(inlined->entry_computation()),
            "parameter()bf16\nparameter()f32\nconvert(x:bf16 )f32\n"
            "tanh(t/f32.0:f32 )f32\nconvert(t:f32 )bf16\n"
            "all-reduce(t:f32 )f32\nconvert(one:f32 )bf16\n"
            "all-reduce(t/bf16:bf16 )bf16\n"
            "all-reduce(t:f32 y:f32 )\n"
            "get-tuple-element(two: )f32\nconvert(g:f32 )bf16\n"
            "get-tuple-element(two: )f32\nconvert(one/w5:bf16 )f32\n"
            "tuple(w:f32 top:bf16 g/w10:bf16 h:f32 )\n");
  const auto plain = inline_calls(module_of("HloModule m" + text));
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(plain->entry_computation().instructions.size(), 10U);
}

TEST(WideSums, RanksSendF16InPlaceOfFloatsOf8BitsAndBytesInPlaceOf4) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
add { a = f8e5m2[] parameter(0)
  b = f8e5m2[] parameter(1)
  ROOT s = f8e5m2[] add(a, b) }
most { a = s4[] parameter(0)
  b = s4[] parameter(1)
  ROOT s = s4[] maximum(a, b) }
least { a = s4[] parameter(0)
  b = s4[] parameter(1)
  ROOT s = s4[] minimum(a, b) }
ENTRY m {
  x = f8e5m2[4] parameter(0)
  y = s4[4] parameter(1)
  one = f8e5m2[4] all-reduce(x), replica_groups={}, to_apply=add
  two = f8e5m2[4] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add
  top = s4[4] all-reduce(y), replica_groups={}, to_apply=most
  z = s4[] constant(0)
  own = s4[] reduce(y, z), dimensions={0}, to_apply=least
  least = s4[4] all-reduce(y), replica_groups={}, to_apply=least
  ROOT r = (f8e5m2[4], f8e5m2[4], s4[4], s4[], s4[4]) tuple(one, two, top, own, least)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  std::string sent;
  for (const Instruction& one : inlined->entry_computation().instructions) {
    if (one.opcode != Opcode::kAllReduce &&
        one.opcode != Opcode::kReduceScatter)
      continue;
    sent += std::string(primitive_type_name(one.shape.type)) + " " +
            std::string(opcode_name(*combining_opcode(*inlined, one))) + "\n";
  }
  EXPECT_EQ(sent, "f16 add\nf16 add\ns8 maximum\ns8 minimum\n");
}

}  // namespace
}  // namespace reprise
