// NVRTC compiles every kernel of every shipped program for the GPUs of all
// generations from Turing to Blackwell, and none of them spills registers; so
// does each NVRTC below the folder that REPRISE_HEADERS names
// (tests/profiler/fetch_headers.sh). Needs NVRTC, no GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/cubins.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/runtime/kernels/cuda_program_kernels.h"

namespace reprise {
namespace {

constexpr int kArchitectures[] = {75, 80, 86, 89, 90, 100, 103, 120};

class CubinsOfPrograms : public testing::TestWithParam<int> {};

TEST_P(CubinsOfPrograms, EveryKernelOfEveryProgramCompilesWithoutSpills) {
  static const std::vector<Kernel> kernels = program_kernels();
  ASSERT_GT(kernels.size(), 200u);
  // An empty cache: what a cache holds has no log.
  std::string directory =
      std::filesystem::temp_directory_path() / "reprise_cubins_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const Result<Cubins> cubins =
      compile_cubins(kernels, GetParam(), {.cache_directory = directory});
  ASSERT_TRUE(cubins) << cubins.error().message;
  size_t launches = 0;
  std::set<std::string> entries;
  for (const CubinKernel& kernel : cubins->kernels) {
    ASSERT_FALSE(kernel.launches.empty());
    for (const PrintedLaunch& launch : kernel.launches) {
      EXPECT_NE(cubins->images[kernel.image].find(launch.entry),
                std::string::npos);
      EXPECT_LE(launch.block_threads, 1024u);
      entries.insert(launch.entry);
    }
    launches += kernel.launches.size();
  }
  for (const std::string& image : cubins->images)
    EXPECT_EQ(image.substr(0, 4),
              "\x7f"
              "ELF");
  // ptxas speaks of each entry once.
  EXPECT_EQ(cubins->resources.size(), entries.size());
  int64_t most = 0;
  for (const CubinResources& entry : cubins->resources) {
    EXPECT_EQ(entry.spill_store_bytes, 0) << entry.entry;
    EXPECT_EQ(entry.spill_load_bytes, 0) << entry.entry;
    EXPECT_GT(entry.registers, 0) << entry.entry;
    most = std::max(most, entry.registers);
  }
  RecordProperty("kernels", cubins->compiled);
  RecordProperty("launches", static_cast<int>(launches));
  RecordProperty("most_registers", static_cast<int>(most));
  // Again: all from the cache, the same images.
  const Result<Cubins> again =
      compile_cubins(kernels, GetParam(), {.cache_directory = directory});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->compiled, 0);
  EXPECT_EQ(again->images, cubins->images);
  std::filesystem::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Architectures, CubinsOfPrograms,
                         testing::ValuesIn(kArchitectures));

TEST(Cubins, AreMadeByTheNvrtcOfEachVersion) {
  const char* base = std::getenv("REPRISE_HEADERS");
  if (base == nullptr || *base == '\0')
    GTEST_SKIP() << "REPRISE_HEADERS names no folder";
  const std::vector<Kernel> kernels = program_kernels();
  int copies = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(base)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("libnvrtc.so.")) continue;
    const NvidiaSearch search{.only = entry.path()};
    for (const int architecture : kArchitectures) {
      const auto nvrtc =
          Nvrtc::open({.architecture = architecture, .search = search});
      if (!nvrtc) continue;  // Of a device that came after it.
      std::string directory =
          std::filesystem::temp_directory_path() / "reprise_cubins_XXXXXX";
      ASSERT_NE(::mkdtemp(directory.data()), nullptr);
      const Result<Cubins> cubins = compile_cubins(
          std::span(kernels).first(60), architecture,
          {.cache_directory = directory, .nvrtc_search = search});
      EXPECT_TRUE(cubins) << nvrtc->version() << ": "
                          << (cubins ? "" : cubins.error().message);
      std::filesystem::remove_all(directory);
      ++copies;
    }
  }
  EXPECT_GT(copies, 0) << base << " holds no NVRTC";
  RecordProperty("versions_and_architectures", copies);
}

TEST(Cubins, DamagedOnesAreCompiledAnew) {
  std::vector<Kernel> kernels = program_kernels();
  kernels.resize(3);
  std::string directory =
      std::filesystem::temp_directory_path() / "reprise_cubins_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const CubinOptions options{.cache_directory = directory};
  const Result<Cubins> whole = compile_cubins(kernels, 90, options);
  ASSERT_TRUE(whole) << whole.error().message;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() == ".so")
      std::filesystem::resize_file(entry.path(), 100);
  }
  const Result<Cubins> again = compile_cubins(kernels, 90, options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->compiled, whole->compiled);
  EXPECT_EQ(again->images, whole->images);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const auto nvrtc = reprise::Nvrtc::open({}); !nvrtc) {
    std::printf("skipped: %s\n", nvrtc.error().message.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
