// XLA's scan in its forms that JAX's lowering of cumsum does not write, and
// what it becomes. Values are by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/program/refusals.h"
#include "tests/runtime/cpu/text_program.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// `step`: (row, carry) -> (carry, carry), of `op`.
std::string step_text(const std::string& op) {
  return "step {\n  x = f32[2] parameter(0)\n  c = f32[2] parameter(1)\n"
         "  s = f32[2] " +
         op + "(x, c)\n  ROOT t = (f32[2], f32[2]) tuple(s, s)\n}\n";
}

std::string module_text(const std::string& step, const std::string& entry) {
  return "HloModule m\n" + step + "ENTRY main {\n" + entry + "}\n";
}

/// Three rows of two, whose scan begins with `first` everywhere.
std::string scan_text(const std::string& first, const std::string& attributes,
                      const std::string& results) {
  return "  x = f32[3,2] parameter(0)\n  f = f32[] constant(" + first +
         ")\n  b = f32[2] broadcast(f), dimensions={}\n"
         "  scan.1 = (f32[3,2], f32[2]) scan(x, b), dimensions={0}, "
         "num_carries=1, " +
         attributes +
         "to_apply=step\n"
         "  rows = f32[3,2] get-tuple-element(scan.1), index=0\n"
         "  last = f32[2] get-tuple-element(scan.1), index=1\n" +
         results;
}

const std::string kBoth = "  ROOT t = (f32[3,2], f32[2]) tuple(rows, last)\n";

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> all(bytes.size() / sizeof(float));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

/// Outputs after the second of two steps, in order.
std::vector<std::vector<float>> outputs_of(
    const std::string& text, const std::vector<std::vector<float>>& in,
    size_t outputs) {
  TextProgram program(text);
  for (int32_t step = 0; step < 2; ++step) {
    for (size_t p = 0; p < in.size(); ++p) {
      const auto place = program.executor().parameter(static_cast<int64_t>(p));
      EXPECT_EQ(place.size(), in[p].size() * sizeof(float));
      std::memcpy(place.data(), in[p].data(), place.size());
    }
    EXPECT_TRUE(program.executor().run_step(step));
  }
  std::vector<std::vector<float>> all;
  for (size_t k = 0; k < outputs; ++k) {
    all.push_back(floats(program.executor().output(static_cast<int64_t>(k))));
  }
  return all;
}

using Outputs = std::vector<std::vector<float>>;

const std::vector<float> kScanned = {1, 20, 3, 40, 5, 60};

TEST(Scan, GivesTheCarryOfTheLastStepToo) {
  EXPECT_EQ(
      outputs_of(module_text(step_text("add"),
                             scan_text("0", "is_associative=true, ", kBoth)),
                 {kScanned}, 2),
      (Outputs{{1, 20, 4, 60, 9, 120}, {9, 120}}));
}

TEST(Scan, GoesFromTheEnd) {
  for (const char* attributes : {"is_reverse=true, is_associative=true, ",
                                 "is_reverse=true, is_associative=false, "}) {
    EXPECT_EQ(outputs_of(module_text(step_text("add"),
                                     scan_text("0", attributes, kBoth)),
                         {kScanned}, 2),
              (Outputs{{9, 120, 8, 100, 5, 60}, {9, 120}}));
  }
}

TEST(Scan, BeginsWithWhatItIsGiven) {
  EXPECT_EQ(
      outputs_of(module_text(step_text("add"),
                             scan_text("7", "is_associative=true, ", kBoth)),
                 {kScanned}, 2),
      (Outputs{{8, 27, 11, 67, 16, 127}, {16, 127}}));
}

// Row minus carry: 1, 3 - 1, 5 - 2.
TEST(Scan, TakesStepsInOrder) {
  EXPECT_EQ(
      outputs_of(module_text(step_text("subtract"),
                             scan_text("0", "is_associative=true, ", kBoth)),
                 {kScanned}, 2),
      (Outputs{{1, 20, 2, 20, 3, 40}, {3, 40}}));
}

// Along the last dimension of two inputs: y = 2 c + x z, the next c is y, the
// next d is d + 1; rows of y and of d.
TEST(Scan, HasInputsCarriesAndOutputsOfOtherShapes) {
  const std::string text = module_text(R"(step {
  x = f32[2] parameter(0)
  z = f32[] parameter(1)
  c = f32[2] parameter(2)
  d = f32[] parameter(3)
  w = f32[2] broadcast(z), dimensions={}
  p = f32[2] multiply(x, w)
  e = f32[2] add(c, c)
  y = f32[2] add(e, p)
  one = f32[] constant(1)
  n = f32[] add(d, one)
  ROOT t = (f32[2], f32[], f32[2], f32[]) tuple(y, d, y, n)
}
)",
                                       R"(  x = f32[3,2] parameter(0)
  z = f32[3] parameter(1)
  c = f32[2] parameter(2)
  d = f32[] parameter(3)
  s = (f32[3,2], f32[3], f32[2], f32[]) scan(x, z, c, d), dimensions={0}, num_carries=2, to_apply=step
  a = f32[3,2] get-tuple-element(s), index=0
  b = f32[3] get-tuple-element(s), index=1
  e = f32[2] get-tuple-element(s), index=2
  f = f32[] get-tuple-element(s), index=3
  ROOT t = (f32[3,2], f32[3], f32[2], f32[]) tuple(a, b, e, f)
)");
  // y: 2*1+1*1, 2*2+20*1; 2*3+3*10, 2*24+40*10; 2*36+5*100, 2*448+60*100.
  EXPECT_EQ(
      outputs_of(text, {kScanned, {1, 10, 100}, {1, 2}, {5}}, 4),
      (Outputs{{3, 24, 36, 448, 572, 6896}, {5, 6, 7}, {572, 6896}, {8}}));
}

int count_ops(const std::string& text, Opcode opcode) {
  const Result<InlinedModule> module = parse_inlined(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return -1;
  const auto& all = module->entry_computation().instructions;
  return static_cast<int>(std::count_if(
      all.begin(), all.end(),
      [&](const Instruction& each) { return each.opcode == opcode; }));
}

// The window of JAX's cumsum on CPU, to which recurrences are known.
TEST(Scan, IsAWindowWhereItOnlyCumulates) {
  const std::string rows = "  ROOT t = (f32[3,2]) tuple(rows)\n";
  const auto text = [&](const char* op, const char* first,
                        const char* attributes) {
    return module_text(step_text(op), scan_text(first, attributes, rows));
  };
  constexpr const char* kAssociative = "is_associative=true, ";
  for (const auto& [op, first] : {std::pair("add", "0"),
                                  {"multiply", "1"},
                                  {"maximum", "-inf"},
                                  {"minimum", "inf"}}) {
    EXPECT_EQ(count_ops(text(op, first, kAssociative), Opcode::kReduceWindow),
              1);
    EXPECT_EQ(count_ops(text(op, first, kAssociative), Opcode::kSlice), 0);
    EXPECT_EQ(count_ops(text(op, first, ""), Opcode::kWhile), 1);
    EXPECT_EQ(count_ops(text(op, "2", kAssociative), Opcode::kWhile), 1);
  }
  EXPECT_EQ(count_ops(text("subtract", "0", kAssociative), Opcode::kWhile), 1);
}

// Plans name ops.
TEST(Scan, NamesOpsAfterItself) {
  const std::string text = module_text(
      step_text("add"), scan_text("0", "is_associative=true, ", kBoth));
  const Result<InlinedModule> module = parse_inlined(text);
  ASSERT_TRUE(module) << module.error().message;
  std::string names;
  for (const Instruction& each : module->entry_computation().instructions)
    names += each.name + " ";
  EXPECT_EQ(names, "x f b scan.1/window scan.1/e4 scan.1/e5 t ");
  const Result<InlinedModule> again = parse_inlined(print_hlo(*module));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(fingerprint(*again), fingerprint(*module));
}

TEST(Scan, IsRefusedWhereItsStepDoesNotFit) {
  std::string text = module_text(
      step_text("add"), scan_text("0", "is_associative=true, ", kBoth));
  text.replace(text.find("num_carries=1"), 13, "num_carries=2");
  const Result<InlinedModule> module = parse_inlined(text);
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<Refusal> refusals = refusals_of(*module, 1);
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_NE(refusals[0].reason.find("scan"), std::string::npos)
      << refusals[0].reason;
}

}  // namespace
}  // namespace reprise
