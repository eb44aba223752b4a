// One injection library does for CUDA, NVTX and processes with neither: it is
// named by the variable of each, and preloaded. mpirun passes variables on to
// other hosts only when told to.
#include "cli/profile_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "cli/nccl_version.h"
#include "cli/process.h"

namespace reprise {
namespace {

constexpr const char* kInject = "libreprise_inject.so";
constexpr const char* kPlugin = "libnccl-profiler-reprise.so";
constexpr const char* kPreload = "libreprise-nccl-preload.so";
/// Open MPI's list of variables for all ranks; its mpirun refuses to run with
/// it beside `-x`.
constexpr const char* kOpenMpiList = "OMPI_MCA_mca_base_env_list";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_mpirun(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename().string();
  constexpr std::array<std::string_view, 5> kNames = {
      "mpirun", "mpiexec", "orterun", "mpirun.openmpi", "mpiexec.openmpi"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

class Builder {
 public:
  Builder(const ProfileSetup& setup, const std::vector<std::string>& arguments)
      : setup_(setup), arguments_(arguments) {}

  Result<ProfileEnvironment> build() {
    if (Status found = find_libraries(); !found) return pass(found.error());
    if (preload_.empty()) preload_for_old_nccl();
    set(kProfileDirectory, setup_.directory);
    if (!setup_.steps.empty()) set("REPRISE_PROFILE_STEPS", setup_.steps);
    replace("CUDA_INJECTION64_PATH", inject_);
    replace("NVTX_INJECTION64_PATH", inject_);
    replace("NCCL_PROFILER_PLUGIN", plugin_);
    set_preload();
    pass_on_by_mpirun();
    return std::move(result_);
  }

 private:
  Status find_libraries() {
    inject_ = profile_library(kInject);
    plugin_ = profile_library(kPlugin);
    preload_ = setup_.nccl_preload ? profile_library(kPreload) : "";
    for (const std::string& library : {inject_, plugin_, preload_}) {
      if (library.empty() || std::filesystem::exists(library)) continue;
      return fail(ErrorKind::kDevice,
                  "{} is missing: nothing could be recorded; build or install "
                  "it beside reprise (`reprise doctor --for profile`)",
                  library);
    }
    return {};
  }

  /// An NCCL that asks for none of the plugin's tables. Where the guess is
  /// wrong, the interposer leaves the record to the plugin.
  void preload_for_old_nccl() {
    const std::optional<FoundNccl> nccl = find_nccl(arguments_);
    const std::string library = profile_library(kPreload);
    if (!nccl || nccl->version >= kFirstNcclWithPlugin ||
        !std::filesystem::exists(library)) {
      return;
    }
    preload_ = library;
    result_.notes.push_back(fmt::format(
        "NCCL {} ({}) is older than 2.27 and has no place for the profiler "
        "plugin: its calls are interposed, as with --nccl-preload.",
        nccl->text(), nccl->path));
  }

  void set(const char* name, const std::string& value) {
    result_.variables.emplace_back(name, value);
  }

  /// One tool only can have its place.
  void replace(const char* name, const std::string& value) {
    const std::string before = variable(name);
    if (!before.empty() && before != value) {
      result_.notes.push_back(
          fmt::format("{}={} gives way for this run.", name, before));
    }
    set(name, value);
  }

  /// The loader cannot be told of a path with one of its separators.
  void set_preload() {
    std::string list = variable("LD_PRELOAD");
    for (const std::string& library : {inject_, preload_}) {
      if (library.empty()) continue;
      if (library.find_first_of(" :\t\n") != std::string::npos) {
        result_.notes.push_back(
            fmt::format("{} holds a space or a colon, so it cannot be "
                        "preloaded: processes without CUDA and NVTX stay "
                        "unrecorded.",
                        library));
        continue;
      }
      list += (list.empty() ? "" : ":") + library;
    }
    if (!list.empty()) set("LD_PRELOAD", list);
  }

  /// mpirun gives the local ranks its environment, those of other hosts what
  /// it is told to. Slurm and torchrun pass all on.
  void pass_on_by_mpirun() {
    if (arguments_.empty() || !is_mpirun(arguments_.front())) return;
    const bool has_own = std::find(arguments_.begin(), arguments_.end(),
                                   "-x") != arguments_.end();
    if (has_own) {
      std::string options;
      for (const auto& [name, value] : result_.variables) {
        options += " -x " + name;
      }
      result_.notes.push_back(
          "mpirun has -x of its own: ranks on other hosts are recorded only "
          "with" +
          options + " as well.");
      return;
    }
    std::string list = variable(kOpenMpiList);
    for (const auto& [name, value] : result_.variables) {
      list += (list.empty() ? "" : ";") + name;
    }
    set(kOpenMpiList, list);
  }

  const ProfileSetup& setup_;
  const std::vector<std::string>& arguments_;
  std::string inject_, plugin_, preload_;
  ProfileEnvironment result_;
};

/// A file of /proc, which says nothing of its size beforehand; "" where it
/// cannot be read.
std::string process_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string profile_library(const std::string& name) {
  const std::filesystem::path libraries =
      std::filesystem::path(executable_directory()).parent_path() / "lib";
  const std::filesystem::path installed = libraries / "reprise" / name;
  return std::filesystem::exists(installed) ? installed : libraries / name;
}

Result<ProfileEnvironment> profile_environment(
    const ProfileSetup& setup, const std::vector<std::string>& arguments) {
  return Builder(setup, arguments).build();
}

std::vector<std::string> processes_recording_to(const std::string& directory) {
  namespace fs = std::filesystem;
  const std::string entry =
      std::string(kProfileDirectory) + "=" + directory + '\0';
  std::map<int64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator place("/proc", error), end;
       !error && place != end; place.increment(error)) {
    const std::string number = place->path().filename().string();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    // Of a zombie, it is empty.
    const std::string environment = process_file(place->path() / "environ");
    const size_t at = environment.find(entry);
    if (at == std::string::npos || (at > 0 && environment[at - 1] != '\0')) {
      continue;
    }
    std::string name = process_file(place->path() / "comm");
    if (name.ends_with('\n')) name.pop_back();
    found[std::atoll(number.c_str())] = fmt::format("{} ({})", name, number);
  }
  std::vector<std::string> processes;
  processes.reserve(found.size());
  for (auto& [number, text] : found) processes.push_back(std::move(text));
  return processes;
}

}  // namespace reprise
