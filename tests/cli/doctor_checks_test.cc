// The doctor on machines that this one is not: devices and the driver's files
// below a directory of the test.
#include "cli/doctor_checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

class Root : public ::testing::Test {
 protected:
  Root() {
    std::string pattern = ::testing::TempDir() + "root.XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Root() override { fs::remove_all(path_); }

  void add(const std::string& file, const std::string& text = "") const {
    fs::create_directories(fs::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  Check permission() const {
    const std::vector<Check> checks = tracing_checks(path_);
    return *std::find_if(checks.begin(), checks.end(), [](const Check& check) {
      return check.name == "permission to trace";
    });
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_F(Root, WithoutADeviceTheModuleOrTheContainerLacks) {
  Check check = permission();
  EXPECT_FALSE(check.ok);
  EXPECT_EQ(check.found, "no /dev/nvidiactl");
  EXPECT_EQ(check.fix, "load the driver's kernel module (modprobe nvidia)");
  add("/.dockerenv");
  check = permission();
  EXPECT_EQ(check.found, "no /dev/nvidiactl (in a container)");
  EXPECT_NE(check.fix.find("--gpus all"), std::string::npos);
}

TEST_F(Root, EachDeviceMustBeThereAndOpen) {
  add("/dev/nvidiactl");
  Check check = permission();
  EXPECT_FALSE(check.ok);
  EXPECT_EQ(check.found, "/dev/nvidia-uvm is missing");
  EXPECT_NE(check.fix.find("nvidia_uvm"), std::string::npos);
  add("/dev/nvidia-uvm");
  EXPECT_TRUE(permission().ok);
  ::chmod((path() + "/dev/nvidiactl").c_str(), 0);
  if (::geteuid() == 0) return;  // May open everything.
  check = permission();
  EXPECT_EQ(check.found, "/dev/nvidiactl cannot be opened");
  EXPECT_NE(check.fix.find("group"), std::string::npos);
}

TEST_F(Root, CountersOfTheAdministratorAloneDoNotMatter) {
  add("/dev/nvidiactl");
  add("/dev/nvidia-uvm");
  add("/proc/driver/nvidia/params",
      "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n");
  EXPECT_EQ(permission().found, "devices can be opened");
  add("/proc/driver/nvidia/params",
      "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n");
  const Check check = permission();
  EXPECT_TRUE(check.ok);
  EXPECT_NE(check.found.find("RmProfilingAdminOnly), which does not matter"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise
