#include "data/plan/dot_view.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"
#include "data/plan/op_graph.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

using Dims = std::vector<int64_t>;

TEST(ReshapeStrides, FollowsNumpy) {
  Dims strides;
  EXPECT_TRUE(reshape_strides({6, 4}, {4, 1}, {2, 3, 4}, &strides));
  EXPECT_EQ(strides, (Dims{12, 4, 1}));
  EXPECT_TRUE(reshape_strides({2, 3, 4}, {12, 4, 1}, {24}, &strides));
  EXPECT_EQ(strides, (Dims{1}));
  // Columns of a transposed matrix split, but do not merge with its rows.
  EXPECT_TRUE(reshape_strides({4, 6}, {1, 4}, {4, 2, 3}, &strides));
  EXPECT_EQ(strides, (Dims{1, 12, 4}));
  EXPECT_FALSE(reshape_strides({4, 6}, {1, 4}, {24}, &strides));
  EXPECT_TRUE(reshape_strides({1, 5}, {5, 1}, {5, 1, 1}, &strides));
  EXPECT_EQ(strides[0], 1);
  EXPECT_TRUE(reshape_strides({}, {}, {1, 1}, &strides));
}

/// The graph of an entry computation, kept with its module.
struct Program {
  InlinedModule module;
  OpGraph graph;
  explicit Program(const std::string& entry,
                   LoweredFor device = LoweredFor::kProcessor) {
    Result<InlinedModule> parsed =
        parse_inlined("HloModule m\nENTRY main {\n" + entry + "\n}\n");
    EXPECT_TRUE(parsed) << parsed.error().message;
    if (!parsed) return;
    module = *std::move(parsed);
    module.device = device;
    Result<OpGraph> built = build_op_graph(module);
    EXPECT_TRUE(built) << built.error().message;
    if (built) graph = *std::move(built);
  }
  const std::string& name(InstructionId id) const { return graph.at(id).name; }
  OpRole role(const char* op) const {
    return graph.role_of(graph.by_name.at(op));
  }
};

TEST(DotView, ReadsBothOrientations) {
  const Program p(R"(
    x = f32[5,7] parameter(0)
    w = f32[3,7] parameter(1)
    ROOT d = f32[5,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1})");
  const DotView& d = p.graph.dots.at(0);
  EXPECT_EQ(d.lhs.dimensions, (Dims{5, 7}));
  EXPECT_EQ(d.lhs.strides, (Dims{7, 1}));
  EXPECT_EQ(d.rhs.dimensions, (Dims{7, 3}));
  EXPECT_EQ(d.rhs.strides, (Dims{1, 7}));
  EXPECT_EQ(d.out.strides, (Dims{3, 1}));
}

TEST(DotView, FoldsHeadSplitsIntoStrides) {
  // [20, 12] = (2 sequences x 10, 3 heads x 4): head h of sequence b starts at
  // 120 b + 4 h and its rows stand 12 apart.
  const Program p(R"(
    x = f32[20,12] parameter(0)
    y = f32[20,12] parameter(1)
    a = f32[20,12] add(x, y)
    r = f32[2,10,3,4] reshape(a)
    q = f32[2,3,10,4] transpose(r), dimensions={0,2,1,3}
    ROOT d = f32[2,3,10,10] dot(q, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3},
      rhs_batch_dims={0,1}, rhs_contracting_dims={3})");
  const DotView& d = p.graph.dots.at(0);
  EXPECT_EQ(p.name(d.lhs.value), "a");
  EXPECT_EQ(d.lhs.dimensions, (Dims{2, 3, 10, 4}));
  EXPECT_EQ(d.lhs.strides, (Dims{120, 4, 12, 1}));
  EXPECT_EQ(d.rhs.dimensions, (Dims{2, 3, 4, 10}));
  EXPECT_EQ(d.rhs.strides, (Dims{120, 4, 1, 12}));
  EXPECT_EQ(p.role("q"), OpRole::kFolded);
  EXPECT_EQ(p.role("a"), OpRole::kKernel);
}

TEST(DotView, WritesAFollowingTransposeInPlace) {
  const Program p(R"(
    x = f32[2,3,10,10] parameter(0)
    y = f32[2,3,10,4] parameter(1)
    d = f32[2,3,10,4] dot(x, y), lhs_batch_dims={0,1}, lhs_contracting_dims={3},
      rhs_batch_dims={0,1}, rhs_contracting_dims={2}
    t = f32[2,10,3,4] transpose(d), dimensions={0,2,1,3}
    r = f32[20,12] reshape(t)
    ROOT n = f32[20,12] negate(r))");
  const DotView& d = p.graph.dots.at(0);
  EXPECT_EQ(p.name(d.out.value), "t");
  EXPECT_EQ(d.out.dimensions, (Dims{2, 3, 10, 4}));
  EXPECT_EQ(d.out.strides, (Dims{120, 4, 12, 1}));
  EXPECT_EQ(p.graph.inputs[index_of(p.graph.by_name.at("n"))],
            (std::vector<InstructionId>{p.graph.by_name.at("t")}));
}

TEST(DotView, SwapsSidesToKeepColumnsContiguous) {
  const Program p(R"(
    x = f32[5,7] parameter(0)
    w = f32[7,3] parameter(1)
    d = f32[5,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT t = f32[3,5] transpose(d), dimensions={1,0})");
  const DotView& d = p.graph.dots.at(0);
  EXPECT_EQ(p.name(d.out.value), "t");
  EXPECT_EQ(p.name(d.lhs.value), "w");
  EXPECT_EQ(d.lhs.dimensions, (Dims{3, 7}));
  EXPECT_EQ(d.lhs.strides, (Dims{1, 3}));
  EXPECT_EQ(d.rhs.dimensions, (Dims{7, 5}));
  EXPECT_EQ(d.out.dimensions, (Dims{3, 5}));
  EXPECT_EQ(d.out.strides, (Dims{5, 1}));
}

TEST(DotView, LeavesATransposeThatStridesCannotExpressToAKernel) {
  // Rows (10, 3) of the transposed array do not nest: 12 apart inside, 4
  // outside.
  const Program p(R"(
    x = f32[10,12] parameter(0)
    r = f32[10,3,4] reshape(x)
    t = f32[3,10,4] transpose(r), dimensions={1,0,2}
    m = f32[30,4] reshape(t)
    w = f32[4,5] parameter(1)
    ROOT d = f32[30,5] dot(m, w), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  EXPECT_EQ(p.role("t"), OpRole::kKernel);
  EXPECT_EQ(p.name(p.graph.dots.at(0).lhs.value), "t");
}

TEST(DotView, MergesSeveralContractedAndBatchDimensions) {
  const Program p(R"(
    x = f32[4,6,9,7] parameter(0)
    y = f32[4,6,9,3] parameter(1)
    s = f32[24,9,7] reshape(x)
    ROOT d = f32[4,6,7,3] dot(x, y), lhs_batch_dims={0,1}, lhs_contracting_dims={2},
      rhs_batch_dims={0,1}, rhs_contracting_dims={2})");
  EXPECT_EQ(p.graph.dots.at(0).lhs.dimensions, (Dims{24, 7, 9}));
  EXPECT_EQ(p.graph.dots.at(0).out.strides, (Dims{21, 3, 1}));
  const Program q(R"(
    x = f32[4,6,7] parameter(0)
    y = f32[4,6,3] parameter(1)
    ROOT d = f32[7,3] dot(x, y), lhs_contracting_dims={1,0}, rhs_contracting_dims={1,0})");
  EXPECT_EQ(q.graph.dots.at(0).lhs.dimensions, (Dims{7, 24}));
  EXPECT_EQ(q.graph.dots.at(0).lhs.strides, (Dims{1, 7}));
}

TEST(DotView, HandlesVectors) {
  const Program p(R"(
    x = f32[4,6] parameter(0)
    y = f32[6] parameter(1)
    ROOT d = f32[4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  EXPECT_EQ(p.graph.dots.at(0).rhs.dimensions, (Dims{6, 1}));
  EXPECT_EQ(p.graph.dots.at(0).out.dimensions, (Dims{4, 1}));
}

TEST(DotView, Bf16RunsAsF32DoesIntoEither) {
  const Program p(R"(
    x = bf16[6,4] parameter(0)
    y = bf16[6,3] parameter(1)
    t = bf16[4,6] transpose(x), dimensions={1,0}
    d = bf16[4,3] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    e = f32[4,3] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT r = (bf16[4,3], f32[4,3]) tuple(d, e))");
  ASSERT_EQ(p.graph.dots.size(), 2U);
  EXPECT_EQ(p.role("d"), OpRole::kDot);
  EXPECT_EQ(p.role("e"), OpRole::kDot);
  for (const auto& dot : p.graph.dots) {
    EXPECT_EQ(dot.type, PrimitiveType::kBF16);
    EXPECT_EQ(dot.lhs.strides, (Dims{1, 4}));
  }
}

TEST(DotView, OtherTypesAreRoutines) {
  const Program p(R"(
    x = s32[4,6] parameter(0)
    y = s32[6] parameter(1)
    ROOT d = s32[4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  EXPECT_TRUE(p.graph.dots.empty());
  EXPECT_EQ(p.role("d"), OpRole::kRoutine);
}

TEST(DotView, F16AndF64AreOfAGpusLibrary) {
  const std::string dots = R"(
    x = f16[4,6] parameter(0)
    y = f16[6,3] parameter(1)
    p = f64[4,6] parameter(2)
    q = f64[6,3] parameter(3)
    d = f16[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    e = f32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    f = f64[4,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT r = (f16[4,3], f32[4,3], f64[4,3]) tuple(d, e, f))";
  const Program on_processor(dots), on_gpu(dots, LoweredFor::kGpu);
  for (const char* dot : {"d", "e", "f"}) {
    EXPECT_EQ(on_processor.role(dot), OpRole::kRoutine) << dot;
    EXPECT_EQ(on_gpu.role(dot), OpRole::kDot) << dot;
  }
}

}  // namespace
}  // namespace reprise
