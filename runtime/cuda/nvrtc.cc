#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace reprise {

// Source: nvrtc.h of CUDA 13.0; the functions are the same since CUDA 11.2.
struct Nvrtc::Table {
  using Program = void*;
  void* library = nullptr;
  int (*version)(int* major, int* minor) = nullptr;
  int (*count_architectures)(int* count) = nullptr;
  int (*architectures)(int* list) = nullptr;
  int (*create)(Program* program, const char* text, const char* name,
                int headers, const char* const* contents,
                const char* const* names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int count,
                 const char* const* options) = nullptr;
  int (*cubin_size)(Program program, size_t* size) = nullptr;
  int (*cubin)(Program program, char* bytes) = nullptr;
  int (*log_size)(Program program, size_t* size) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  const char* (*error_text)(int code) = nullptr;

  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    if (library != nullptr) ::dlclose(library);
  }
};

namespace {

/// Names to try, newest first.
std::vector<std::string> candidates(const std::string& library) {
  if (!library.empty()) return {library};
  const std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12",
                                       "libnvrtc.so.11.2", "libnvrtc.so"};
  std::vector<std::string> list = names;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    if (home == nullptr) continue;
    for (const std::string& name : names)
      list.push_back(std::string(home) + "/lib64/" + name);
  }
  for (const std::string& name : names)
    list.push_back("/usr/local/cuda/lib64/" + name);
  return list;
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<Nvrtc> Nvrtc::open(const std::string& library) {
  auto table = std::make_shared<Table>();
  std::string reason;
  for (const std::string& name : candidates(library)) {
    table->library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (table->library != nullptr) break;
    if (reason.empty()) reason = ::dlerror();
  }
  if (table->library == nullptr) {
    return fail(ErrorKind::kDevice,
                "no NVRTC to compile GPU kernels: {} (install CUDA's "
                "libnvrtc, or set CUDA_HOME or LD_LIBRARY_PATH)",
                reason);
  }
  void* handle = table->library;
  Table& t = *table;
  if (!find(handle, "nvrtcVersion", t.version) ||
      !find(handle, "nvrtcGetNumSupportedArchs", t.count_architectures) ||
      !find(handle, "nvrtcGetSupportedArchs", t.architectures) ||
      !find(handle, "nvrtcCreateProgram", t.create) ||
      !find(handle, "nvrtcDestroyProgram", t.destroy) ||
      !find(handle, "nvrtcCompileProgram", t.compile) ||
      !find(handle, "nvrtcGetCUBINSize", t.cubin_size) ||
      !find(handle, "nvrtcGetCUBIN", t.cubin) ||
      !find(handle, "nvrtcGetProgramLogSize", t.log_size) ||
      !find(handle, "nvrtcGetProgramLog", t.log) ||
      !find(handle, "nvrtcGetErrorString", t.error_text)) {
    return fail(ErrorKind::kDevice,
                "NVRTC is too old (CUDA 11.2 is the first that makes cubins)");
  }
  Nvrtc nvrtc;
  int major = 0, minor = 0, count = 0;
  if (t.version(&major, &minor) != 0 || t.count_architectures(&count) != 0 ||
      count < 0) {
    return fail(ErrorKind::kDevice, "NVRTC does not say its version");
  }
  nvrtc.version_ = fmt::format("{}.{}", major, minor);
  nvrtc.architectures_.resize(static_cast<size_t>(count));
  if (t.architectures(nvrtc.architectures_.data()) != 0)
    return fail(ErrorKind::kDevice, "NVRTC does not say its architectures");
  nvrtc.table_ = std::move(table);
  return nvrtc;
}

bool Nvrtc::supports(int architecture) const {
  return std::find(architectures_.begin(), architectures_.end(),
                   architecture) != architectures_.end();
}

Result<NvrtcImage> Nvrtc::compile(
    const std::string& text, const std::vector<std::string>& options) const {
  const Table& t = *table_;
  Table::Program program = nullptr;
  if (const int code =
          t.create(&program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
      code != 0) {
    return fail(ErrorKind::kDevice, "NVRTC: {}", t.error_text(code));
  }
  std::vector<const char*> list;
  list.reserve(options.size());
  for (const std::string& option : options) list.push_back(option.c_str());
  NvrtcImage image;
  const int compiled =
      t.compile(program, static_cast<int>(list.size()), list.data());
  size_t size = 0;
  if (t.log_size(program, &size) == 0 && size > 1) {
    image.log.resize(size);
    if (t.log(program, image.log.data()) != 0) image.log.clear();
    image.log.resize(image.log.find_last_not_of('\0') + 1);
  }
  int got = compiled;
  if (compiled == 0 && (got = t.cubin_size(program, &size)) == 0) {
    image.cubin.resize(size);
    got = t.cubin(program, image.cubin.data());
  }
  t.destroy(&program);
  if (got != 0) {
    return fail(ErrorKind::kDevice, "NVRTC: {}: {}", t.error_text(got),
                image.log.substr(0, 600));
  }
  return image;
}

}  // namespace reprise
