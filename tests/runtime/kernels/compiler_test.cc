// The compile cache: what it keeps, what it refuses, and what happens without a
// compiler.
#include "runtime/kernels/compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/kernels/compile_cache.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

Kernel kernel_of(const std::string& name, int64_t extent,
                 const std::string& opcode = "negate") {
  const std::string text = fmt::format(
      "HloModule m\nENTRY main {{ {0}x = f32[{1}] parameter(0)\n"
      "  ROOT {0}r = f32[{1}] {2}({0}x) }}\n",
      name, extent, opcode);
  const Module module = *parse_hlo(text);
  const InstructionId op = module.entry_computation().root;
  return *lower_kernel(module, {&op, 1}, {&op, 1});
}

class Compiler : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/reprise-compiler-test-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    options_.cache_directory = directory_ + "/cache";
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::vector<fs::path> libraries() const {
    std::vector<fs::path> found;
    for (const auto& entry :
         fs::recursive_directory_iterator(options_.cache_directory)) {
      if (entry.path().extension() == ".so") found.push_back(entry.path());
    }
    return found;
  }

  std::string directory_;
  CompileOptions options_;
};

TEST_F(Compiler, CompilesEachTextOnceWhateverItsNames) {
  // The extent of a loop that callers may split is no part of the text.
  const std::vector<Kernel> kernels{kernel_of("a", 7), kernel_of("b", 7),
                                    kernel_of("a", 8),
                                    kernel_of("a", 7, "floor")};
  EXPECT_EQ(kernel_key(kernels[0]), kernel_key(kernels[1]));
  EXPECT_NE(kernel_key(kernels[0]), kernel_key(kernels[2]));
  const auto first = compile_kernels(kernels, options_);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->compiled, 2);
  EXPECT_EQ(first->functions[0], first->functions[1]);
  EXPECT_EQ(first->functions[0], first->functions[2]);
  const auto second = compile_kernels(kernels, options_);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->compiled, 0);
  const std::vector<Kernel> more{kernels[0], kernel_of("c", 9, "ceil")};
  const auto third = compile_kernels(more, options_);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->compiled, 1);
  float in[9] = {1, 2, 3, 4, 5, 6, 7, 8, 8.5f}, out[9] = {};
  void* arguments[] = {in, out};
  third->functions[1](arguments, 0, kernel_iterations(more[1]));
  EXPECT_EQ(out[8], 9);
}

TEST_F(Compiler, KeepsItsCacheToItsUser) {
  const Kernel kernel = kernel_of("a", 7);
  ASSERT_TRUE(compile_kernels({&kernel, 1}, options_));
  struct stat info {};
  ASSERT_EQ(::stat((options_.cache_directory + "/kernels").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ::chmod((options_.cache_directory + "/kernels").c_str(), 0777);
  const auto open = compile_kernels({&kernel, 1}, options_);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().kind, ErrorKind::kDevice);
  EXPECT_NE(open.error().message.find("chmod 700"), std::string::npos);
}

TEST_F(Compiler, CompilesAnewWhatChanged) {
  // What lies in the cache is loaded only as it was compiled, and a cache that
  // something damaged must not cost a run its compiled kernels.
  const Kernel kernel = kernel_of("a", 7);
  ASSERT_TRUE(compile_kernels({&kernel, 1}, options_));
  const auto damages = {
      +[](const fs::path& library) {
        std::ofstream(library, std::ios::app) << "x";
      },
      +[](const fs::path& library) { fs::resize_file(library, 100); },
      +[](const fs::path& library) { fs::remove(library); }};
  for (const auto damage : damages) {
    damage(libraries().at(0));
    const auto again = compile_kernels({&kernel, 1}, options_);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->compiled, 1);
    float in[7] = {1, 2, 3, 4, 5, 6, 7}, out[7] = {};
    void* arguments[] = {in, out};
    again->functions[0](arguments, 0, kernel_iterations(kernel));
    EXPECT_EQ(out[6], -7);
    EXPECT_EQ(compile_kernels({&kernel, 1}, options_)->compiled, 0);
  }
}

TEST_F(Compiler, RemovesWhatKilledOnesLeft) {
  const Kernel kernel = kernel_of("a", 7);
  ASSERT_TRUE(compile_kernels({&kernel, 1}, options_));
  const fs::path folder = libraries().at(0).parent_path();
  const fs::path old = folder / ".1.0.cc", fresh = folder / ".1.1.cc";
  std::ofstream(old) << "x";
  std::ofstream(fresh) << "x";
  fs::last_write_time(old,
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(compile_kernels({&kernel, 1}, options_));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));  // Somebody may still write it.
  EXPECT_EQ(libraries().size(), 1u);
}

TEST_F(Compiler, LeavesNoFilesButLibrariesAndKeys) {
  const Kernel kernel = kernel_of("a", 7);
  ASSERT_TRUE(compile_kernels({&kernel, 1}, options_));
  for (const auto& entry :
       fs::recursive_directory_iterator(options_.cache_directory)) {
    if (entry.is_directory()) continue;
    const std::string extension = entry.path().extension();
    EXPECT_TRUE(extension == ".so" || extension == ".keys") << entry.path();
  }
}

TEST_F(Compiler, TrustsNoDirectoryInWhichOthersMayRename) {
  const Kernel kernel = kernel_of("a", 7);
  fs::create_directories(options_.cache_directory);
  ::chmod(options_.cache_directory.c_str(), 0777);
  const auto open = compile_kernels({&kernel, 1}, options_);
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message.find("chmod o-w"), std::string::npos);
}

TEST(CompileCacheDirectory, IsInTmpWhereTheUsersCannotBeWritten) {
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string saved = before == nullptr ? "" : before;
  ::setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  const std::string directory = default_cache_directory();
  before == nullptr ? ::unsetenv("XDG_CACHE_HOME")
                    : ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
  EXPECT_EQ(directory, fmt::format("/tmp/reprise-cache-{}", ::geteuid()));
  ::rmdir(directory.c_str());  // Unless somebody uses it.
}

TEST_F(Compiler, SaysWhichCompilerIsMissing) {
  const Kernel kernel = kernel_of("a", 7);
  options_.compiler = "no-such-compiler";
  const auto missing = compile_kernels({&kernel, 1}, options_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kDevice);
  EXPECT_NE(missing.error().message.find("no-such-compiler"),
            std::string::npos);
  options_.compiler = "false";
  EXPECT_FALSE(compile_kernels({&kernel, 1}, options_));
}

}  // namespace
}  // namespace reprise
