#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>

namespace reprise {

// Source: nvrtc.h of CUDA 13.0; the functions are the same since CUDA 11.2.
struct Nvrtc::Table {
  using Program = void*;
  explicit Table(void* opened) : library(opened) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { ::dlclose(library); }

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
};

namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

/// What an opened library will not do; empty: it is used.
std::string Nvrtc::bind(void* handle, const std::string& path,
                        const NvrtcRequest& request) {
  auto table = std::make_shared<Table>(handle);  // Refused: closed.
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
    return "too old (CUDA 11.2 is the first that makes cubins)";
  }
  int major = 0, minor = 0, count = 0;
  if (t.version(&major, &minor) != 0 || t.count_architectures(&count) != 0 ||
      count < 0) {
    return "it does not say its version";
  }
  architectures_.resize(static_cast<size_t>(count));
  if (t.architectures(architectures_.data()) != 0) {
    return "it does not say its architectures";
  }
  version_ = fmt::format("{}.{}", major, minor);
  if (request.architecture != 0 && !supports(request.architecture)) {
    return fmt::format("NVRTC {} does not compile for compute capability {}.{}",
                       version_, request.architecture / 10,
                       request.architecture % 10);
  }
  std::string why = too_new_for_driver(major, request.driver_cuda);
  for (const auto& [refused, refusal] : request.refused) {
    if (refused == path) why = refusal;
  }
  if (why.empty()) table_ = std::move(table);
  return why;
}

Result<Nvrtc> Nvrtc::open(const NvrtcRequest& request) {
  Nvrtc nvrtc;
  const auto refusal = [&](void* handle, const std::string& path) {
    return nvrtc.bind(handle, path, request);
  };
  Result<OpenedNvidiaLibrary> opened = open_nvidia_library(
      NvidiaLibrary::kNvrtc, request.driver_cuda, refusal, request.search);
  if (!opened) {
    return fail(ErrorKind::kDevice,
                "no NVRTC to compile GPU kernels: {} (install CUDA's libnvrtc "
                "for this driver and device, or set CUDA_HOME or "
                "LD_LIBRARY_PATH; `reprise doctor --for cuda` shows them)",
                opened.error().message);
  }
  nvrtc.path_ = std::move(opened->path);
  nvrtc.passed_over_ = std::move(opened->passed_over);
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
