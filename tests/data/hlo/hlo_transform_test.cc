// Attributes, costs, graphs: figures derived by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/draw/hlo_graph.h"
#include "data/hlo/cost_analysis.h"
#include "data/hlo/hlo.h"
#include "data/hlo/module_summary.h"
#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

Instruction with_groups(const std::string& groups) {
  const Module module = module_of(
      "HloModule m\n%s {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\nENTRY %e {\n  x = f32[8] parameter(0)\n"
      "  ROOT r = f32[8] all-reduce(x), replica_groups=" +
      groups + ", to_apply=%s\n}\n");
  return module.entry_computation().instructions[1];
}

using Groups = std::vector<std::vector<int64_t>>;

TEST(HloAttributes, ResolvesReplicaGroupsOfBothForms) {
  EXPECT_EQ(*replica_groups(with_groups("{}"), 3), (Groups{{0, 1, 2}}));
  EXPECT_EQ(*replica_groups(with_groups("{{0,2},{1,3}}"), 4),
            (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(*replica_groups(with_groups("[2,4]<=[8]"), 8),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  // iota(6) as 2x3 transposed to 3x2: 0 3 / 1 4 / 2 5.
  EXPECT_EQ(*replica_groups(with_groups("[3,2]<=[2,3]T(1,0)"), 6),
            (Groups{{0, 3}, {1, 4}, {2, 5}}));
}

InstructionCost cost_of(const std::string& body) {
  const Module module = module_of(
      "HloModule m\n%sum {\n  a = f32[] parameter(0)\n  b = f32[] "
      "parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\nENTRY %e {\n" +
      body + "}\n");
  const Computation& entry = module.entry_computation();
  return instruction_cost(module, entry, entry.root);
}

TEST(HloCost, CountsDotsReductionsAndTranscendentals) {
  // 4x5 outputs, 6 products each, 2 flops a product; bytes 4 * (24 + 30 + 20).
  InstructionCost cost = cost_of(
      "  m = f32[4,6] parameter(0)\n  n = f32[6,5] parameter(1)\n  ROOT d = "
      "f32[4,5] dot(m, n), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
  EXPECT_EQ(cost.flops, 240);
  EXPECT_EQ(cost.bytes, 296);
  // 24 inputs to 4 outputs: 20 additions.
  cost = cost_of(
      "  m = f32[4,6] parameter(0)\n  z = f32[] constant(0)\n"
      "  ROOT r = f32[4] reduce(m, z), dimensions={1}, to_apply=%sum\n");
  EXPECT_EQ(cost.flops, 20);
  cost = cost_of("  m = f32[4,6] parameter(0)\n  ROOT t = f32[4,6] tanh(m)\n");
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.transcendentals, 24);
  cost = cost_of(
      "  m = f32[4,6] parameter(0)\n  ROOT t = s32[4,6] bitcast-convert(m)\n");
  EXPECT_EQ(cost.flops, 24);
}

TEST(HloCost, CountsOnlyTapsInsideOfTheImage) {
  // 3 positions, taps 3, padding 1: 2 + 3 + 2 = 7 products of 2 flops, 1
  // feature.
  const InstructionCost cost = cost_of(
      "  x = f32[1,3,1] parameter(0)\n  k = f32[3,1,1] parameter(1)\n"
      "  ROOT c = f32[1,3,1] convolution(x, k), window={size=3 pad=1_1}, "
      "dim_labels=b0f_0io->b0f\n");
  EXPECT_EQ(cost.flops, 14);
}

constexpr const char* kAsync = R"(HloModule m
%sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY %e {
  %x = f32[8] parameter(0)
  %m = f32[4,6] parameter(1)
  %n = f32[6,5] parameter(2)
  %s = ((f32[8]), f32[4]) reduce-scatter-start(%x), replica_groups={{0,1}}, dimensions={0}, to_apply=%sum
  %sd = f32[4] reduce-scatter-done(%s)
  %g = (f32[8], f32[16]) all-gather-start(%x), replica_groups=[1,2]<=[2], dimensions={0}
  %gd = f32[16] all-gather-done(%g)
  %d = ((f32[4,6], f32[6,5]), f32[4,5]) dot-start(%m, %n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %dd = f32[4,5] dot-done(%d)
  ROOT %t = (f32[4], f32[16], f32[4,5]) tuple(%sd, %gd, %dd)
}
)";

TEST(HloSummary, SeesWhatAsynchronousPairsRun) {
  const ModuleSummary summary = summarize(module_of(kAsync));
  ASSERT_EQ(summary.collectives.size(), 2u);
  const CollectiveSummary& scatter = summary.collectives[0];
  EXPECT_EQ(scatter.opcode, "reduce-scatter-start");
  EXPECT_EQ(scatter.type, "f32");
  EXPECT_EQ(scatter.groups, "1 x 2");
  EXPECT_EQ(scatter.executions, 1);
  // A start's own shape holds its operands, too: the end gives 4 floats.
  EXPECT_EQ(scatter.operand_bytes, 32);
  EXPECT_EQ(scatter.result_bytes, 16);
  EXPECT_EQ(summary.collectives[1].operand_bytes, 32);
  EXPECT_EQ(summary.collectives[1].result_bytes, 64);
  // The dot: 4x5 outputs of 6 products each, 2 flops a product.
  EXPECT_EQ(summary.cost.flops, 240);
  // 8 + 4 floats, 8 + 16, 24 + 30 + 20; a tuple of 3 pointers.
  EXPECT_EQ(summary.cost.bytes, 4 * (12 + 24 + 74) + 24);
}

TEST(HloGraph, PassesWhatAStartGives) {
  const auto graph = graph_around(module_of(kAsync), "gd", 1);
  ASSERT_TRUE(graph.has_value());
  ASSERT_EQ(graph->edges.size(), 2u);  // From the start; to the tuple.
  EXPECT_EQ(graph->edges[0].bytes, 64);
}

/// Left edge of the box of a node, by its title.
double left_of(const std::string& svg, const std::string& name) {
  const size_t node = svg.find("<title>" + name + " = ");
  EXPECT_NE(node, std::string::npos) << name;
  const size_t x = svg.find("x=\"", node);
  return std::stod(svg.substr(x + 3));
}

TEST(HloGraph, UncrossesEdges) {
  // As the text stands, a left of b and c(b) left of d(a), two edges cross.
  const auto graph = graph_around(module_of(R"(HloModule m
ENTRY e {
  a = f32[1] parameter(0)
  b = f32[1] parameter(1)
  c = f32[1] negate(b)
  d = f32[1] negate(a)
  x = f32[1] abs(d)
  ROOT t = f32[1] add(c, x)
}
)"),
                                  "t", 5);
  ASSERT_TRUE(graph.has_value());
  const std::string svg = graph_svg(*graph);
  EXPECT_EQ(left_of(svg, "a") < left_of(svg, "b"),
            left_of(svg, "d") < left_of(svg, "c"));
}

constexpr const char* kLoop = R"(HloModule m
%body (s: (s32[], f32[8])) -> (s32[], f32[8]) {
  %s = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %v = f32[8] get-tuple-element(%s), index=1
  %w = f32[8] negate(%v)
  ROOT %r = (s32[], f32[8]) tuple(%next, %w)
}
%condition (t: (s32[], f32[8])) -> pred[] {
  %t = (s32[], f32[8]) parameter(0)
  %j = s32[] get-tuple-element(%t), index=0
  %limit = s32[] constant(10)
  ROOT %less = pred[] compare(%j, %limit), direction=LT
}
ENTRY %e (x: f32[8]) -> (s32[], f32[8]) {
  %x = f32[8] parameter(0)
  %zero = s32[] constant(0)
  %init = (s32[], f32[8]) tuple(%zero, %x)
  ROOT %loop = (s32[], f32[8]) while(%init), condition=%condition, body=%body
}
)";

TEST(HloCost, MultipliesLoopsByTheirTrips) {
  const Module module = module_of(kLoop);
  const Computation& entry = module.entry_computation();
  EXPECT_EQ(trip_count(module, entry, entry.at(entry.root)), 10);
  // Body: 1 + 8 flops, condition: 1; XLA counts one trip.
  EXPECT_EQ(instruction_cost(module, entry, entry.root).flops, 10);
  EXPECT_EQ(summarize(module).cost.flops, 100);
}

TEST(HloCost, ReadsKnownTripCounts) {
  std::string text = kLoop;
  text.replace(
      text.find("body=%body\n"), 10,
      "body=%body, backend_config={\"known_trip_count\":{\"n\":\"126\"}}");
  const Module module = module_of(text);
  const Computation& entry = module.entry_computation();
  EXPECT_EQ(trip_count(module, entry, entry.at(entry.root)), 126);
}

std::optional<int64_t> proven(const std::string& from, const std::string& to) {
  std::string text = kLoop;
  text.replace(text.find(from), from.size(), to);
  const Module module = module_of(text);
  const Computation& entry = module.entry_computation();
  return proven_trip_count(module, entry, entry.at(entry.root));
}

// What runs a loop so often without asking must be certain.
TEST(HloCost, ProvesTripCountsByTheBodyAlone) {
  EXPECT_EQ(proven("loop", "loop"), 10);
  EXPECT_EQ(proven("body=%body\n",
                   "body=%body, backend_config="
                   "{\"known_trip_count\":{\"n\":\"126\"}}\n"),
            10);
  EXPECT_EQ(proven("add(%i, %one)", "add(%one, %i)"), 10);
  EXPECT_EQ(proven("add(%i, %one)", "add(%i, %i)"), std::nullopt);
  EXPECT_EQ(proven("%one = s32[] constant(1)", "%one = s32[] constant(2)"), 5);
  EXPECT_EQ(proven("%one = s32[] constant(1)", "%one = s32[] constant(3)"),
            std::nullopt);
  EXPECT_EQ(proven("%one = s32[] constant(1)", "%one = s32[] constant(0)"),
            std::nullopt);
  EXPECT_EQ(proven("%zero = s32[] constant(0)", "%zero = s32[] constant(1)"),
            std::nullopt);
  EXPECT_EQ(proven("direction=LT", "direction=NE"), std::nullopt);
}

TEST(HloGraph, ShowsTheNeighbourhoodOfAnInstruction) {
  const Module module = module_of(kNested);
  const auto graph = graph_around(module, "twice", 1);
  ASSERT_TRUE(graph.has_value());
  ASSERT_EQ(graph->nodes.size(), 3u);  // once, twice, out
  EXPECT_EQ(graph->nodes[0].name, "once");
  EXPECT_TRUE(graph->nodes[0].has_more);
  EXPECT_TRUE(graph->nodes[1].is_center);
  ASSERT_EQ(graph->edges.size(), 3u);
  EXPECT_EQ(graph->edges[0].bytes, 16);
  EXPECT_FALSE(graph_around(module, "nowhere", 1).has_value());
  EXPECT_TRUE(graph_around(module, "outer/sum", 1).has_value());
}

TEST(HloGraph, ShowsAComputationWithEveryEdgeThatTouchesIt) {
  const auto graph = graph_of_computation(module_of(kNested), "outer");
  ASSERT_TRUE(graph.has_value());
  // In: x and once. Inside: 5. Out: twice and out, the users of the two calls.
  EXPECT_EQ(graph->nodes.size(), 9u);
  const auto touching = [&](bool outside) {
    return std::count_if(graph->edges.begin(), graph->edges.end(),
                         [&](const GraphEdge& edge) {
                           return (graph->nodes[edge.from].is_outside ||
                                   graph->nodes[edge.to].is_outside) == outside;
                         });
  };
  EXPECT_EQ(touching(true), 4);
  EXPECT_EQ(touching(false), 5);
  for (const GraphEdge& edge : graph->edges) EXPECT_LT(edge.from, edge.to);
}

/// `from -> to bytes` of the edges that touch a computation from outside.
std::vector<std::string> touching_edges(const std::string& text,
                                        const char* computation) {
  const auto graph = graph_of_computation(module_of(text), computation);
  EXPECT_TRUE(graph.has_value());
  std::vector<std::string> edges;
  for (const GraphEdge& edge : graph->edges) {
    const GraphNode& from = graph->nodes[edge.from];
    const GraphNode& to = graph->nodes[edge.to];
    if (!from.is_outside && !to.is_outside) continue;
    edges.push_back(fmt::format("{} -> {} {}", from.name, to.name, edge.bytes));
  }
  return edges;
}

TEST(HloGraph, GivesABranchItsOwnOperand) {
  const std::string text = R"(HloModule m
%yes {
  %a = f32[8] parameter(0)
  ROOT %na = f32[8] negate(%a)
}
%no {
  %b = f32[4] parameter(0)
  ROOT %nb = f32[8] concatenate(%b, %b), dimensions={0}
}
ENTRY %e {
  %p = pred[] parameter(0)
  %x = f32[8] parameter(1)
  %y = f32[4] parameter(2)
  %c = f32[8] conditional(%p, %x, %y), true_computation=%yes, false_computation=%no
  ROOT %r = f32[8] abs(%c)
}
)";
  EXPECT_EQ(touching_edges(text, "no"),
            (std::vector<std::string>{"y -> b 16", "nb -> r 32"}));
}

TEST(HloGraph, LetsAConditionTellTheLoopAlone) {
  std::string text = kLoop;
  text.replace(text.find("ROOT %loop"), 10, "%loop");
  text.insert(text.rfind('}'),
              "  ROOT %v1 = f32[8] get-tuple-element(%loop), index=1\n");
  text.replace(text.find("-> (s32[], f32[8]) {\n  %x"), 18, "-> f32[8]");
  // The state is an index of 4 bytes and 8 floats.
  EXPECT_EQ(touching_edges(text, "condition"),
            (std::vector<std::string>{"init -> t 36", "less -> loop 1"}));
  EXPECT_EQ(touching_edges(text, "body"),
            (std::vector<std::string>{"init -> s 36", "r -> v1 32"}));
}

TEST(HloGraph, CountsWhatAReductionGives) {
  const std::string text = R"(HloModule m
%sum {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
ENTRY %e {
  %x = f32[8] parameter(0)
  %r = f32[8] all-reduce(%x), replica_groups={}, to_apply=%sum
  ROOT %n = f32[8] negate(%r)
}
)";
  EXPECT_EQ(touching_edges(text, "sum"),
            (std::vector<std::string>{"x -> a 32", "x -> b 32", "c -> n 32"}));
}

TEST(HloGraph, DrawsEscapedText) {
  HloGraph graph;
  graph.title = "a<b & \"c\"";
  graph.nodes.push_back({.name = "x\"y", .opcode = "add", .shape = "f32[]"});
  const std::string svg = graph_svg(graph);
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(graph_dot(graph).find("x\\\"y"), std::string::npos);
  EXPECT_EQ(short_bytes(25458936), "25.5 MB");
  EXPECT_EQ(short_bytes(999999), "1.00 MB");
}

}  // namespace
}  // namespace reprise
