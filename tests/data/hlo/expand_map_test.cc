#include "data/hlo/expand_map.h"

#include <gtest/gtest.h>

#include <string>

#include "data/hlo/hlo.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

std::string opcodes_of(const std::string& function, const std::string& map) {
  const Result<InlinedModule> module = parse_inlined(
      "HloModule m\nf {\n x = f32[] parameter(0)\n y = bf16[] parameter(1)\n" +
      function + "}\nENTRY e {\n a = f32[2,3] parameter(0)\n" +
      " b = bf16[2,3] parameter(1)\n ROOT m = " + map +
      " map(a, b), dimensions={0,1}, to_apply=f\n}\n");
  if (!module) return module.error().message;
  std::string text;
  for (const Instruction& op : module->entry_computation().instructions) {
    text +=
        std::string(opcode_name(op.opcode)) + " " + shape_text(op.shape) + "\n";
  }
  return text;
}

TEST(ExpandMap, ComputesWholeArrays) {
  EXPECT_EQ(opcodes_of(" c = f32[] constant(2)\n d = f32[] convert(y)\n"
                       " p = f32[] multiply(c, d)\n"
                       " ROOT r = pred[] compare(x, p), direction=LT\n",
                       "pred[2,3]"),
            "parameter f32[2,3]\nparameter bf16[2,3]\nconstant f32[]\n"
            "broadcast f32[2,3]\nconvert f32[2,3]\nmultiply f32[2,3]\n"
            "compare pred[2,3]\n");
}

TEST(ExpandMap, MayGiveAnOperandOrANumber) {
  EXPECT_EQ(opcodes_of(" ROOT r = bf16[] copy(y)\n", "bf16[2,3]"),
            "parameter f32[2,3]\nparameter bf16[2,3]\n");
  EXPECT_EQ(opcodes_of(" ROOT r = s32[] constant(7)\n", "s32[2,3]"),
            "parameter f32[2,3]\nparameter bf16[2,3]\nconstant s32[]\n"
            "broadcast s32[2,3]\n");
}

TEST(ExpandMap, LeavesOtherFunctions) {
  EXPECT_EQ(opcodes_of(" z = f32[1] reshape(x)\n ROOT r = f32[] reshape(z)\n",
                       "f32[2,3]"),
            "parameter f32[2,3]\nparameter bf16[2,3]\nmap f32[2,3]\n");
}

}  // namespace
}  // namespace reprise
