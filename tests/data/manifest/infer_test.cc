#include "data/manifest/infer.h"

#include <gtest/gtest.h>

#include <utility>

#include "data/hlo/hlo.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

constexpr const char* kStep =
    R"(HloModule step, input_output_alias={ {1}: (1, {}, may-alias) }

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,4], w: f32[4,3]) -> (f32[], f32[4,3], s32[]) {
  %x = f32[8,4] parameter(0), metadata={op_name="batch[\'x\']"}
  %w = f32[4,3] parameter(1)
  %r = f32[4,3] all-reduce(%w), replica_groups={{0,1,2}}, to_apply=%sum
  %loss = f32[] constant(0)
  %count = s32[] constant(0)
  ROOT %out = (f32[], f32[4,3], s32[]) tuple(%loss, %r, %count)
}
)";

Module parsed(const std::string& text) {
  auto module = parse_hlo(text);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message);
  return module ? std::move(*module) : Module();
}

TEST(InferManifest, TakesRolesFromAliasingAndShapes) {
  const Manifest manifest = infer_manifest(parsed(kStep), "step.hlo");
  EXPECT_EQ(manifest.ranks, 3);
  ASSERT_EQ(manifest.parameters.size(), 2u);
  EXPECT_EQ(manifest.parameters[0].role, ParameterRole::kBatch);
  EXPECT_EQ(manifest.parameters[0].name, "batch['x']");
  EXPECT_EQ(manifest.parameters[1].role, ParameterRole::kState);
  EXPECT_EQ(manifest.parameters[1].init, InitKind::kUniform);
  EXPECT_EQ(manifest.parameters[1].scale, 0.5);  // 1/sqrt(4)
  ASSERT_EQ(manifest.outputs.size(), 3u);
  EXPECT_EQ(manifest.outputs[0].role, OutputRole::kLoss);
  EXPECT_EQ(manifest.outputs[1].parameter, 1);
  EXPECT_EQ(manifest.outputs[2].role, OutputRole::kOther);
  ASSERT_TRUE(manifest.dataset.has_value());
  EXPECT_EQ(manifest.dataset->record_bytes, 4);  // A row of x.
}

// Both are bytes where they run.
TEST(InferManifest, PairsFloatsOfEightBitsByTheTypesOfTheText) {
  const Result<InlinedModule> module = parse_inlined(
      "HloModule m, buffer_donor={ (0, {}), (1, {}) }\n"
      "ENTRY e {\n w = f8e4m3fn[4,3] parameter(0)\n"
      " v = f8e5m2[4,3] parameter(1)\n a = f8e5m2[4,3] negate(v)\n"
      " b = f8e4m3fn[4,3] negate(w)\n"
      " ROOT t = (f8e5m2[4,3], f8e4m3fn[4,3]) tuple(a, b)\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  Manifest manifest = infer_manifest(*module, "step.hlo");
  ASSERT_EQ(manifest.outputs.size(), 2u);
  EXPECT_EQ(manifest.outputs[0].parameter, 1);
  EXPECT_EQ(manifest.outputs[1].parameter, 0);
  EXPECT_EQ(manifest.parameters[0].init, InitKind::kUniform);
  EXPECT_TRUE(validate_manifest(manifest, *module));
  std::swap(manifest.outputs[0].parameter, manifest.outputs[1].parameter);
  const Status fits = validate_manifest(manifest, *module);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().message.find("output 0 is f8e5m2[4,3], its parameter "
                                      "0 is f8e4m3fn[4,3]"),
            std::string::npos)
      << fits.error().message;
}

TEST(InferManifest, ALossMayBeAnArrayOfOneElementWhereNoScalarIs) {
  Module module =
      parsed(R"(HloModule mapped, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY e {
  w = f32[1,4] parameter(0)
  x = f32[1,4] parameter(1)
  next = f32[1,4] subtract(w, x)
  count = s32[1] constant({1})
  two = f32[] constant(2)
  loss = f32[1] reshape(two)
  ROOT out = (f32[1,4], s32[1], f32[1]) tuple(next, count, loss)
})");
  const Manifest manifest = infer_manifest(module, "step.hlo");
  ASSERT_EQ(manifest.outputs.size(), 3u);
  EXPECT_EQ(manifest.outputs[0].role, OutputRole::kState);
  EXPECT_EQ(manifest.outputs[1].role, OutputRole::kOther);
  EXPECT_EQ(manifest.outputs[2].role, OutputRole::kLoss);
}

TEST(InferManifest, CountsRanksOfTheHeaderWhereGroupsNameNone) {
  std::string text = kStep;
  text.replace(text.find("{{0,1,2}}"), 9, "{}");
  text.replace(text.find("step,"), 5, "step, replica_count=4,");
  EXPECT_EQ(infer_manifest(parsed(text), "step.hlo").ranks, 4);
}

TEST(InferManifest, CountsTheRanksOfAPermutesPairs) {
  std::string text = kStep;
  const std::string sum =
      "all-reduce(%w), replica_groups={{0,1,2}}, to_apply=%sum";
  text.replace(text.find(sum), sum.size(),
               "collective-permute(%w), source_target_pairs={{0,1},{1,4}}");
  EXPECT_EQ(infer_manifest(parsed(text), "step.hlo").ranks, 5);
}

TEST(InferManifest, WritesWhatTheManifestReaderTakes) {
  const Module module = parsed(kStep);
  const Manifest inferred = infer_manifest(module, "step.hlo");
  const auto read = parse_manifest(manifest_text(inferred), "step.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_TRUE(validate_manifest(*read, module).has_value());
  EXPECT_EQ(manifest_text(*read), manifest_text(inferred));
}

TEST(InferManifest, FindsTheRolesOfTheShippedPrograms) {
  for (const char* name : {"mlp.2", "gpt.2"}) {
    const std::string path =
        source_directory() + "/data/programs/" + name + ".hlo";
    const auto module = parse_hlo_file(path);
    ASSERT_TRUE(module.has_value()) << module.error().message;
    const auto written = load_manifest_for(path);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    const Manifest inferred =
        infer_manifest(*module, std::string(name) + ".hlo");
    EXPECT_EQ(inferred.ranks, written->ranks);
    ASSERT_EQ(inferred.parameters.size(), written->parameters.size());
    for (size_t i = 0; i < inferred.parameters.size(); ++i) {
      EXPECT_EQ(inferred.parameters[i].role, written->parameters[i].role) << i;
    }
    for (size_t i = 0; i < inferred.outputs.size(); ++i) {
      EXPECT_EQ(inferred.outputs[i].parameter, written->outputs[i].parameter)
          << i;
    }
  }
}

}  // namespace
}  // namespace reprise
