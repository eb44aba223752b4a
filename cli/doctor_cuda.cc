// NVIDIA's part of the doctor. Every library is opened by name, asked for its
// version and closed: none is linked, none need be there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>

#include "cli/doctor_checks.h"

namespace reprise {
namespace {

/// A shared library, open as long as this lives.
class Library {
 public:
  /// The first of the names that opens: as the loader finds it, else below the
  /// toolkit (CUDA_HOME, CUDA_PATH or /usr/local/cuda).
  Library(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (open(name)) return;
    }
    for (const char* folder : {"/lib64/", "/extras/CUPTI/lib64/"}) {
      for (const char* name : names) {
        if (open(toolkit() + folder + name)) return;
      }
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  bool is_open() const { return handle_ != nullptr; }
  /// Where it was found.
  std::string path() const {
    link_map* map = nullptr;
    if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) {
      return "";
    }
    return map->l_name;
  }
  template <typename Function>
  Function* find(const char* name) const {
    return handle_ == nullptr
               ? nullptr
               : reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  bool open(const std::string& name) {
    handle_ = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    return handle_ != nullptr;
  }
  static std::string toolkit() {
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
      const char* value = std::getenv(variable);
      if (value != nullptr && *value != '\0') return value;
    }
    return "/usr/local/cuda";
  }

  void* handle_ = nullptr;
};

/// "13.0" of 13000, as the driver and the runtime count.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// What the driver says; versions are 0 where it says nothing.
struct Driver {
  Check check;
  int version = 0;  ///< The latest CUDA that it runs.
};

constexpr unsigned kForDevice = kForCuda | kForProfile;

Driver driver_check() {
  Driver driver;
  driver.check = {"NVIDIA driver", kForDevice, false, "libcuda.so.1 not found",
                  "install the NVIDIA driver, and in a container start it with "
                  "--gpus all; CPU training needs none"};
  const Library library({"libcuda.so.1"});
  if (!library.is_open()) return driver;
  const auto initialize = library.find<int(unsigned)>("cuInit");
  const auto version = library.find<int(int*)>("cuDriverGetVersion");
  if (version != nullptr) version(&driver.version);
  const int status = initialize == nullptr ? -1 : initialize(0);
  driver.check.ok = status == 0;
  if (status != 0) {
    driver.check.found =
        fmt::format("{}: cuInit failed with {}", library.path(), status);
    driver.check.fix =
        status == 100
            ? "no GPU is visible: check CUDA_VISIBLE_DEVICES and nvidia-smi"
            : "check nvidia-smi and the container's GPU access";
    return driver;
  }
  int devices = 0;
  const auto count = library.find<int(int*)>("cuDeviceGetCount");
  if (count != nullptr) count(&devices);
  driver.check.ok = devices > 0;
  driver.check.found =
      fmt::format("CUDA {}, {} device{}", cuda_version(driver.version), devices,
                  devices == 1 ? "" : "s");
  if (devices == 0) {
    driver.check.fix = "no GPU is visible: check CUDA_VISIBLE_DEVICES";
  }
  return driver;
}

/// A library of a toolkit of CUDA `major`, held against the driver: a newer
/// major version than the driver's does not run.
void compare_with_driver(int major, const Driver& driver, Check& check) {
  if (driver.version == 0 || major <= driver.version / 1000) return;
  check.ok = false;
  check.found += fmt::format(", newer than the driver's CUDA {}",
                             cuda_version(driver.version));
  check.fix =
      fmt::format("update the driver, or install the libraries of CUDA {}",
                  driver.version / 1000);
}

Check nvrtc_check(const Driver& driver) {
  Check check{"NVRTC", kForCuda, false, "libnvrtc not found",
              "install the CUDA toolkit's nvrtc (apt install cuda-nvrtc-13-0, "
              "or pip install nvidia-cuda-nvrtc) and set CUDA_HOME or "
              "LD_LIBRARY_PATH"};
  const Library library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  int major = 0, minor = 0;
  const auto version = library.find<int(int*, int*)>("nvrtcVersion");
  if (version == nullptr || version(&major, &minor) != 0) return check;
  check.ok = true;
  check.found = fmt::format("{}.{} ({})", major, minor, library.path());
  compare_with_driver(major, driver, check);
  return check;
}

Check cublas_check(const Driver& driver) {
  Check check{"cuBLASLt", kForCuda, false, "libcublasLt not found",
              "install the CUDA toolkit's cuBLAS (apt install libcublas-13-0, "
              "or pip install nvidia-cublas) and set CUDA_HOME or "
              "LD_LIBRARY_PATH"};
  const Library library(
      {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  const auto version = library.find<size_t()>("cublasLtGetVersion");
  if (version == nullptr) return check;
  const auto number = static_cast<int>(version());
  // 120103 is 12.1.3; from 13 on, 130100 is 13.1.0.
  check.ok = true;
  check.found = fmt::format("{}.{}.{} ({})", number / 10000, number / 100 % 100,
                            number % 100, library.path());
  compare_with_driver(number / 10000, driver, check);
  return check;
}

Check cupti_check(const Driver& driver) {
  Check check{"CUPTI", kForProfile, false, "libcupti not found",
              "install the CUDA toolkit's CUPTI (apt install cuda-cupti-13-0, "
              "or pip install nvidia-cuda-cupti) and set CUDA_HOME or "
              "LD_LIBRARY_PATH; one that the program brings along (PyTorch's "
              "wheels) is found without"};
  const Library library({"libcupti.so.13", "libcupti.so.12", "libcupti.so"});
  uint32_t number = 0;
  const auto version = library.find<int(uint32_t*)>("cuptiGetVersion");
  if (version == nullptr || version(&number) != 0) return check;
  check.ok = true;
  check.found = fmt::format("version {} ({})", number, library.path());
  // 18 and more are of CUDA 12; from 13 on, 130001 is CUDA 13.0's.
  if (number < 18) {
    check.ok = false;
    check.fix = "CUDA 12.0 or later is needed: install its CUPTI";
  }
  if (number >= 130000) {
    compare_with_driver(static_cast<int>(number / 10000), driver, check);
  }
  return check;
}

Check nccl_check() {
  Check check{"NCCL",
              kForDevice,
              false,
              "libnccl.so.2 not found",
              "several GPUs need it: apt install libnccl2, or pip install "
              "nvidia-nccl; one that the program brings along is found "
              "without",
              false};
  const Library library({"libnccl.so.2"});
  int number = 0;
  const auto version = library.find<int(int*)>("ncclGetVersion");
  if (version == nullptr || version(&number) != 0) return check;
  const int major = number / 10000, minor = number / 100 % 100;
  check.found =
      fmt::format("{}.{}.{} ({})", major, minor, number % 100, library.path());
  // Our plugin has the tables of 2.28 (version 5) and 2.27 (version 4).
  const bool has_plugin = number >= 22700;
  check.ok = has_plugin;
  check.found += !has_plugin       ? ", no plugin table of ours"
                 : number >= 22800 ? ", plugin table 5"
                                   : ", plugin table 4";
  if (!has_plugin) {
    check.fix =
        "older than 2.27: record its calls with `reprise profile "
        "--nccl-preload`, or update it";
  }
  return check;
}

}  // namespace

std::vector<Check> cuda_checks() {
  const Driver driver = driver_check();
  return {driver.check, nvrtc_check(driver), cublas_check(driver),
          cupti_check(driver), nccl_check()};
}

}  // namespace reprise
