// GCC 12 vectorizes every function of f32 for AVX-512 wherever a program asks
// about its argument and its result, as softplus, logsumexp and erf_inv do; for
// AVX2 all but sine, cosine and tan, of which vectors would take twice the time
// there; those of f64 that networks are made of; remainders and quotients of
// integers; and masks that are multiplied. Compiled, not run: the machine's own
// instructions do not matter.
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
#include "runtime/kernels/print_kernel.h"
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

constexpr const char* kVectorizedFunctions[] = {
    "exponential", "exponential-minus-one",
    "log",         "log-plus-one",
    "tanh",        "logistic",
    "erf",         "sine",
    "cosine",      "tan",
    "cbrt",        "rsqrt",
    "asin",        "acos",
    "atan"};

constexpr const char* kFunctionsOfF64[] = {
    "exponential", "exponential-minus-one",
    "log",         "log-plus-one",
    "tanh",        "logistic",
    "sinh",        "cosh",
    "asinh",       "acosh",
    "atanh"};

Kernel kernel_of(const std::string& text) {
  const Result<Module> module = parse_hlo(text);
  EXPECT_TRUE(module) << module.error().message;
  const InstructionId root = module->entry_computation().root;
  return *lower_kernel(*module, kernel_ops(*module), {&root, 1});
}

std::string with_function(const char* form, const char* function) {
  return fmt::format(
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
      fmt::format(fmt::runtime(form), function));
}

/// What `g++ -dumpversion` says, or nothing.
std::string compiler_version() {
  std::FILE* pipe = ::popen("g++ -dumpversion", "r");
  char line[64] = "";
  if (pipe == nullptr) return line;
  const bool is_read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  return is_read ? line : "";
}

class Vectorized : public testing::Test {
 protected:
  void SetUp() override {
#ifndef __x86_64__
    GTEST_SKIP() << "asks for AVX, which this processor's family has not";
#endif
    const std::string version = compiler_version();
    if (std::atoi(version.c_str()) != 12)
      GTEST_SKIP() << "known of GCC 12 alone; g++ here is " << version;
    char pattern[] = "/tmp/reprise-vectorized-test-XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }

  std::string compiler() const { return directory_ + "/compiler"; }

  /// Of how many loops of `kernel` GCC makes vectors for a processor of that
  /// level.
  int vector_loops(const Kernel& kernel, const char* level) {
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
    int count = 0;
    for (std::string line; std::getline(loops, line);) ++count;
    return count;
  }

  std::string directory_;
};

TEST_F(Vectorized, IsEveryFunctionAmongSelects) {
  const std::set<std::string> turning = {"sine", "cosine", "tan"};
  for (const char* function : kVectorizedFunctions) {
    for (const char* form : kForms) {
      const Kernel kernel = kernel_of(with_function(form, function));
      EXPECT_GT(vector_loops(kernel, "v4"), 0) << function << form;
      if (turning.contains(function)) continue;
      EXPECT_GT(vector_loops(kernel, "v3"), 0) << function << form;
    }
  }
}

TEST_F(Vectorized, AreFunctionsOfF64) {
  for (const char* function : kFunctionsOfF64) {
    std::string text = with_function(kForms[1], function);
    for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos;)
      text.replace(at, 3, "f64");
    const Kernel kernel = kernel_of(text);
    EXPECT_GT(vector_loops(kernel, "v4"), 0) << function;
    EXPECT_GT(vector_loops(kernel, "v3"), 0) << function;
  }
}

TEST_F(Vectorized, AreRemaindersAndQuotients) {
  for (const char* type : {"f32", "bf16", "s32", "u32", "s16", "u8"}) {
    for (const char* op : {"remainder", "divide"}) {
      const Kernel kernel = kernel_of(fmt::format(
          R"(HloModule m
ENTRY main {{
  x = {0}[4096] parameter(0)
  y = {0}[4096] parameter(1)
  r = {0}[4096] {1}(x, y)
  ROOT out = {0}[4096] maximum(r, x)
}}
)",
          type, op));
      EXPECT_GT(vector_loops(kernel, "v4"), 0) << type << " " << op;
      EXPECT_GT(vector_loops(kernel, "v3"), 0) << type << " " << op;
    }
  }
}

// A bool that is converted was the one step of such a loop without vectors, so
// that a dropout's mask made all that was fused with it scalar.
TEST_F(Vectorized, IsASumOfWhatAMaskIsMultipliedWith) {
  const Kernel kernel = kernel_of(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
ENTRY main {
  x = f32[256,512] parameter(0)
  mask = pred[256,512] parameter(1)
  kept = f32[256,512] convert(mask)
  product = f32[256,512] multiply(x, kept)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(product, zero), dimensions={0,1}, to_apply=add
})");
  const std::string text = print_kernel(kernel, "k");
  int marked = 0;
  for (size_t at = text.find("omp simd"); at != std::string::npos;
       at = text.find("omp simd", at + 1))
    ++marked;
  EXPECT_EQ(vector_loops(kernel, "v4"), marked) << text;
}

// Of a row's stores GCC made one vector, so that each of its elements was
// computed in all lanes of one.
TEST_F(Vectorized, AreSoftmaxesOfShortRows) {
  for (const int length : {2, 3, 4, 5, 6, 7, 8}) {
    const Kernel kernel = kernel_of(fmt::format(
        R"(HloModule m
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  x = f32[4096,{0}] parameter(0)
  zero = f32[] constant(0)
  e = f32[4096,{0}] exponential(x)
  sum = f32[4096] reduce(e, zero), dimensions={{1}}, to_apply=add
  sums = f32[4096,{0}] broadcast(sum), dimensions={{0}}
  ROOT r = f32[4096,{0}] divide(e, sums)
}})",
        length));
    EXPECT_GT(vector_loops(kernel, "v4"), 0) << length;
    EXPECT_GT(vector_loops(kernel, "v3"), 0) << length;
    // Columns of exponentials, not rows.
    EXPECT_NE(print_kernel(kernel, "k").find("[l] = v"), std::string::npos);
  }
}

// Behind conditions that hold for whole rows GCC made no vectors of a gradient
// of cumlogsumexp: each took six times as long.
TEST_F(Vectorized, IsASumOfPaddedRows) {
  const Kernel kernel = kernel_of(R"(HloModule m
ENTRY main {
  zero = f32[] constant(0)
  inf = f32[] constant(inf)
  zeros = f32[64,96] broadcast(zero), dimensions={}
  most = f32[64,96] broadcast(inf), dimensions={}
  x0 = f32[1,96] parameter(0)
  x1 = f32[31,96] parameter(1)
  x2 = f32[32,96] parameter(2)
  x3 = f32[32,96] parameter(3)
  p0 = f32[64,96] pad(x0, zero), padding=0_63x0_0
  p1 = f32[64,96] pad(x1, zero), padding=2_1_1x0_0
  p2 = f32[64,96] pad(x2, zero), padding=1_0_1x0_0
  p3 = f32[64,96] pad(x3, zero), padding=0_1_1x0_0
  s1 = f32[64,96] add(p0, p1)
  s2 = f32[64,96] add(s1, p2)
  s3 = f32[64,96] add(s2, p3)
  a = f32[64,96] parameter(4)
  is_far_a = pred[64,96] compare(a, most), direction=EQ
  near_a = f32[64,96] select(is_far_a, zeros, a)
  b = f32[64,96] parameter(5)
  is_far_b = pred[64,96] compare(b, most), direction=EQ
  near_b = f32[64,96] select(is_far_b, zeros, b)
  less = f32[64,96] subtract(near_a, near_b)
  power = f32[64,96] exponential(less)
  first = f32[64,96] multiply(s3, power)
  c = f32[64,96] parameter(6)
  is_far_c = pred[64,96] compare(c, most), direction=EQ
  near_c = f32[64,96] select(is_far_c, zeros, c)
  rest = f32[64,96] subtract(near_c, near_b)
  other = f32[64,96] exponential(rest)
  second = f32[64,96] multiply(s3, other)
  ROOT r = f32[64,96] add(first, second)
})");
  EXPECT_EQ(vector_loops(kernel, "v4"), 1) << print_kernel(kernel, "k");
  EXPECT_EQ(vector_loops(kernel, "v3"), 1) << print_kernel(kernel, "k");
}

}  // namespace
}  // namespace reprise
