// What stands in the way of tracing: missing libraries of our own, a container
// without the device, other tools.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/doctor_checks.h"
#include "cli/profile_environment.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

Check library_check(const char* file, const char* target, bool needed) {
  const std::string path = profile_library(file);
  const bool there = fs::exists(path);
  return {file,
          kForProfile,
          there,
          there ? path : path + " not found",
          fmt::format("build the target {} and install it in lib beside bin",
                      target),
          needed};
}

/// Of performance counters, which tracing does not read.
std::string counter_sentence(const std::string& root) {
  std::ifstream file(root + "/proc/driver/nvidia/params");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("RmProfilingAdminOnly: 1")) {
      return "; performance counters are the administrator's alone "
             "(RmProfilingAdminOnly), which does not matter: none is read";
    }
  }
  return "";
}

/// Tracing needs no privilege, unlike performance counters; but the device
/// must be there and be the user's to open.
Check permission_check(const std::string& root) {
  Check check{"permission to trace", kForCuda | kForProfile, false, "", ""};
  const bool in_container = fs::exists(root + "/.dockerenv") ||
                            fs::exists(root + "/run/.containerenv");
  const std::string where = in_container ? " (in a container)" : "";
  constexpr const char* kControl = "/dev/nvidiactl";
  if (!fs::exists(root + kControl)) {
    check.found = fmt::format("no {}{}", kControl, where);
    check.fix = in_container
                    ? "start the container with --gpus all (or the device "
                      "plugin's resource)"
                    : "load the driver's kernel module (modprobe nvidia)";
    return check;
  }
  for (const char* device : {kControl, "/dev/nvidia-uvm"}) {
    if (::access((root + device).c_str(), R_OK | W_OK) == 0) continue;
    const bool is_there = fs::exists(root + device);
    check.found = fmt::format(
        "{} {}{}", device, is_there ? "cannot be opened" : "is missing", where);
    check.fix = is_there ? "join the group of the device (ls -l /dev/nvidia*)"
                         : "load its kernel module (modprobe nvidia_uvm, or "
                           "nvidia-modprobe -u -c 0) outside the container";
    return check;
  }
  check.ok = true;
  check.found = "devices can be opened" + where + counter_sentence(root);
  return check;
}

/// The name and the parent of a process, from /proc/PID/stat.
struct Ancestor {
  std::string name;
  int parent = 0;
};

Ancestor ancestor(int process) {
  Ancestor found;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return found;
  found.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::string state;
  rest >> state >> found.parent;
  return found;
}

bool is_tool(std::string_view name) {
  constexpr std::array<std::string_view, 7> kTools = {
      "nsys",     "nsys-launcher", "ncu", "nv-nsight-cu-cli", "compute-sanitiz",
      "cuda-gdb", "nvprof"};
  return std::find(kTools.begin(), kTools.end(), name) != kTools.end();
}

bool names_a_tool(std::string_view libraries) {
  constexpr std::array<std::string_view, 5> kParts = {
      "Injection", "cuinj", "sanitizer", "nsys", "cupti"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return libraries.find(part) != std::string_view::npos;
  });
}

/// Whether a variable brings another tool into a process.
bool is_competing(std::string_view name, std::string_view value) {
  if (value.empty() || value.find("reprise") != std::string_view::npos) {
    return false;
  }
  if (name == "LD_PRELOAD") return names_a_tool(value);
  return name == "CUDA_INJECTION64_PATH" || name == "NVTX_INJECTION64_PATH" ||
         name == "NCCL_PROFILER_PLUGIN" || name.starts_with("KINETO_") ||
         name.starts_with("NSYS_") || name.starts_with("NVPROF_");
}

std::vector<std::string> tools_in_environment() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = std::min(text.find('='), text.size() - 1);
    if (is_competing(text.substr(0, equals), text.substr(equals + 1))) {
      found.emplace_back(text);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> tools_above() {
  constexpr int kMostAncestors = 64;
  std::vector<std::string> found;
  int process = ::getppid();
  for (int depth = 0; process > 1 && depth < kMostAncestors; ++depth) {
    const Ancestor parent = ancestor(process);
    if (is_tool(parent.name)) {
      found.push_back(
          fmt::format("running under {} ({})", parent.name, process));
    }
    process = parent.parent;
  }
  return found;
}

/// Of variables `reprise profile` takes the place for its run; not of a tool
/// that is already at work.
Check tool_check() {
  std::vector<std::string> found = tools_above();
  const bool at_work = !found.empty();
  for (std::string& variable : tools_in_environment()) {
    found.push_back(std::move(variable));
  }
  return {"competing tools",
          kForProfile,
          found.empty(),
          found.empty() ? "none" : fmt::format("{}", fmt::join(found, "; ")),
          "one tool at a time can hold CUPTI and NVTX: unset these, and start "
          "`reprise profile` outside of other profilers",
          at_work};
}

}  // namespace

std::vector<Check> tracing_checks(const std::string& root) {
  return {library_check("libreprise_inject.so", "reprise_inject", true),
          library_check("libnccl-profiler-reprise.so", "nccl_profiler_plugin",
                        true),
          permission_check(root), tool_check()};
}

}  // namespace reprise
