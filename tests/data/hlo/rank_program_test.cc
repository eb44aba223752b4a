// Every dialect of one step is the same program of one rank, and bitcasts move
// bytes as memory does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "data/hlo/hlo.h"
#include "data/hlo/hlo_verifier.h"
#include "data/hlo/instruction_place.h"
#include "tests/testing/directories.h"
#include "tests/testing/hlo_evaluator.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

const std::string kDialects = source_directory() + "/tests/data/hlo/dialects/";

Result<InlinedModule> dialect(const std::string& name) {
  const Result<Module> module = parse_hlo_file(kDialects + name + ".hlo");
  if (!module) return pass(module.error());
  // Compared in f64, to which nothing is to be rounded on the way.
  return inline_calls(*module, Arithmetic::kAsWritten);
}

/// What two ranks with the same batch sum: everything twice.
Computation without_collectives(const Computation& entry) {
  Computation alone = entry;
  const auto twice = [](Instruction* sum, InstructionId value) {
    sum->opcode = Opcode::kAdd;
    sum->operands = {value, value};
  };
  for (Instruction& instruction : alone.instructions) {
    if (instruction.opcode == Opcode::kAllReduce) {
      if (instruction.shape.is_tuple())
        instruction.opcode = Opcode::kTuple;
      else
        twice(&instruction, instruction.operands[0]);
    } else if (instruction.opcode == Opcode::kGetTupleElement) {
      const Instruction& tuple = alone.at(instruction.operands[0]);
      const auto at =
          static_cast<size_t>(integer_list(instruction, "index")[0]);
      twice(&instruction, tuple.operands[at]);
    }
  }
  return alone;
}

std::vector<Elements> results_of(const InlinedModule& module) {
  const Computation entry = without_collectives(module.entry_computation());
  std::mt19937 random(7);
  std::vector<Elements> parameters;
  for (const Instruction* parameter : parameters_of(entry)) {
    Elements& values = parameters.emplace_back();
    const bool is_count = parameter->shape.type == PrimitiveType::kS32;
    for (int64_t i = 0; i < element_count(parameter->shape); ++i) {
      values.push_back(
          is_count ? 3 : std::uniform_real_distribution(0.1, 1.0)(random));
    }
  }
  const auto values = evaluate(module, entry, parameters);
  std::vector<Elements> results;
  for (const InstructionId result : entry.at(entry.root).operands)
    results.push_back(values.at(index_of(result)));
  return results;
}

class Dialect : public ::testing::TestWithParam<const char*> {};

TEST_P(Dialect, IsTheSameProgramOfOneRank) {
  const auto expected = dialect("manual_partitioned.0.10.2");
  ASSERT_TRUE(expected) << expected.error().message;
  const auto module = dialect(GetParam());
  ASSERT_TRUE(module) << module.error().message;
  const Status valid = verify(*module);
  ASSERT_TRUE(valid) << valid.error().message;
  for (const Instruction& instruction :
       module->entry_computation().instructions) {
    EXPECT_NE(instruction.opcode, Opcode::kCall);
    EXPECT_NE(instruction.opcode, Opcode::kFusion);
    EXPECT_NE(instruction.opcode, Opcode::kCustomCall);
    EXPECT_NE(instruction.opcode, Opcode::kBitcast);
  }
  // The batch of one rank: four rows of eight.
  const auto parameters = parameters_of(module->entry_computation());
  EXPECT_EQ(shape_text(parameters[10]->shape, false), "f32[4,4]");
  const std::vector<Elements> ours = results_of(*module);
  const std::vector<Elements> theirs = results_of(*expected);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t r = 0; r < ours.size(); ++r) {
    ASSERT_EQ(ours[r].size(), theirs[r].size());
    for (size_t i = 0; i < ours[r].size(); ++i) {
      // Double arithmetic in another order.
      EXPECT_NEAR(ours[r][i], theirs[r][i], 1e-9) << "result " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Dialect,
    ::testing::Values("manual_lowered.0.5.3", "manual_lowered.0.10.2",
                      "manual_partitioned.0.5.3", "manual_compiled.0.5.3",
                      "manual_compiled.0.10.2", "automatic_compiled.0.5.3",
                      "automatic_compiled.0.10.2"));

TEST(RankProgram, IsRefusedWhereAPartitionerHasNotRun) {
  for (const char* version : {"0.5.3", "0.10.2"}) {
    const auto module = dialect(std::string("automatic_lowered.") + version);
    ASSERT_FALSE(module);
    EXPECT_NE(module.error().message.find("is sharded"), std::string::npos);
    EXPECT_NE(module.error().message.find("spmd-partitioning"),
              std::string::npos);
  }
}

// As JAX 0.11.2 dumps a step before its optimizations.
TEST(RankProgram, IsRefusedWhereAxesOfAMeshCutAParameter) {
  const auto runs = [](const std::string& sharding) {
    return parse_inlined(
               "HloModule m, num_partitions=2\nENTRY e {\n"
               " x = f32[4,2] parameter(0), sharding={" +
               sharding + "}\n ROOT n = f32[4,2] negate(x)\n}\n")
        .has_value();
  };
  EXPECT_FALSE(runs("mesh['a'=2,'b'=1], [{'a'}, {}]"));
  EXPECT_FALSE(runs("mesh['a'=2,'b'=1], [{}, {'b', 'a', ?}]"));
  EXPECT_FALSE(
      runs("mesh['a'=4,'b'=1], device_ids=([2,2]T(1,0)), [{'a':(1)2}, {}]"));
  EXPECT_FALSE(runs("mesh['a'=1,'b'=12], [{'a'}, {'b'}]"));
  EXPECT_TRUE(runs("mesh['a'=2,'b'=1], [{'b'}, {?}], replicated={'a'}"));
  EXPECT_TRUE(runs("mesh['a'=2,'b'=1], [{}, {'b'}]"));
  EXPECT_TRUE(runs("mesh['a'=2,'b'=1], replicated"));
}

// x is halved before shard_map takes a rank's part of it.
TEST(RankProgram, IsRefusedWhereArraysOfAllRanksAreComputedOn) {
  constexpr const char* kText = R"(HloModule m
body {
  p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p)
}
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] OPERATION
  l = f32[4] custom-call(y), custom_call_target="SPMDFullToShardShape"
  c = f32[4] call(l), to_apply=body
  ROOT g = f32[8] custom-call(c), custom_call_target="SPMDShardToFullShape"
}
)";
  const auto with = [&](const std::string& operation) {
    std::string text = kText;
    text.replace(text.find("OPERATION"), 9, operation);
    return parse_inlined(text);
  };
  const auto inside = with("custom-call(x), custom_call_target=\"Sharding\"");
  ASSERT_TRUE(inside) << inside.error().message;
  ASSERT_EQ(inside->entry_computation().instructions.size(), 2U);
  EXPECT_EQ(
      shape_text(inside->entry_computation().instructions[0].shape, false),
      "f32[4]");
  const auto outside = with(
      "abs(x), metadata={op_name=\"jit(step)/abs\" source_file=\"/a/step.py\" "
      "source_line=12}");
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message.find("across the border of shard_map"),
            std::string::npos);
}

TEST(RankProgram, KnowsTheSourceOfAnInstruction) {
  const Result<Module> module =
      parse_hlo_file(kDialects + "manual_compiled.0.10.2.hlo");
  ASSERT_TRUE(module) << module.error().message;
  int known = 0;
  for (const Instruction& instruction :
       module->entry_computation().instructions) {
    const std::string line = source_line(*module, instruction);
    known += line.starts_with("export_dialects.py:") ? 1 : 0;
  }
  EXPECT_GT(known, 20);
  Instruction add;
  add.name = "add.1";
  add.attributes = {{"metadata", RawText{R"({op_name="f/a[\'b\']" )"
                                         R"(source_file="/x/m.py" )"
                                         R"(source_line=7})"}}};
  EXPECT_EQ(instruction_place({}, add), "add.1 (\"f/a['b']\", m.py:7)");
}

std::string groups_text(const std::string& attribute) {
  Instruction collective;
  collective.attributes = {{"replica_groups", RawText{attribute}}};
  const auto groups = replica_groups(collective, 1);
  if (!groups) return "malformed";
  std::string text;
  for (const auto& group : *groups) {
    text += "{";
    for (const int64_t id : group) text += fmt::format("{} ", id);
    text += "}";
  }
  return text;
}

TEST(ReplicaGroups, OfMeshesRunAlongTheirAxes) {
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2] {'a'}"), "{0 2 }{1 3 }");
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2] {'b'}"), "{0 1 }{2 3 }");
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2] {'a','b'}"), "{0 1 2 3 }");
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2] {'b','a'}"), "{0 2 1 3 }");
  EXPECT_EQ(groups_text("mesh['a'=4] {'a':(1)2}"), "{0 2 }{1 3 }");
  EXPECT_EQ(groups_text("mesh['a'=4] {'a':(2)2}"), "{0 1 }{2 3 }");
  EXPECT_EQ(groups_text("mesh['a'=2] {}"), "{0 }{1 }");
  // Two sub-axes of one axis, as all-gathers of JAX 0.10.2 and 0.11.2 ran.
  EXPECT_EQ(groups_text("mesh['a'=8] {'a':(1)2,'a':(4)2}"),
            "{0 1 4 5 }{2 3 6 7 }");
  EXPECT_EQ(groups_text("mesh['a'=8] {'a':(4)2,'a':(1)2}"),
            "{0 4 1 5 }{2 6 3 7 }");
  // Places 0 to 3 hold devices 0, 2, 1, 3.
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}"),
            "{0 1 }{2 3 }");
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2], device_ids=([4]) {'a'}"),
            "{0 2 }{1 3 }");
  EXPECT_EQ(groups_text("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}"),
            "{3 1 }{2 0 }");
  for (const char* bad :
       {"mesh['a'=2]", "mesh['a'=2] {'b'}", "mesh['a'=0] {'a'}",
        "mesh['a'=2] {'a','a'}", "mesh['a'=4] {'a':(3)2}",
        "mesh['a'=4] {'a':(0)2}", "mesh['a'=4] {'a':(1)0}",
        "mesh['a'=8] {'a':(1)4,'a':(2)2}", "mesh['a'=2,'a'=2] {'a'}",
        "mesh['a'=9999999,'b'=9999999] {'a'}", "mesh[a=2] {a}",
        "mesh['a'=2], device_ids=(0,0) {'a'}",
        "mesh['a'=2], device_ids=(0,1,2) {'a'}",
        "mesh['a'=4], device_ids=([2,2]T(0,0)) {'a'}",
        "mesh['a'=2], device_ids= {'a'}"})
    EXPECT_EQ(groups_text(bad), "malformed") << bad;
}

/// Elements in the order in which they lie in memory.
Elements in_memory(const Elements& logical, const Shape& shape) {
  std::vector<size_t> strides(shape.dimensions.size(), 1);
  size_t next = 1;
  for (const int64_t d : shape.minor_to_major) {
    strides[static_cast<size_t>(d)] = next;
    next *= static_cast<size_t>(shape.dimensions[static_cast<size_t>(d)]);
  }
  Elements memory(logical.size());
  std::vector<int64_t> index(shape.dimensions.size(), 0);
  for (const double value : logical) {
    size_t place = 0;
    for (size_t d = 0; d < index.size(); ++d)
      place += static_cast<size_t>(index[d]) * strides[d];
    memory[place] = value;
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape.dimensions[d]) break;
      index[d] = 0;
    }
  }
  return memory;
}

Shape random_layout(std::vector<int64_t> dimensions, std::mt19937& random) {
  Shape shape;
  shape.dimensions = std::move(dimensions);
  shape.has_layout = true;
  shape.minor_to_major.resize(shape.dimensions.size());
  std::iota(shape.minor_to_major.begin(), shape.minor_to_major.end(), 0);
  std::shuffle(shape.minor_to_major.begin(), shape.minor_to_major.end(),
               random);
  std::shuffle(shape.dimensions.begin(), shape.dimensions.end(), random);
  return shape;
}

TEST(Bitcast, MovesElementsAsMemoryDoes) {
  std::mt19937 random(3);
  const std::vector<std::vector<int64_t>> forms = {
      {24}, {2, 12}, {2, 3, 4}, {1, 24}, {6, 1, 4}, {2, 2, 3, 2}};
  for (int i = 0; i < 300; ++i) {
    const Shape from = random_layout(forms[random() % forms.size()], random);
    const Shape to = random_layout(forms[random() % forms.size()], random);
    const auto inlined = parse_inlined(fmt::format(
        "HloModule m\nENTRY e {{\n  a = {} parameter(0)\n  ROOT b = "
        "{} bitcast(a)\n}}\n",
        shape_text(from), shape_text(to)));
    ASSERT_TRUE(inlined) << inlined.error().message;
    Elements values(24);
    std::iota(values.begin(), values.end(), 0);
    const Computation& entry = inlined->entry_computation();
    const Elements result =
        evaluate(*inlined, entry, {values}).at(index_of(entry.root));
    EXPECT_EQ(in_memory(result, to), in_memory(values, from))
        << shape_text(from) << " to " << shape_text(to);
  }
}

TEST(Bitcast, ToAnotherWidthGainsOrLosesADimension) {
  for (const auto& [from, to] :
       {std::pair{"u32[2,3]{1,0}", "u16[12]{0}"}, {"u8[8]{0}", "f32[2]{0}"}}) {
    const auto inlined = parse_inlined(fmt::format(
        "HloModule m\nENTRY e {{\n  a = {} parameter(0)\n  ROOT b = "
        "{} bitcast(a)\n}}\n",
        from, to));
    ASSERT_TRUE(inlined) << inlined.error().message;
    const Status valid = verify(*inlined);
    EXPECT_TRUE(valid) << valid.error().message;
    const Computation& entry = inlined->entry_computation();
    EXPECT_TRUE(
        std::any_of(entry.instructions.begin(), entry.instructions.end(),
                    [](const Instruction& instruction) {
                      return instruction.opcode == Opcode::kBitcastConvert;
                    }));
  }
}

}  // namespace
}  // namespace reprise
