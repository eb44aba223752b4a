// Candidates are names under folders; a file that two of them lead to is tried
// once. Cost: a dlopen for each copy that lies there, until one will do.
#include "runtime/cuda/nvidia_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string_view>

namespace reprise {
namespace {

namespace fs = std::filesystem;

struct VersionedName {
  std::string_view name;
  int cuda_major = 0;  ///< 0: the name does not tell.
};

constexpr std::array<VersionedName, 4> kNvrtcNames = {{{"libnvrtc.so.13", 13},
                                                       {"libnvrtc.so.12", 12},
                                                       {"libnvrtc.so.11.2", 11},
                                                       {"libnvrtc.so", 0}}};
constexpr std::array<VersionedName, 2> kCublasNames = {
    {{"libcublasLt.so.13", 13}, {"libcublasLt.so.12", 12}}};
constexpr std::array<VersionedName, 2> kCudnnNames = {
    {{"libcudnn.so.9", 0}, {"libcudnn.so.8", 0}}};
constexpr std::array<VersionedName, 1> kNcclNames = {{{"libnccl.so.2", 0}}};

std::span<const VersionedName> names_of(NvidiaLibrary library) {
  switch (library) {
    case NvidiaLibrary::kNvrtc:
      return kNvrtcNames;
    case NvidiaLibrary::kCublasLt:
      return kCublasNames;
    case NvidiaLibrary::kCudnn:
      return kCudnnNames;
    case NvidiaLibrary::kNccl:
      break;
  }
  return kNcclNames;
}

/// The folder below `parent` whose names start with `prefix`, sorted so that
/// two runs agree, the last version first.
std::vector<fs::path> folders_like(const fs::path& parent,
                                   std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found, std::greater());
  return found;
}

/// Below PREFIX/lib/python3.X/site-packages/nvidia, a folder for each wheel.
void add_wheels(const fs::path& prefix, std::vector<std::string>* folders) {
  for (const char* library : {"lib", "local/lib"}) {
    for (const fs::path& python : folders_like(prefix / library, "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const fs::path nvidia = python / packages / "nvidia";
        for (const char* wheel : {"cu13/lib", "cuda_nvrtc/lib", "cublas/lib",
                                  "cu12/lib", "cudnn/lib", "nccl/lib"}) {
          std::error_code ignored;
          const fs::path folder = nvidia / wheel;
          if (fs::is_directory(folder, ignored)) folders->push_back(folder);
        }
      }
    }
  }
}

/// The prefix of the first python3 on PATH: PREFIX/bin/python3, links resolved.
fs::path python_prefix() {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path program = fs::path(rest.substr(0, end)) / "python3";
    rest.remove_prefix(std::min(end + 1, rest.size()));
    std::error_code missing;
    const fs::path real = fs::canonical(program, missing);
    if (!missing) return real.parent_path().parent_path();
  }
  return {};
}

/// Where the loader found a library that was opened by `name`.
std::string path_of(void* handle, const std::string& name) {
  link_map* map = nullptr;
  const bool is_bare = name.find('/') == std::string::npos;
  return is_bare && ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 &&
                 map->l_name[0] != '\0'
             ? map->l_name
             : name;
}

}  // namespace

int installed_driver_cuda() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  auto* get_version =
      reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) return 0;
  return version;
}

NvidiaSearch default_nvidia_search() {
  NvidiaSearch search;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    if (home != nullptr && *home != '\0') {
      search.folders.push_back(std::string(home) + "/lib64");
    }
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* prefix = std::getenv(variable);
    if (prefix != nullptr && *prefix != '\0') {
      add_wheels(prefix, &search.folders);
    }
  }
  add_wheels(python_prefix(), &search.folders);
  if (const char* home = std::getenv("HOME")) {
    add_wheels(fs::path(home) / ".local", &search.folders);
  }
  add_wheels("/usr", &search.folders);
  for (const fs::path& toolkit : folders_like("/usr/local", "cuda")) {
    search.folders.push_back(toolkit / "lib64");
  }
  return search;
}

std::vector<std::string> nvidia_candidates(NvidiaLibrary library,
                                           int driver_cuda,
                                           const NvidiaSearch& search) {
  if (!search.only.empty()) return {search.only};
  std::vector<VersionedName> names(names_of(library).begin(),
                                   names_of(library).end());
  // A name without a version is tried after those that the driver runs.
  std::ranges::stable_sort(names, {}, [&](const VersionedName& name) {
    return !too_new_for_driver(name.cuda_major, driver_cuda).empty();
  });
  std::vector<std::string> paths;
  for (const VersionedName& name : names) {
    if (search.uses_loader) paths.emplace_back(name.name);
    for (const std::string& folder : search.folders) {
      paths.push_back(folder + "/" + std::string(name.name));
    }
  }
  return paths;
}

Result<OpenedNvidiaLibrary> open_nvidia_library(NvidiaLibrary library,
                                                int driver_cuda,
                                                const NvidiaRefusal& refusal,
                                                const NvidiaSearch& search) {
  OpenedNvidiaLibrary opened;
  std::set<std::string> seen;
  std::string missing;
  for (const std::string& name :
       nvidia_candidates(library, driver_cuda, search)) {
    std::error_code none;
    if (name != search.only && name.starts_with('/') &&
        !fs::exists(name, none)) {
      continue;
    }
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* words = ::dlerror();
      if (missing.empty()) missing = words == nullptr ? name : words;
      continue;
    }
    const std::string path = path_of(handle, name);
    const fs::path real = fs::canonical(path, none);
    if (!seen.insert(none ? path : real.string()).second) continue;
    const std::string why = refusal(handle, path);
    if (why.empty()) {
      opened.handle = handle;
      opened.path = path;
      return opened;
    }
    opened.passed_over.push_back(fmt::format("{}: {}", path, why));
  }
  std::string text;
  for (const std::string& passed : opened.passed_over) {
    text += (text.empty() ? "" : "; ") + passed;
  }
  return fail(ErrorKind::kDevice, "{}", text.empty() ? missing : text);
}

int cuda_major_of_nccl(const std::string& path) {
  static constexpr std::string_view kMark = "+cuda";
  static constexpr size_t kChunk = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::string chunk(kChunk, '\0');
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    text.append(chunk, 0, static_cast<size_t>(file.gcount()));
    for (size_t at = text.find(kMark); at != std::string::npos;
         at = text.find(kMark, at + 1)) {
      const size_t digits = at + kMark.size();
      const size_t end = text.find_first_not_of("0123456789", digits);
      if (end != std::string::npos && end > digits && text[end] == '.') {
        return std::atoi(text.c_str() + digits);
      }
    }
    // The mark and its number may lie over two chunks.
    text.erase(0, text.size() - std::min(text.size(), kMark.size() + 4));
  }
  return 0;
}

std::string too_new_for_driver(int major, int driver_cuda) {
  if (major == 0 || driver_cuda == 0 || major <= driver_cuda / 1000) return {};
  return fmt::format("of CUDA {}, newer than the driver's {}.{}", major,
                     driver_cuda / 1000, driver_cuda % 1000 / 10);
}

}  // namespace reprise
