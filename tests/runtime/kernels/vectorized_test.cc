// GCC 12 vectorizes every function of f32 for AVX-512 wherever a program asks
// about its argument and its result, as softplus, logsumexp and erf_inv do; for
// AVX2 all but sine, cosine and tan, of which vectors would take twice the time
// there. Compiled, not run: the machine's own instructions do not matter.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/kernels/compiler.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// Each has what kept GCC 12 from vectorizing: an infinity taken out before and
/// after, and branches of a polynomial chosen by the result.
constexpr const char* kForms[] = {R"(
  sum = f32[4096] add(x, y)
  is_far = pred[4096] compare(sum, most), direction=EQ
  near = f32[4096] select(is_far, few, sum)
  r = f32[4096] {}(near)
  is_inf = pred[4096] compare(r, most), direction=EQ
  finite = f32[4096] select(is_inf, few, r)
  rest = f32[4096] subtract(near, finite)
  ROOT out = f32[4096] exponential(rest))",
                                  R"(
  top = f32[4096] maximum(x, y)
  down = f32[4096] negate(top)
  square = f32[4096] multiply(top, down)
  r = f32[4096] {}(square)
  up = f32[4096] negate(r)
  is_small = pred[4096] compare(up, few), direction=LT
  root = f32[4096] sqrt(up)
  shifted = f32[4096] select(is_small, up, root)
  first = f32[4096] select(is_small, few, most)
  p = f32[4096] multiply(first, shifted)
  is_nan = pred[4096] compare(r, r), direction=NE
  ROOT out = f32[4096] select(is_nan, r, p))"};

constexpr const char* kFunctions[] = {"exponential", "exponential-minus-one",
                                      "log",         "log-plus-one",
                                      "tanh",        "logistic",
                                      "erf",         "sine",
                                      "cosine",      "tan",
                                      "cbrt",        "rsqrt"};

Kernel kernel_of(const char* form, const char* function) {
  const Result<Module> module = parse_hlo(fmt::format(
      R"(HloModule m
ENTRY main {{
  x = f32[4096] parameter(0)
  y = f32[4096] parameter(1)
  quarter = f32[] constant(0.25)
  few = f32[4096] broadcast(quarter), dimensions={{}}
  inf = f32[] constant(inf)
  most = f32[4096] broadcast(inf), dimensions={{}}{}
}}
)",
      fmt::format(fmt::runtime(form), function)));
  EXPECT_TRUE(module) << module.error().message;
  const InstructionId root = module->entry_computation().root;
  return *lower_kernel(*module, kernel_ops(*module), {&root, 1});
}

class Vectorized : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/reprise-vectorized-test-XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string compiler() const { return directory_ + "/compiler"; }

  /// Whether GCC makes vectors of `kernel` for a processor of that level.
  bool has_vectors(const Kernel& kernel, const char* level) {
    fs::remove_all(directory_ + "/cache");
    fs::remove(directory_ + "/loops");
    std::ofstream(compiler()) << fmt::format(
        "#!/bin/sh\nexec g++ -fopt-info-vec-optimized={}/loops \"$@\" "
        "-march=x86-64-{}\n",
        directory_, level);
    fs::permissions(compiler(), fs::perms::owner_all);
    const Result<CompiledKernels> compiled = compile_kernels(
        {&kernel, 1},
        {.cache_directory = directory_ + "/cache", .compiler = compiler()});
    EXPECT_TRUE(compiled) << compiled.error().message;
    std::ifstream loops(directory_ + "/loops");
    std::string first;
    return static_cast<bool>(std::getline(loops, first));
  }

  std::string directory_;
};

/// What `g++ -dumpversion` says, or nothing.
std::string compiler_version() {
  std::FILE* pipe = ::popen("g++ -dumpversion", "r");
  char line[64] = "";
  if (pipe == nullptr) return line;
  const bool is_read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  return is_read ? line : "";
}

TEST_F(Vectorized, IsEveryFunctionAmongSelects) {
#ifndef __x86_64__
  GTEST_SKIP() << "asks for AVX, which this processor's family has not";
#endif
  const std::string version = compiler_version();
  if (std::atoi(version.c_str()) != 12)
    GTEST_SKIP() << "known of GCC 12 alone; g++ here is " << version;
  const std::set<std::string> turning = {"sine", "cosine", "tan"};
  for (const char* function : kFunctions) {
    for (const char* form : kForms) {
      const Kernel kernel = kernel_of(form, function);
      EXPECT_TRUE(has_vectors(kernel, "v4")) << function << form;
      if (turning.contains(function)) continue;
      EXPECT_TRUE(has_vectors(kernel, "v3")) << function << form;
    }
  }
}

}  // namespace
}  // namespace reprise
