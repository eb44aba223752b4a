#include <gtest/gtest.h>

#include <cmath>

#include "data/hlo/hlo.h"
#include "data/hlo/hlo_verifier.h"

namespace reprise {
namespace {

constexpr const char* kAddComputation = R"(
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}
)";

/// A module whose entry has these lines.
std::string entry(const std::string& body) {
  return std::string("HloModule m\n") + kAddComputation + "\nENTRY %e {\n" +
         body + "}\n";
}

Module parsed(const std::string& text) {
  auto module = parse_hlo(text, "in.hlo");
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message);
  return module ? std::move(*module) : Module();
}

Error error_of(const std::string& text) {
  const auto module = parse_hlo(text, "in.hlo");
  EXPECT_FALSE(module.has_value()) << text;
  return module ? Error() : module.error();
}

void expect_fixed_point(const Module& module,
                        const PrintOptions& options = {}) {
  const std::string once = print_hlo(module, options);
  const auto again = parse_hlo(once);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(print_hlo(*again, options), once);
}

TEST(HloParser, ReadsBothOperandStyles) {
  const Module old_style =
      parsed(entry("  %x = f32[2,3]{1,0} parameter(0)\n  ROOT %y = "
                   "f32[2,3]{1,0} negate(f32[2,3]{1,0} %x)\n"));
  const Module new_style =
      parsed(entry("  x = f32[2,3]{1,0} parameter(0)\n  ROOT y = f32[2,3]{1,0} "
                   "negate(x)\n"));
  EXPECT_EQ(old_style, new_style);
}

// As jaxlib 0.12 prints them; its parser takes no other spelling.
TEST(HloParser, ReadsElementsOfTuplesAsOperands) {
  const std::string tuples = R"(  a = f32[2]{0} parameter(0)
  b = s32[] parameter(1)
  t = (f32[2]{0}, s32[]) tuple(a, b)
  u = ((f32[2]{0}, s32[]), f32[2]{0}) tuple(t, a)
)";
  const auto with = [&](const std::string& rest) {
    return entry(tuples + rest);
  };
  const Module module =
      parsed(with("  c = f32[2]{0} add(%u#0#0, f32[2]{0} %u#1)\n"
                  "  ROOT d = f32[2]{0} subtract(c, %u#0#0)\n"));
  const Computation& read = module.entry_computation();
  ASSERT_EQ(read.instructions.size(), 9u);  // u#0, u#0#0 and u#1 once each.
  const Instruction& element = read.instructions[5];
  EXPECT_EQ(element.opcode, Opcode::kGetTupleElement);
  EXPECT_EQ(element.operands, std::vector<InstructionId>{InstructionId{4}});
  EXPECT_EQ(integer_list(element, "index"), std::vector<int64_t>{0});
  EXPECT_EQ(read.instructions[8].operands[1], read.instructions[7].operands[0]);
  for (const auto& [rest, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"ROOT c = f32[2] negate(u#2)", "index=2 is no element of"},
           {"ROOT c = f32[2] negate(u#-1)", "index=-1 is no element of"},
           {"ROOT c = f32[2] negate(a#0)", "index=0 is no element of"},
           {"ROOT c = f32[2] negate(u#)", "an element's number after `#`"},
           {"ROOT c = f32[2] negate(s32[] u#1)", "is written as s32[]"}}) {
    const std::string said = error_of(with("  " + rest + "\n")).message;
    EXPECT_NE(said.find(message), std::string::npos) << said;
  }
}

TEST(HloParser, KeepsReferencesAsIds) {
  const Module module = parsed(entry(
      "  %x = f32[4] parameter(0)\n  %z = f32[] constant(0)\n"
      "  ROOT %r = f32[] reduce(%x, %z), dimensions={0}, to_apply=%sum\n"));
  const Instruction& root = module.entry_computation().instructions[2];
  EXPECT_EQ(called_computation(root), ComputationId{0});
  EXPECT_EQ(integer_list(root, "dimensions"), std::vector<int64_t>{0});
  EXPECT_EQ(users_of(module.entry_computation())[0],
            std::vector<InstructionId>{InstructionId{2}});
}

TEST(HloParser, PrintsWhatItReadAfterRenamingEverything) {
  Module module = parsed(entry(
      "  %x = f32[4]{0:T(256)} parameter(0), sharding={devices=[2]<=[2]}\n"
      "  %y = f32[4]{0} negate(%x), metadata={op_name=\"a,b}\\\"\" "
      "source_line=3}\n"
      "  ROOT %t = (f32[4]{0}, f32[4]{0:T(256)}) tuple(%y, /*index=1*/%x), "
      "control-predecessors={%y}\n"));
  expect_fixed_point(module);
  for (Instruction& instruction : module.entry_computation().instructions) {
    instruction.name = "renamed." + instruction.name;
  }
  const std::string text = print_hlo(module, {.metadata = false});
  EXPECT_NE(
      text.find(
          "tuple(%renamed.y, %renamed.x), control-predecessors={%renamed.y}"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("metadata"), std::string::npos);
  expect_fixed_point(module, {.metadata = false});
  expect_fixed_point(module, {.operand_shapes = true});
}

TEST(HloParser, FingerprintIgnoresMetadataOnly) {
  const std::string plain =
      "  %x = f32[4] parameter(0)\n  ROOT %y = f32[4] negate(%x)\n";
  const std::string noted =
      "  %x = f32[4] parameter(0)\n  ROOT %y = f32[4] negate(%x), "
      "metadata={op_name=\"n\"}\n";
  const std::string other =
      "  %x = f32[4] parameter(0)\n  ROOT %y = f32[4] abs(%x)\n";
  EXPECT_EQ(fingerprint(parsed(entry(plain))),
            fingerprint(parsed(entry(noted))));
  EXPECT_NE(fingerprint(parsed(entry(plain))),
            fingerprint(parsed(entry(other))));
  EXPECT_EQ(fingerprint(parsed(entry(plain))).substr(0, 7), "sha256:");
}

TEST(HloParser, ReadsHeaderAliasesAndTables) {
  const Module module = parsed(
      "HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, "
      "may-alias), {1}: (1, {}, "
      "must-alias) }, entry_computation_layout={(f32[2]{0}, "
      "f32[2]{0})->(f32[2]{0}, f32[2]{0})}\n\n"
      "FileNames\n1 \"a b.py\"\n\nStackFrames\n1 {file_location_id=1 "
      "parent_frame_id=1}\n\n"
      "ENTRY %e (a: f32[2], b: f32[2]) -> (f32[2], f32[2]) {\n"
      "  %a = f32[2]{0} parameter(0)\n  %b = f32[2]{0} parameter(1)\n"
      "  ROOT %t = (f32[2]{0}, f32[2]{0}) tuple(%a, %b)\n} // e\n");
  ASSERT_EQ(module.aliases.size(), 2u);
  EXPECT_FALSE(module.aliases[0].must_alias);
  EXPECT_TRUE(module.aliases[1].must_alias);
  EXPECT_EQ(module.attributes.size(), 2u);
  EXPECT_NE(module.tail_tables.find("1 \"a b.py\"\n"), std::string::npos);
  expect_fixed_point(module);
}

TEST(HloParser, ReadsAsyncSugarAndUnknownAttributes) {
  const Module module = parsed(
      "HloModule m\n\n%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] "
      "parameter(0)\n"
      "  %b = f32[] parameter(1)\n  ROOT %add = f32[] add(%a, %b)\n}\n\nENTRY "
      "%e {\n"
      "  %x = f32[8]{0} parameter(0)\n"
      "  %s = ((f32[8]{0}), f32[4]{0}) reduce-scatter-start(%x), "
      "dimensions={0}, to_apply=%sum, "
      "made_up={x = 3 : i64, y = \"}\"}\n"
      "  ROOT %d = f32[4]{0} reduce-scatter-done(%s)\n}\n");
  const Instruction& start = module.entry_computation().instructions[1];
  EXPECT_EQ(start.opcode, Opcode::kAsyncStart);
  EXPECT_EQ(start.opcode_text, "reduce-scatter-start");
  EXPECT_EQ(std::get<RawText>(start.find_attribute("made_up")->value).text,
            "{x = 3 : i64, y = \"}\"}");
  expect_fixed_point(module);
}

TEST(HloParser, ReadsLiteralsOfEverySpelling) {
  const Module module = parsed(entry(
      "  %a = f32[2,2]{1,0} constant({ { 1, -2.5 }, /*i=1*/ { inf, 4e2 } })\n"
      "  %b = pred[2]{0} constant({true, false})\n  %c = s64[] "
      "constant(-9007199254740992)\n"
      "  %d = f32[3]{0} constant({...})\n  %f = f32[2]{0} constant(f32[2] "
      "{1,2})\n"
      "  ROOT %n = f32[] constant(nan)\n"));
  const auto& instructions = module.entry_computation().instructions;
  EXPECT_EQ(literal_values(instructions[0])->at(1), -2.5);
  EXPECT_TRUE(std::isinf(literal_values(instructions[0])->at(2)));
  EXPECT_EQ(*literal_values(instructions[1]), (std::vector<double>{1, 0}));
  EXPECT_EQ(literal_values(instructions[2])->at(0), -9007199254740992.0);
  EXPECT_EQ(literal_values(instructions[3]).error().kind,
            ErrorKind::kUnsupported);
  EXPECT_EQ(*literal_values(instructions[4]), (std::vector<double>{1, 2}));
  EXPECT_TRUE(std::isnan(literal_values(instructions[5])->at(0)));
  expect_fixed_point(module);
}

TEST(HloParser, NamesThePlaceOfAnError) {
  // Line 10, column 15: the operand `%y` of the second line of the entry.
  const Error error = error_of(
      entry("  %x = f32[2] parameter(0)\n  ROOT %z = f32[2] negate(%y)\n"));
  EXPECT_EQ(error.kind, ErrorKind::kInvalid);
  EXPECT_EQ(error.message.substr(0, 15), "in.hlo:11:27: `") << error.message;
}

TEST(HloParser, RefusesWhatIsTruncatedAnywhere) {
  const std::string text = entry(
      "  %x = f32[2]{0} parameter(0), metadata={op_name=\"n\"}\n  %z = f32[] "
      "constant(0)\n"
      "  ROOT %r = f32[] reduce(%x, %z), dimensions={0}, to_apply=%sum\n");
  ASSERT_TRUE(parse_hlo(text).has_value());
  // Without its ENTRY, a computation alone is a module: cut inside of the
  // entry.
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    const auto module = parse_hlo(text.substr(0, length), "cut.hlo");
    if (module) {
      EXPECT_EQ(module->computations.size(), 1u) << text.substr(0, length);
      continue;
    }
    EXPECT_EQ(module.error().message.substr(0, 8), "cut.hlo:")
        << module.error().message;
  }
}

TEST(HloParser, SaysWhereATextIsCutWithinAName) {
  const std::string whole =
      entry("  %x = f32[2] parameter(0)\n  ROOT %y = f32[2] negate(%x)\n");
  for (const char* cut : {" neg", "%x = f32[2] param"}) {
    const std::string text =
        whole.substr(0, whole.find(cut) + std::string_view(cut).size());
    EXPECT_NE(error_of(text).message.find("cut short?"), std::string::npos);
  }
  const std::string body = "  %long = f32[2] parameter(0)\n  ROOT %y = f32[2] ";
  std::string half = entry(body + "negate(%lo");
  half.resize(half.rfind("%lo") + 3);
  const std::string message = error_of(half).message;
  EXPECT_NE(message.find("`lo` is not defined"), std::string::npos) << message;
  EXPECT_NE(message.find("cut short?"), std::string::npos) << message;
}

TEST(HloParser, RefusesUnknownOpcodesByName) {
  const Error error = error_of(entry("  ROOT %x = f32[2] frobnicate()\n"));
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_NE(error.message.find("unknown opcode `frobnicate`"),
            std::string::npos);
}

TEST(HloParser, RefusesOverflowingShapes) {
  for (const char* shape :
       {"f32[4294967296,4294967296]", "f32[9223372036854775807]",
        "f32[0,4294967296,4294967296]", "f32[99999999999999999999]",
        "(f32[2000000000000000000], f32[2000000000000000000])"}) {
    const Error error = error_of(
        entry(std::string("  ROOT %x = ") + shape + " parameter(0)\n"));
    EXPECT_EQ(error.message.substr(0, 10), "in.hlo:10:") << error.message;
  }
}

TEST(HloParser, BoundsNesting) {
  const std::string deep_tuple = std::string(100000, '(');
  EXPECT_NE(
      error_of(entry("  ROOT %x = " + deep_tuple)).message.find("nests deeper"),
      std::string::npos);
  const std::string deep_value = std::string(100000, '{');
  EXPECT_NE(error_of(entry("  ROOT %x = f32[] parameter(0), a=" + deep_value))
                .message.find("nests deeper"),
            std::string::npos);
}

TEST(HloParser, SaysWhatToGiveInsteadOfMlirAndJaxprs) {
  for (const auto& [text, what] :
       std::vector<std::pair<std::string, std::string>>{
           {"#loc1 = loc(\"x\")\nmodule @jit_f {\n}", "StableHLO"},
           {"module @jit_f attributes {mhlo.num_partitions = 1 : i32} {",
            "StableHLO"},
           {std::string("ML\xefR\rStableHLO_v1.0.0\0", 23), "StableHLO"},
           {"{ lambda ; a:f32[4,3]. let", "a jaxpr"}}) {
    const std::string message = error_of(text).message;
    EXPECT_NE(message.find("expected `HloModule`"), std::string::npos)
        << message;
    EXPECT_NE(message.find("this is " + what), std::string::npos) << message;
    EXPECT_NE(message.find("as_text(\"hlo\")"), std::string::npos) << message;
  }
  EXPECT_EQ(error_of("hello").message.find("this is"), std::string::npos);
}

TEST(HloParser, RefusesForwardAndCyclicReferences) {
  EXPECT_NE(
      error_of(entry("  %a = f32[] negate(%b)\n  ROOT %b = f32[] negate(%a)\n"))
          .message.find("not defined before"),
      std::string::npos);
  EXPECT_NE(error_of("HloModule m\n%c {\n  %x = f32[] parameter(0)\n  ROOT %y "
                     "= f32[] call(%x), "
                     "to_apply=%c\n}\n")
                .message.find("computation `c` is not defined before"),
            std::string::npos);
}

TEST(HloParser, RefusesDuplicatesAndGapsInParameters) {
  EXPECT_NE(
      error_of(
          entry("  %a = f32[] parameter(0)\n  ROOT %a = f32[] negate(%a)\n"))
          .message.find("defined twice"),
      std::string::npos);
  EXPECT_NE(error_of(entry("  ROOT %a = f32[] parameter(1)\n"))
                .message.find("expected parameter(0)"),
            std::string::npos);
}

TEST(HloParser, RefusesAliasesThatDoNotFit) {
  const std::string text =
      "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY %e {\n"
      "  %a = f32[4] parameter(0)\n  ROOT %b = f32[2] slice(%a), "
      "slice={[0:2]}\n}\n";
  EXPECT_NE(error_of(text).message.find("f32[2] cannot alias f32[4]"),
            std::string::npos);
}

TEST(HloParser, RefusesASecondAliasOfAnOutputOrParameter) {
  for (const char* aliases :
       {"{0}: (0, {}, may-alias), {0}: (1, {}, may-alias)",
        "{0}: (0, {}, may-alias), {1}: (0, {}, may-alias)"}) {
    const std::string text = fmt::format(
        "HloModule m, input_output_alias={{ {} }}\nENTRY %e {{\n"
        "  %a = f32[4] parameter(0)\n  %b = f32[4] parameter(1)\n"
        "  ROOT %t = (f32[4], f32[4]) tuple(%a, %b)\n}}\n",
        aliases);
    EXPECT_NE(error_of(text).message.find("aliased twice"), std::string::npos);
  }
}

TEST(HloParser, KeepsMessagesShort) {
  std::string elements, wrong;
  for (int i = 0; i < 2000; ++i) {
    elements += i == 0 ? "%x" : ", %x";
    wrong += fmt::format("{}f32[{}]", i == 0 ? "" : ", ", i == 1500 ? 3 : 2);
  }
  const std::string body =
      "  %x = f32[2] parameter(0)\n  ROOT %t = (" + wrong + ") tuple(";
  const std::string tuple = error_of(entry(body + elements + ")\n")).message;
  EXPECT_NE(tuple.find("instruction `t`: element 1500 of the result of tuple "
                       "is f32[3], expected f32[2]"),
            std::string::npos)
      << tuple;
  EXPECT_NE(error_of(entry(body + "%x, %x)\n"))
                .message.find("has 2000 elements, expected 2"),
            std::string::npos);
  const std::string name(5000, 'n');
  EXPECT_LT(
      error_of(entry("  ROOT %x = f32[2] " + name + "()\n")).message.size(),
      1000u);
}

TEST(HloParser, AcceptsItsOwnPathQualifiedNames) {
  const Module module =
      parsed(entry("  %call.1/x.2 = f32[] parameter(0)\n  ROOT %call.1/y = "
                   "f32[] negate(%call.1/x.2)\n"));
  EXPECT_EQ(module.entry_computation().instructions[0].name, "call.1/x.2");
  expect_fixed_point(module);
}

TEST(HloShape, CountsBytesOfSmallTypesAndTuples) {
  Shape nibbles;
  nibbles.type = PrimitiveType::kS4;
  nibbles.dimensions = {5};
  EXPECT_EQ(byte_size(nibbles), 3);  // 20 bits
  Shape tuple;
  tuple.type = PrimitiveType::kTuple;
  tuple.elements = {nibbles, nibbles};
  EXPECT_EQ(byte_size(tuple), 6);
  EXPECT_EQ(shape_text(tuple), "(s4[5], s4[5])");
}

}  // namespace
}  // namespace reprise
