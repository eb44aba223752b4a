#include "cli/nccl_version.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace reprise {
namespace {

namespace fs = std::filesystem;

class NcclVersion : public ::testing::Test {
 protected:
  NcclVersion() {
    std::string pattern = ::testing::TempDir() + "nccl.XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) ::unsetenv(name);
    ::setenv("LD_LIBRARY_PATH", (root_ / "lib").c_str(), 1);
    // Not this machine's torchrun, beside which a wheel may lie.
    ::setenv("PATH", (root_ / "nothing").c_str(), 1);
    fs::create_directories(root_ / "lib");
  }
  ~NcclVersion() override { fs::remove_all(root_); }

  /// A Python environment; `wheel`: "nvidia_nccl_cu12-2.26.2", or none.
  std::string python(const std::string& name, const std::string& wheel) const {
    const fs::path packages = root_ / name / "lib/python3.11/site-packages";
    fs::create_directories(root_ / name / "bin");
    fs::create_directories(packages / "torch-2.7.0.dist-info");
    if (!wheel.empty()) {
      fs::create_directories(packages / (wheel + ".dist-info"));
    }
    return (root_ / name / "bin/python").string();
  }
  void add_library(const std::string& file) const {
    std::ofstream(root_ / "lib" / file) << "library";
    fs::create_symlink(file, root_ / "lib/libnccl.so.2");
  }

  fs::path root_;
};

TEST_F(NcclVersion, IsThatOfTheProgramsWheels) {
  add_library("libnccl.so.2.28.9");
  const auto old =
      find_nccl({python("old", "nvidia_nccl_cu12-2.26.2"), "t.py"});
  ASSERT_TRUE(old);
  EXPECT_EQ(old->version, 22602);
  EXPECT_EQ(old->text(), "2.26.2");
  EXPECT_LT(old->version, kFirstNcclWithPlugin);
  // Behind a launcher too.
  const std::string newer = python("new", "nvidia_nccl_cu13-2.30.7");
  const auto launched = find_nccl({"mpirun", "-n", "2", newer, "t.py"});
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->version, 23007);
}

TEST_F(NcclVersion, IsThatOfTheEnvironmentInUse) {
  ::setenv("VIRTUAL_ENV", (root_ / "venv").c_str(), 1);
  python("venv", "nvidia_nccl_cu12-2.21.5");
  const auto found = find_nccl({"torchrun", "t.py"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version, 22105);
}

TEST_F(NcclVersion, IsElseThatOfTheLoadersLibrary) {
  add_library("libnccl.so.2.18.3");
  const auto found = find_nccl({python("plain", ""), "t.py"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version, 21803);
  EXPECT_EQ(found->path, fs::canonical(root_ / "lib/libnccl.so.2.18.3"));
}

TEST_F(NcclVersion, IsNoneWhereNoNameTellsIt) {
  add_library("libnccl.so.2.x");
  EXPECT_FALSE(find_nccl({python("odd", "nvidia_nccl_cu12-unknown")}));
}

}  // namespace
}  // namespace reprise
