// Training on one rank against JAX, and proof that the comparison would notice
// a wrong gradient. Two ranks: see CMakeLists.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "data/file.h"
#include "runtime/train/verification.h"
#include "tests/runtime/train/trained_program.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

Verification verified(const std::string& name, const Rewrite& rewrite) {
  const Result<TestProgram> program = load_test_program(name, rewrite);
  EXPECT_TRUE(program) << program.error().message;
  const auto run = make_test_run(*program, identity_plan(program->module, 1));
  EXPECT_TRUE(run) << run.error().message;
  const auto losses = train_steps(
      **run, static_cast<int32_t>(program->manifest.reference_steps));
  EXPECT_TRUE(losses) << losses.error().message;
  Result<Verification> verification =
      verify(program->manifest, *(*run)->run, *losses);
  EXPECT_TRUE(verification) << verification.error().message;
  return *verification;
}

std::string text_of(const std::string& name) {
  return *read_file(source_directory() + "/data/programs/" + name + ".hlo");
}

class Reference : public testing::TestWithParam<const char*> {};

TEST_P(Reference, EveryStateTensorAgreesAfterTwentySteps) {
  const Verification result = verified(GetParam(), {});
  for (const TensorCheck& check : result.tensors) {
    EXPECT_TRUE(check.passed) << check.name << ": " << check.relative_error;
  }
  EXPECT_LT(result.worst_loss, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Programs, Reference,
                         testing::Values("mlp.1", "gpt.1"));

TEST(Reference, NoticesTheHalvedGradientOfEachTensorOfTheMlp) {
  for (const std::string& name : all_reduces(text_of("mlp.1"))) {
    const Verification result = verified("mlp.1", [&](const std::string& hlo) {
      return halve_all_reduce(hlo, name);
    });
    EXPECT_FALSE(result.passed()) << name;
  }
}

// What is not compared must not pass.
TEST(Reference, NoticesALossThatDiffersAndATensorThatItLacks) {
  const Result<TestProgram> program = load_test_program("mlp.1");
  ASSERT_TRUE(program) << program.error().message;
  Manifest manifest = program->manifest;
  const auto run = make_test_run(*program, identity_plan(program->module, 1));
  ASSERT_TRUE(run) << run.error().message;
  std::vector<double> losses =
      *train_steps(**run, static_cast<int32_t>(manifest.reference_steps));
  EXPECT_TRUE(verify(manifest, *(*run)->run, losses)->passed());
  for (const double wrong : {losses[3] * 1.001, std::nan("")}) {
    std::vector<double> others = losses;
    others[3] = wrong;
    EXPECT_FALSE(verify(manifest, *(*run)->run, others)->passed()) << wrong;
  }
  ManifestParameter& extra = manifest.parameters.emplace_back();
  extra.index = 99;
  extra.name = "extra";
  const Result<Verification> lacking = verify(manifest, *(*run)->run, losses);
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.error().message.find("it holds no 'extra'"),
            std::string::npos);
}

// Adam divides a gradient's scale out again, so parameters hardly move; the
// moments show it. All gradients are halved in one run, and each tensor's own
// moment must fail by itself: with one gradient halved it is as far off.
TEST(Reference, NoticesTheHalvedGradientOfEachTensorOfTheGpt) {
  const Verification result = verified("gpt.1", [](const std::string& hlo) {
    std::string halved = hlo;
    for (const std::string& name : all_reduces(hlo))
      halved = halve_all_reduce(halved, name);
    return halved;
  });
  size_t moments = 0;
  for (const TensorCheck& check : result.tensors) {
    if (!check.name.starts_with("m.") && !check.name.starts_with("v."))
      continue;
    EXPECT_FALSE(check.passed) << check.name << ": " << check.relative_error;
    ++moments;
  }
  EXPECT_EQ(moments, 2 * all_reduces(text_of("gpt.1")).size());
}

// The same one tensor at a time; minutes, so only on request.
TEST(Reference, NoticesAnyOneHalvedGradientOfTheGpt) {
  const char* wanted = std::getenv("REPRISE_HALVED_GRADIENTS");
  if (wanted == nullptr) {
    GTEST_SKIP() << "set REPRISE_HALVED_GRADIENTS to how many to try";
  }
  std::vector<std::string> names = all_reduces(text_of("gpt.1"));
  const size_t count =
      std::min(names.size(), static_cast<size_t>(std::atoi(wanted)));
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = names[i * names.size() / count];
    const Verification result = verified("gpt.1", [&](const std::string& hlo) {
      return halve_all_reduce(hlo, name);
    });
    EXPECT_FALSE(result.passed()) << name;
  }
}

}  // namespace
}  // namespace reprise
