// What of bfloat16 is read before it is rounded, and what after.
#include "data/hlo/unrounded_reads.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"
#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

TEST(UnroundedReads, ReadsAProductRoundedWhereItSaysSo) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = bf16[2,4] parameter(0)
  y = bf16[4,3] parameter(1)
  d = bf16[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={reprise_result="rounded"}
  ROOT w = f32[2,3] convert(d)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(signatures(inlined->entry_computation()),
            "parameter()bf16\nparameter()bf16\ndot(x:bf16 y:bf16 )bf16\n"
            "convert(d:bf16 )f32\n");
}

// As XLA's DotDecomposer leaves a product over several dimensions; XLA of JAX
// 0.5.3 to 0.12 rounds it before it widens it again, for a sum among ranks too.
TEST(UnroundedReads, ReadsRoundedThroughAReshapeThatChangesNothing) {
  const std::string product = R"(, replica_count=2
add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b)
}
ENTRY e {
  x = bf16[2,4] parameter(0)
  y = bf16[4,3] parameter(1)
  d = bf16[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = bf16[2,3] reshape(d)
)";
  const auto widened = inline_calls(
      module_of("HloModule m" + product + "  ROOT w = f32[2,3] convert(r)\n}"));
  ASSERT_TRUE(widened.has_value()) << widened.error().message;
  EXPECT_EQ(signatures(widened->entry_computation()),
            "parameter()bf16\nparameter()bf16\ndot(x:bf16 y:bf16 )bf16\n"
            "reshape(d:bf16 )bf16\nconvert(r:bf16 )f32\n");
  const auto summed = inline_calls(module_of(
      "HloModule m, frontend_attributes={reprise_sums=\"f32\"}" + product +
      "  ROOT w = bf16[2,3] all-reduce(r), replica_groups={{0,1}}, "
      "to_apply=add\n}"));
  ASSERT_TRUE(summed.has_value()) << summed.error().message;
  EXPECT_EQ(signatures(summed->entry_computation()),
            "parameter()bf16\nparameter()bf16\ndot(x:bf16 y:bf16 )bf16\n"
            "reshape(d:bf16 )bf16\nconvert(r:bf16 )f32\n"
            "all-reduce(w/w4:f32 )f32\nconvert(w:f32 )bf16\n");
}

// A jitted function of two results, inlined by XLA and not yet.
TEST(UnroundedReads, ReadsRoundedWhatComesOfATuple) {
  const auto dissolved = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = bf16[4] parameter(0)
  d = bf16[4] multiply(x, x)
  p = pred[4] compare(x, d), direction=GT
  t = (bf16[4], pred[4]) tuple(d, p)
  g = bf16[4] get-tuple-element(t), index=0
  ROOT w = f32[4] convert(g)
})"));
  ASSERT_TRUE(dissolved.has_value()) << dissolved.error().message;
  EXPECT_EQ(signatures(dissolved->entry_computation()),
            "parameter()bf16\nmultiply(x:bf16 x:bf16 )bf16\n"
            "compare(x:bf16 d:bf16 )pred\nconvert(d:bf16 )f32\n");
  const auto called = inline_calls(module_of(R"(HloModule m
f {
  y = bf16[4] parameter(0)
  d = bf16[4] multiply(y, y)
  ROOT t = (bf16[4], bf16[4]) tuple(d, y)
}
ENTRY e {
  x = bf16[4] parameter(0)
  c = (bf16[4], bf16[4]) call(x), to_apply=f
  g = bf16[4] get-tuple-element(c), index=0
  ROOT w = f32[4] convert(g)
})"));
  ASSERT_TRUE(called.has_value()) << called.error().message;
  EXPECT_EQ(signatures(called->entry_computation()),
            "parameter()bf16\nmultiply(x:bf16 x:bf16 )bf16\n"
            "convert(c/d:bf16 )f32\n");
}

TEST(UnroundedReads, ReadsUnroundedWhatSaysSo) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
most {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] maximum(a, b)
}
ENTRY e {
  x = bf16[4,8] parameter(0)
  s = f32[4] parameter(1)
  lowest = bf16[] constant(-inf)
  m = bf16[4,8] multiply(x, x), frontend_attributes={reprise_result="unrounded"}
  top = bf16[4] reduce(m, lowest), dimensions={1}, to_apply=most
  tops = bf16[4,8] broadcast(top), dimensions={0}
  d = bf16[4,8] subtract(m, tops)
  n = bf16[4] convert(s), frontend_attributes={reprise_result="unrounded"}
  w = bf16[4,8] broadcast(n), dimensions={0}
  q = bf16[4,8] divide(d, w)
  ROOT r = bf16[4,4] dot(q, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(signatures(inlined->entry_computation()),
            "parameter()bf16\nparameter()f32\nconstant()bf16\n"
            "convert(x:bf16 )f32\n"
            "multiply(m/f32.0:f32 m/f32.0:f32 )f32\n"
            "convert(m:f32 )bf16\n"
            "reduce(m/bf16:bf16 lowest:bf16 )bf16\n"
            "broadcast(top:bf16 )bf16\n"
            "convert(tops:bf16 )f32\n"
            "subtract(m:f32 d/f32.1:f32 )f32\n"
            "convert(d:f32 )bf16\n"
            "broadcast(s:f32 )f32\n"
            "convert(d/bf16:bf16 )f32\n"
            "divide(q/f32.0:f32 w/f32:f32 )f32\n"
            "convert(q:f32 )bf16\n"
            "dot(q/bf16:bf16 m/bf16:bf16 )bf16\n");
}

}  // namespace
}  // namespace reprise
