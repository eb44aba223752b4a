// Programs that the arena cannot hold are refused by name.
#include "data/plan/op_graph.h"

#include <gtest/gtest.h>

#include <string>

#include "data/hlo/hlo.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

std::string refusal(const std::string& body) {
  const Result<InlinedModule> module =
      parse_inlined("HloModule m\n\nENTRY e {\n" + body + "}\n");
  EXPECT_TRUE(module) << module.error().message;
  if (!module) return "";
  const Result<OpGraph> graph = build_op_graph(*module);
  return graph ? "" : graph.error().message;
}

TEST(OpGraph, RefusesMoreBytesThanAnArenaCanHave) {
  // Each takes 2^57 bytes: two fit, of three the sum is above 2^58.
  const std::string large = "f32[36028797018963968]";
  const std::string two =
      "  a = " + large + " parameter(0)\n  b = " + large + " parameter(1)\n";
  EXPECT_EQ(refusal(two + "  ROOT r = () tuple()\n"), "");
  EXPECT_EQ(refusal(two + "  ROOT r = " + large + " add(a, b)\n"),
            "r: " + large +
                ", and the arrays before it, take more than "
                "288230376151711744 bytes");
}

TEST(OpGraph, RefusesSizesThatAreNotFixed) {
  EXPECT_EQ(refusal("  a = f32[<=4] parameter(0)\n"
                    "  ROOT r = f32[<=4] negate(a)\n"),
            "a: f32[<=4] has no fixed size");
}

TEST(OpGraph, BitcastsToOtherLayoutsAndWidthsRun) {
  for (const char* body : {"  a = f32[2,3]{1,0} parameter(0)\n"
                           "  ROOT r = f32[6]{0} bitcast(a)\n",
                           "  a = f32[2,3]{0,1} parameter(0)\n"
                           "  ROOT r = f32[6]{0} bitcast(a)\n",
                           "  a = u16[2,3]{1,0} parameter(0)\n"
                           "  ROOT r = bf16[6]{0} bitcast(a)\n",
                           "  a = f32[3]{0} parameter(0)\n"
                           "  ROOT r = bf16[6]{0} bitcast(a)\n"}) {
    EXPECT_EQ(refusal(body), "") << body;
  }
}

}  // namespace
}  // namespace reprise
