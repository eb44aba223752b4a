// NVIDIA's part of the doctor. Every library is opened by name and asked for
// its version, CUPTI with a driver for a moment's work too: none is linked,
// none need be there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>

#include "cli/doctor_checks.h"
#include "profiler/cupti/cupti_types.h"
#include "runtime/cuda/nvidia_library.h"

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
    if (handle_ != nullptr && !stays_) dlclose(handle_);
  }

  bool is_open() const { return handle_ != nullptr; }
  /// Not to be closed: it was put to work.
  void stay() { stays_ = true; }
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
  bool stays_ = false;
};

/// "13.0" of 13000, as the driver and the runtime count.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// What the driver says; versions are 0 where it says nothing.
struct DriverAnswer {
  Check check;
  int version = 0;  ///< The latest CUDA that it runs.
};

constexpr unsigned kForDevice = kForCuda | kForProfile;

/// CUresult of cuInit -> what to do. Source: cuda.h.
std::string fix_of_driver(int status) {
  switch (status) {
    case 34:
      return "the toolkit's stub stands before the driver's libcuda.so.1: take "
             "its stubs directory out of LD_LIBRARY_PATH";
    case 100:
    case 101:
      return "no GPU is visible: check CUDA_VISIBLE_DEVICES and nvidia-smi";
    case 46:
      return "the GPU is another process's alone: see nvidia-smi for it";
    case 802:
      return "the machine is not ready: start nvidia-fabricmanager (machines "
             "with NVSwitch need it)";
    case 803:
    case 804:
      return "libcuda.so.1 and the kernel module are of different drivers: "
             "reboot after an update, or take cuda-compat's libraries out of "
             "LD_LIBRARY_PATH";
    default:
      return "check nvidia-smi and the container's GPU access";
  }
}

/// "driver 580.65, ": of the kernel module; empty where it is not to be seen.
std::string module_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  std::getline(file, version);
  return version.empty() ? "" : fmt::format("driver {}, ", version);
}

DriverAnswer driver_check() {
  DriverAnswer driver;
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
    driver.check.fix = fix_of_driver(status);
    return driver;
  }
  int devices = 0;
  const auto count = library.find<int(int*)>("cuDeviceGetCount");
  if (count != nullptr) count(&devices);
  driver.check.ok = devices > 0;
  driver.check.found = fmt::format("{}CUDA {}, {} device{}", module_version(),
                                   cuda_version(driver.version), devices,
                                   devices == 1 ? "" : "s");
  if (devices == 0) {
    driver.check.fix = "no GPU is visible: check CUDA_VISIBLE_DEVICES";
  }
  return driver;
}

/// A library of a toolkit of CUDA `major`, held against the driver: a newer
/// major version than the driver's does not run.
void compare_with_driver(int major, const DriverAnswer& driver, Check& check) {
  if (too_new_for_driver(major, driver.version).empty()) return;
  check.ok = false;
  check.found += fmt::format(", newer than the driver's CUDA {}",
                             cuda_version(driver.version));
  check.fix =
      fmt::format("update the driver, or install the libraries of CUDA {}",
                  driver.version / 1000);
}

/// What a copy of a library says of itself; no text: it is none.
struct LibraryVersion {
  std::string text;
  int cuda_major = 0;
  int number = 0;  ///< As the library counts.
};
using VersionOf = LibraryVersion(void* handle, const std::string& path);

/// Chooses as the trainer does: the newest that the driver runs, else the first
/// that is there, which `check` then says is too new.
LibraryVersion choose_library(NvidiaLibrary which, VersionOf* version_of,
                              const DriverAnswer& driver, Check& check) {
  LibraryVersion chosen;
  const auto refusal = [&](int driver_cuda) {
    return [&, driver_cuda](void* handle, const std::string& path) {
      chosen = version_of(handle, path);
      if (chosen.text.empty())
        return std::string("it does not say its version");
      return too_new_for_driver(chosen.cuda_major, driver_cuda);
    };
  };
  auto opened =
      open_nvidia_library(which, driver.version, refusal(driver.version));
  if (!opened) opened = open_nvidia_library(which, driver.version, refusal(0));
  if (!opened) return {};
  dlclose(opened->handle);
  check.ok = true;
  check.found = fmt::format("{} ({})", chosen.text, opened->path);
  compare_with_driver(chosen.cuda_major, driver, check);
  for (const std::string& passed : opened->passed_over) {
    check.found += "; passed over " + passed;
  }
  return chosen;
}

template <typename Function>
Function* function_of(void* handle, const char* name) {
  return reinterpret_cast<Function*>(dlsym(handle, name));
}

LibraryVersion nvrtc_version(void* handle, const std::string&) {
  auto* version = function_of<int(int*, int*)>(handle, "nvrtcVersion");
  int major = 0, minor = 0;
  if (version == nullptr || version(&major, &minor) != 0) return {};
  return {fmt::format("{}.{}", major, minor), major};
}

Check nvrtc_check(const DriverAnswer& driver) {
  Check check{"NVRTC", kForCuda, false, "libnvrtc not found",
              "install the CUDA toolkit's nvrtc (apt install cuda-nvrtc-13-0, "
              "or pip install nvidia-cuda-nvrtc) and set CUDA_HOME or "
              "LD_LIBRARY_PATH"};
  choose_library(NvidiaLibrary::kNvrtc, nvrtc_version, driver, check);
  return check;
}

LibraryVersion cublas_version(void* handle, const std::string&) {
  auto* version = function_of<size_t()>(handle, "cublasLtGetVersion");
  if (version == nullptr) return {};
  // 120103 is 12.1.3; from 13 on, 130100 is 13.1.0.
  const auto number = static_cast<int>(version());
  return {
      fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100),
      number / 10000};
}

Check cublas_check(const DriverAnswer& driver) {
  Check check{"cuBLASLt", kForCuda, false, "libcublasLt not found",
              "install the CUDA toolkit's cuBLAS (apt install libcublas-13-0, "
              "or pip install nvidia-cublas) and set CUDA_HOME or "
              "LD_LIBRARY_PATH"};
  choose_library(NvidiaLibrary::kCublasLt, cublas_version, driver, check);
  return check;
}

LibraryVersion cudnn_version(void* handle, const std::string&) {
  auto* version = function_of<size_t()>(handle, "cudnnGetVersion");
  auto* cuda = function_of<size_t()>(handle, "cudnnGetCudartVersion");
  if (version == nullptr || cuda == nullptr) return {};
  // 8907 is 8.9.7; from 9 on, 91900 is 9.19.0. 12090 is CUDA 12.9.
  const auto number = static_cast<int>(version());
  const int unit = number < 10000 ? 1000 : 10000;
  return {fmt::format("{}.{}.{}", number / unit, number / 100 % (unit / 100),
                      number % 100),
          static_cast<int>(cuda() / 1000)};
}

/// Without it convolutions are products of matrices.
Check cudnn_check(const DriverAnswer& driver) {
  Check check{"cuDNN",
              kForCuda,
              false,
              "libcudnn not found",
              "for faster convolutions install cuDNN (apt install "
              "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13) and set "
              "CUDA_HOME or LD_LIBRARY_PATH",
              /*needed=*/false};
  choose_library(NvidiaLibrary::kCudnn, cudnn_version, driver, check);
  return check;
}

void ignore_callback(void*, uint32_t, uint32_t, const void*) {}

/// What CUPTI answers to who would record kernels, 0 for all is well; `holder`
/// is the tool that records already, "" where it has no name.
int record_for_a_moment(const Library& library, std::string& holder) {
  const auto subscribe =
      library.find<int(void**, cupti::Callback, void*)>("cuptiSubscribe");
  const auto subscribe_v2 =
      library
          .find<int(void**, cupti::Callback, void*, cupti::SubscriberParams*)>(
              "cuptiSubscribe_v2");
  const auto unsubscribe = library.find<int(void*)>("cuptiUnsubscribe");
  const auto enable = library.find<int(uint32_t)>("cuptiActivityEnable");
  const auto disable = library.find<int(uint32_t)>("cuptiActivityDisable");
  if (subscribe == nullptr || unsubscribe == nullptr || enable == nullptr ||
      disable == nullptr) {
    return cupti::kUnknownError;
  }
  std::array<char, 64> name{};
  cupti::SubscriberParams params{
      .struct_size = cupti::kFirstSubscriberParamsBytes,
      .name = "reprise",
      .old_name = name.data(),
      .old_name_size = name.size(),
      .allows_others = 0,
      .pad = {}};
  void* subscriber = nullptr;
  int status =
      subscribe_v2 == nullptr
          ? subscribe(&subscriber, ignore_callback, nullptr)
          : subscribe_v2(&subscriber, ignore_callback, nullptr, &params);
  name.back() = '\0';
  holder = name.data();
  if (status != cupti::kSuccess) return status;
  status = enable(cupti::kConcurrentKernel);
  if (status == cupti::kSuccess) disable(cupti::kConcurrentKernel);
  unsubscribe(subscriber);
  return status;
}

/// CUptiResult -> what to do. Source: cupti_result.h.
std::string fix_of_cupti(int status) {
  switch (status) {
    case cupti::kMultipleSubscribers:
      return "one tool at a time can hold CUPTI: unset what brings the other "
             "one into every process (CUDA_INJECTION64_PATH, LD_PRELOAD), or "
             "leave its session";
    case 35:
    case 40:
      return "let users profile: options nvidia "
             "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then "
             "reload the driver (or give the container CAP_SYS_ADMIN)";
    case 33:
      return "the virtual GPU's host must allow profiling (vGPU: "
             "enable_profiling=1)";
    case 41:
      return "confidential computing forbids it: turn devtools mode on";
    case 45:
      return "allow GPU performance counters in the Windows driver's settings";
    default:
      return "update the driver, or install the CUPTI of the driver's CUDA";
  }
}

/// Records kernels for a moment, as in every process that is profiled.
void try_cupti(Library& library, Check& check) {
  library.stay();
  std::string holder;
  const int status = record_for_a_moment(library, holder);
  if (status == cupti::kSuccess) return;
  check.ok = false;
  check.fix = fix_of_cupti(status);
  if (status == cupti::kMultipleSubscribers) {
    check.found += ", held by " + (holder.empty() ? "another tool" : holder);
    return;
  }
  const auto describe =
      library.find<int(int, const char**)>("cuptiGetResultString");
  const char* words = nullptr;
  if (describe == nullptr || describe(status, &words) != 0) words = nullptr;
  check.found += fmt::format(", does not record: {}",
                             words == nullptr ? std::to_string(status) : words);
}

Check cupti_check(const DriverAnswer& driver) {
  Check check{"CUPTI", kForProfile, false, "libcupti not found",
              "install the CUDA toolkit's CUPTI (apt install cuda-cupti-13-0, "
              "or pip install nvidia-cuda-cupti) and set CUDA_HOME or "
              "LD_LIBRARY_PATH; one that the program brings along (PyTorch's "
              "wheels) is found without"};
  Library library({"libcupti.so.13", "libcupti.so.12", "libcupti.so"});
  uint32_t number = 0;
  const auto version = library.find<int(uint32_t*)>("cuptiGetVersion");
  if (version == nullptr) return check;
  check.ok = true;
  // CUPTI of CUDA 13.2 crashes there without a driver, that of 13.5 refuses.
  if (!driver.check.ok) {
    check.found = fmt::format(
        "{} (its version not asked for: that needs a "
        "driver)",
        library.path());
    return check;
  }
  if (const int status = version(&number); status != 0) {
    check.ok = false;
    check.found = fmt::format("{}: does not say its version ({})",
                              library.path(), status);
    return check;
  }
  check.found = fmt::format("version {} ({})", number, library.path());
  if (number < cupti::kOldestVersion) {
    check.ok = false;
    check.fix = "CUDA 12.0 or later is needed: install its CUPTI";
    return check;
  }
  // Up to CUDA 12 versions count on by one; 130001 is CUDA 13.0's.
  compare_with_driver(number < 130000 ? 12 : static_cast<int>(number / 10000),
                      driver, check);
  if (check.ok && driver.check.ok) try_cupti(library, check);
  return check;
}

LibraryVersion nccl_library_version(void* handle, const std::string& path) {
  auto* version = function_of<int(int*)>(handle, "ncclGetVersion");
  int number = 0;
  if (version == nullptr || version(&number) != 0) return {};
  return {
      fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100),
      cuda_major_of_nccl(path), number};
}

Check nccl_check(const DriverAnswer& driver) {
  Check check{"NCCL",
              kForDevice,
              false,
              "libnccl.so.2 not found",
              "several GPUs need it: apt install libnccl2, or pip install "
              "nvidia-nccl; one that the program brings along is found "
              "without",
              false};
  const int number =
      choose_library(NvidiaLibrary::kNccl, nccl_library_version, driver, check)
          .number;
  if (!check.ok) return check;
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
  const DriverAnswer driver = driver_check();
  return {driver.check,        nvrtc_check(driver), cublas_check(driver),
          cudnn_check(driver), cupti_check(driver), nccl_check(driver)};
}

}  // namespace reprise
