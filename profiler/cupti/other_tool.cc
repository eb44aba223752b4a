#include "profiler/cupti/other_tool.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace reprise::cupti {
namespace {

struct Sign {
  std::string_view text;  ///< In a library's path, or a variable's start.
  const char* tool;
};

constexpr std::array<Sign, 7> kLibraries = {{
    {"libToolsInjection", "Nsight Systems"},
    {"nsight-systems", "Nsight Systems"},
    {"libTreeLauncherTargetInjection", "Nsight Compute"},
    {"nsight-compute", "Nsight Compute"},
    {"libsanitizer-", "compute-sanitizer"},
    {"libTreeLauncherPlaceholder", "compute-sanitizer"},
    {"libcuinj", "nvprof"},
}};
constexpr std::array<Sign, 4> kVariables = {{
    {"NSYS_", "Nsight Systems"},
    {"NV_COMPUTE_PROFILER_", "Nsight Compute"},
    {"NV_TPS_LAUNCH_", "Nsight Compute"},
    {"NVPROF_", "nvprof"},
}};

const char* tool_of_libraries() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const Sign& sign : kLibraries) {
      if (line.find(sign.text) != std::string::npos) return sign.tool;
    }
  }
  return nullptr;
}

const char* tool_of_variables() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    for (const Sign& sign : kVariables) {
      if (std::string_view(*entry).starts_with(sign.text)) return sign.tool;
    }
  }
  return nullptr;
}

}  // namespace

std::string other_tool() {
  if (const char* tool = tool_of_libraries()) return tool;
  if (const char* tool = tool_of_variables()) return tool;
  const char* injected = std::getenv("CUDA_INJECTION64_PATH");
  if (injected != nullptr && *injected != '\0' &&
      std::string_view(injected).find("reprise") == std::string_view::npos) {
    return injected;
  }
  return {};
}

}  // namespace reprise::cupti
