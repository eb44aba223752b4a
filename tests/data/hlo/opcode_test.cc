// The table of opcodes holds together.
#include "data/hlo/opcode.h"

#include <gtest/gtest.h>

#include "data/hlo/module.h"

namespace reprise {
namespace {

std::vector<Opcode> all_opcodes() {
  return {
#define REPRISE_OPCODE(id, ...) Opcode::k##id,
#define REPRISE_ELEMENTWISE(id, ...) Opcode::k##id,
#include "data/hlo/opcode_table.inc"
  };
}

TEST(OpcodeTable, NamesAreReadBack) {
  for (const Opcode opcode : all_opcodes())
    EXPECT_EQ(opcode_from_name(opcode_name(opcode)), opcode);
  EXPECT_FALSE(opcode_from_name("all-scatter"));
  EXPECT_FALSE(opcode_from_name(""));
}

TEST(OpcodeTable, FunctionsAreElementwiseAndReductionsHaveOne) {
  for (const Opcode opcode : all_opcodes()) {
    const OpcodeFacts& facts = facts_of(opcode);
    EXPECT_LE(facts.least_operands, facts.most_operands) << facts.name;
    EXPECT_GE(facts.weight, 1) << facts.name;
    if (!facts.function.empty()) {
      EXPECT_TRUE(facts.function.starts_with("rk_")) << facts.name;
      EXPECT_TRUE(facts.elementwise && runs_elementwise(opcode)) << facts.name;
      EXPECT_NE(facts.types, ElementTypes::kNoType) << facts.name;
    }
    if (facts.identity != Identity::kNoIdentity) {
      EXPECT_FALSE(facts.function.empty()) << facts.name;
      EXPECT_EQ(facts.most_operands, 2) << facts.name;
    }
    // An elementwise opcode costs an operation an element, or a transcendental.
    if (facts.elementwise) {
      EXPECT_NE(facts.flops, FlopsRule::kNone) << facts.name;
      EXPECT_EQ(facts.bytes, BytesRule::kWhole) << facts.name;
    }
  }
}

TEST(OpcodeTable, ViewsAreNoWork) {
  EXPECT_TRUE(is_view(Opcode::kBitcast) && is_reshape(Opcode::kBitcast));
  EXPECT_TRUE(is_view(Opcode::kBroadcast) && !is_reshape(Opcode::kBroadcast));
  EXPECT_FALSE(is_view(Opcode::kTranspose));
  EXPECT_TRUE(is_collective(Opcode::kAllReduceStart));
  EXPECT_FALSE(is_collective(Opcode::kAllReduceDone));
}

}  // namespace
}  // namespace reprise
