#include "profiler/cupti/cupti_library.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace reprise::cupti {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"libcupti.so.13",
                                                    "libcupti.so.12"};

/// Paths of all loaded objects.
std::vector<std::string> loaded_paths() {
  std::vector<std::string> paths;
  const auto visit = [](dl_phdr_info* info, size_t, void* into) {
    if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0') {
      static_cast<std::vector<std::string>*>(into)->emplace_back(
          info->dlpi_name);
    }
    return 0;
  };
  ::dl_iterate_phdr(visit, &paths);
  return paths;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0.
}

void add_names(const std::string& directory, std::vector<std::string>* paths) {
  for (const std::string_view name : kNames) {
    paths->push_back(directory + "/" + std::string(name));
  }
}

/// Where CUDA's packages put CUPTI, seen from another of their libraries.
void add_neighbours(const std::string& library,
                    std::vector<std::string>* paths) {
  const std::string directory = library.substr(0, library.rfind('/'));
  if (file_name(library).starts_with("libcudart.so")) {
    add_names(directory, paths);
    add_names(directory + "/../extras/CUPTI/lib64", paths);
  }
  // Python's wheels: nvidia/cuda_runtime/lib, nvidia/cuda_cupti/lib,
  // nvidia/cu13/lib.
  const size_t wheels = library.rfind("/nvidia/");
  if (wheels != std::string::npos) {
    const std::string root = library.substr(0, wheels + 7);
    paths->push_back(root + "/cu13/lib/libcupti.so.13");
    add_names(root + "/cuda_cupti/lib", paths);
  }
}

template <typename Function>
bool find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
  return *function != nullptr;
}

bool find_required(void* library, Functions* f) {
  return find(library, "cuptiGetVersion", &f->get_version) &&
         find(library, "cuptiSubscribe", &f->subscribe) &&
         find(library, "cuptiEnableCallback", &f->enable_callback) &&
         find(library, "cuptiGetCallbackName", &f->get_callback_name) &&
         find(library, "cuptiActivityEnable", &f->activity_enable) &&
         find(library, "cuptiActivityDisable", &f->activity_disable) &&
         find(library, "cuptiActivityRegisterCallbacks",
              &f->register_callbacks) &&
         find(library, "cuptiGetTimestamp", &f->get_timestamp) &&
         find(library, "cuptiActivityGetNextRecord", &f->next_record) &&
         find(library, "cuptiActivityGetNumDroppedRecords",
              &f->dropped_records) &&
         find(library, "cuptiActivityFlushAll", &f->flush_all) &&
         find(library, "cuptiActivitySetAttribute", &f->set_attribute) &&
         find(library, "cuptiSetThreadIdType", &f->set_thread_id_type) &&
         find(library, "cuptiActivityPushExternalCorrelationId",
              &f->push_external) &&
         find(library, "cuptiActivityPopExternalCorrelationId",
              &f->pop_external);
}

void find_optional(void* library, Functions* f) {
  find(library, "cuptiGetResultString", &f->get_result_string);
  find(library, "cuptiSubscribe_v2", &f->subscribe_v2);
  find(library, "cuptiEnableDomain", &f->enable_domain);
  find(library, "cuptiUnsubscribe", &f->unsubscribe);
  find(library, "cuptiFinalize", &f->finalize);
  find(library, "cuptiActivityEnableRuntimeApi", &f->enable_runtime_api);
  find(library, "cuptiActivityEnableDriverApi", &f->enable_driver_api);
  find(library, "cuptiActivityRegisterTimestampCallback",
       &f->register_timestamp);
  find(library, "cuptiActivityEnableLatencyTimestamps",
       &f->enable_latency_timestamps);
  find(library, "cuptiActivityEnableAllSyncRecords",
       &f->enable_all_sync_records);
  find(library, "cuptiGetGraphNodeId", &f->get_graph_node_id);
  find(library, "cuptiGetContextId", &f->get_context_id);
  find(library, "cuptiGetDeviceId", &f->get_device_id);
}

std::string path_of(const Functions& functions, const std::string& otherwise) {
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(functions.get_version);
  return ::dladdr(symbol, &info) != 0 && info.dli_fname != nullptr
             ? info.dli_fname
             : otherwise;
}

std::optional<Library> open_one(const std::string& path, int flags) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (handle == nullptr) return std::nullopt;
  Library library;
  if (!find_required(handle, &library.functions)) {
    ::dlclose(handle);
    return std::nullopt;
  }
  find_optional(handle, &library.functions);
  library.path = path_of(library.functions, path);
  return library;  // The handle is kept for the life of the process.
}

}  // namespace

std::vector<std::string> candidate_paths() {
  std::vector<std::string> paths;
  if (const char* chosen = std::getenv("REPRISE_CUPTI")) {
    paths.emplace_back(chosen);
  }
  for (const std::string& loaded : loaded_paths()) {
    add_neighbours(loaded, &paths);
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    if (home == nullptr) continue;
    add_names(std::string(home) + "/lib64", &paths);
    add_names(std::string(home) + "/extras/CUPTI/lib64", &paths);
  }
  for (const std::string_view name : kNames) paths.emplace_back(name);
  add_names("/usr/local/cuda/lib64", &paths);
  add_names("/usr/local/cuda/extras/CUPTI/lib64", &paths);
  return paths;
}

namespace {

std::optional<Library> open_loaded() {
  for (const std::string& loaded : loaded_paths()) {
    if (!file_name(loaded).starts_with("libcupti.so")) continue;
    if (auto library = open_one(loaded, RTLD_NOLOAD)) return library;
  }
  return std::nullopt;
}

}  // namespace

const Functions* loaded_functions() {
  static const std::optional<Library> library = open_loaded();
  return library ? &library->functions : nullptr;
}

std::optional<Library> open_library(std::string* why) {
  if (auto library = open_loaded()) return library;
  const std::vector<std::string> paths = candidate_paths();
  for (const std::string& path : paths) {
    if (auto library = open_one(path, 0)) return library;
  }
  *why = "no CUPTI found: not in the process, and none of " +
         std::to_string(paths.size()) + " places from " + paths.front() +
         " to " + paths.back() +
         "; REPRISE_CUPTI=/path/to/libcupti.so.13 names it";
  return std::nullopt;
}

}  // namespace reprise::cupti
