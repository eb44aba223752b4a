// Which copy of NVIDIA's libraries is opened, over copies of the fake NVRTC.
#include "runtime/cuda/nvidia_library.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/cuda/cubins.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = fs::temp_directory_path() / "nvidia.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr int kDriver12 = 12040, kDriver13 = 13000;

TEST(NvidiaCandidates, ThoseThatTheDriverRunsComeFirst) {
  const NvidiaSearch search{.folders = {"/a", "/b"}};
  const Strings newest = {"libcublasLt.so.13", "/a/libcublasLt.so.13",
                          "/b/libcublasLt.so.13"};
  const Strings older = {"libcublasLt.so.12", "/a/libcublasLt.so.12",
                         "/b/libcublasLt.so.12"};
  const auto joined = [](Strings first, const Strings& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const auto under = [&](int driver_cuda) {
    return nvidia_candidates(NvidiaLibrary::kCublasLt, driver_cuda, search);
  };
  EXPECT_EQ(under(0), joined(newest, older));
  EXPECT_EQ(under(kDriver13), joined(newest, older));
  EXPECT_EQ(under(kDriver12), joined(older, newest));
}

TEST(NvidiaCandidates, AFileThatIsNamedIsTheOnlyOne) {
  EXPECT_EQ(nvidia_candidates(NvidiaLibrary::kNvrtc, 0, {.only = "/x.so"}),
            Strings{"/x.so"});
}

/// Copies of the fake NVRTC as of CUDA 12 and 13 below one folder.
class NvidiaCopies : public testing::Test {
 protected:
  NvidiaCopies() {
    ::setenv("REPRISE_TWIN_VERSION_BY_NAME", "1", 1);
    for (const char* name : {"libnvrtc.so.12", "libnvrtc.so.13"}) {
      fs::copy_file(REPRISE_FAKE_NVRTC, path(name));
    }
  }
  ~NvidiaCopies() override { ::unsetenv("REPRISE_TWIN_VERSION_BY_NAME"); }

  std::string path(const std::string& name) const {
    return fs::canonical(directory_.path()) / name;
  }
  NvidiaSearch search() const {
    return {.uses_loader = false, .folders = {directory_.path()}};
  }
  Result<OpenedNvidiaLibrary> open(int driver_cuda,
                                   const Strings& refused = {}) const {
    const auto refusal = [&](void*, const std::string& path) {
      const std::string name = fs::path(path).filename();
      return std::ranges::find(refused, name) == refused.end() ? ""
                                                               : "not today";
    };
    return open_nvidia_library(NvidiaLibrary::kNvrtc, driver_cuda, refusal,
                               search());
  }

  TemporaryDirectory directory_;
};

TEST_F(NvidiaCopies, TheNewestThatTheDriverRunsIsOpened) {
  EXPECT_EQ(open(kDriver12)->path, path("libnvrtc.so.12"));
  EXPECT_EQ(open(kDriver13)->path, path("libnvrtc.so.13"));
  EXPECT_EQ(open(0)->path, path("libnvrtc.so.13"));
  EXPECT_TRUE(open(kDriver12)->passed_over.empty());
}

TEST_F(NvidiaCopies, OneThatIsRefusedIsPassedOverWithItsReason) {
  const auto opened = open(kDriver13, {"libnvrtc.so.13"});
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->path, path("libnvrtc.so.12"));
  EXPECT_EQ(opened->passed_over,
            Strings{path("libnvrtc.so.13") + ": not today"});
  const auto none = open(kDriver13, {"libnvrtc.so.13", "libnvrtc.so.12"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, path("libnvrtc.so.13") + ": not today; " +
                                      path("libnvrtc.so.12") + ": not today");
}

TEST_F(NvidiaCopies, AFileUnderTwoNamesIsTriedOnce) {
  fs::remove(path("libnvrtc.so.12"));
  fs::create_symlink(path("libnvrtc.so.13"), path("libnvrtc.so.12"));
  EXPECT_EQ(open(0, {"libnvrtc.so.13"}).error().message,
            path("libnvrtc.so.13") + ": not today");
}

TEST_F(NvidiaCopies, CodeThatTheDeviceRefusesIsCompiledByTheNextOlder) {
  const Kernel kernel;  // Nothing to compute: an image all the same.
  Strings images;
  CubinOptions options{.cache_directory = path("cache"),
                       .driver_cuda = kDriver13,
                       .nvrtc_search = search()};
  options.takes = [&](const std::string& image) -> Status {
    images.push_back(image);
    if (images.size() > 1) return {};
    return fail(ErrorKind::kDevice, "CUDA_ERROR_INVALID_IMAGE");
  };
  const Result<Cubins> cubins = compile_cubins({&kernel, 1}, 90, options);
  ASSERT_TRUE(cubins) << cubins.error().message;
  EXPECT_EQ(images.size(), 2U);

  options.takes = [](const std::string&) -> Status {
    return fail(ErrorKind::kDevice, "CUDA_ERROR_INVALID_IMAGE");
  };
  const Result<Cubins> none = compile_cubins({&kernel, 1}, 90, options);
  ASSERT_FALSE(none);
  for (const std::string& part :
       {path("libnvrtc.so.13") +
            ": the device does not take the code of NVRTC 13.0: "
            "CUDA_ERROR_INVALID_IMAGE",
        path("libnvrtc.so.12") + ": the device does not take"}) {
    EXPECT_NE(none.error().message.find(part), std::string::npos)
        << none.error().message;
  }
}

TEST_F(NvidiaCopies, AnNvrtcThatIsTooNewIsSaid) {
  fs::remove(path("libnvrtc.so.12"));
  const Result<Cubins> none = compile_cubins(
      {}, 90, {.driver_cuda = kDriver12, .nvrtc_search = search()});
  ASSERT_FALSE(none);
  EXPECT_NE(
      none.error().message.find("of CUDA 13, newer than the driver's 12.4"),
      std::string::npos)
      << none.error().message;
}

TEST(NvidiaSearches, WheelsOfAVirtualEnvironmentAreFound) {
  const TemporaryDirectory directory;
  const fs::path wheel = fs::path(directory.path()) /
                         "lib/python3.12/site-packages/nvidia/cu13/lib";
  fs::create_directories(wheel);
  const char* before = std::getenv("VIRTUAL_ENV");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("VIRTUAL_ENV", directory.path().c_str(), 1);
  const Strings folders = default_nvidia_search().folders;
  ::setenv("VIRTUAL_ENV", kept.c_str(), 1);
  EXPECT_NE(std::ranges::find(folders, wheel.string()), folders.end());
}

TEST(CudaMajorOfNccl, ReadsTheVersionInItsText) {
  const TemporaryDirectory directory;
  const std::string path = fs::path(directory.path()) / "libnccl.so.2";
  const auto major_of = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return cuda_major_of_nccl(path);
  };
  const std::string version = "NCCL version 2.27.3+cuda12.9";
  EXPECT_EQ(major_of(version), 12);
  EXPECT_EQ(major_of("+cuda of no version, then " + version), 12);
  EXPECT_EQ(major_of("NCCL"), 0);
  EXPECT_EQ(cuda_major_of_nccl("/nonexistent"), 0);
  // Wherever the pieces that are read meet.
  const size_t mark = version.find("+cuda");
  for (size_t cut = mark; cut <= version.size(); ++cut) {
    EXPECT_EQ(major_of(std::string((1U << 20) - cut, ' ') + version), 12);
  }
}

}  // namespace
}  // namespace reprise
