#include "cli/doctor_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "cli/process.h"

namespace reprise {
namespace {

Check program_check(const std::string& program, unsigned purposes,
                    const std::string& fix) {
  const std::string path = find_program(program);
  return {program, purposes, !path.empty(), path.empty() ? "not found" : path,
          fix};
}

Check cache_check() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string directory = base != nullptr ? base
                                : home != nullptr
                                    ? std::string(home) + "/.cache"
                                    : "";
  std::string nearest = directory;
  while (!nearest.empty() && !std::filesystem::exists(nearest)) {
    nearest = std::filesystem::path(nearest).parent_path().string();
  }
  const bool writable =
      !nearest.empty() && ::access(nearest.c_str(), W_OK) == 0;
  return {"compile cache", kForTrain | kForCuda, writable,
          directory.empty() ? "HOME is not set" : directory,
          "set XDG_CACHE_HOME to a directory of yours"};
}

}  // namespace

std::string words_of(unsigned purposes) {
  constexpr std::array<std::pair<unsigned, const char*>, 4> kWords = {
      {{kForTrain, "train"},
       {kForCuda, "cuda"},
       {kForProfile, "profile"},
       {kForView, "view"}}};
  std::string words;
  for (const auto& [purpose, word] : kWords) {
    if ((purposes & purpose) == 0) continue;
    words += (words.empty() ? "" : ", ") + std::string(word);
  }
  return words;
}

std::vector<Check> machine_checks() {
  const unsigned cores = std::thread::hardware_concurrency();
  const std::string trainer = executable_directory() + "/reprise-train";
  const bool built = std::filesystem::exists(trainer);
  return {
      program_check("g++", kForTrain,
                    "apt install g++ (kernels are interpreted without it)"),
      program_check("mpirun", kForTrain | kForCuda,
                    "apt install openmpi-bin (one rank trains without it)"),
      {"reprise-train", kForTrain | kForCuda, built,
       built ? trainer : "not found",
       "apt install ./reprise-train_*.deb, or build the target reprise-train"},
      cache_check(),
      {"cores", kForTrain, cores >= 2, std::to_string(cores),
       "two ranks on one core measure each other, not the program"},
      program_check(
          "chromium", kForView,
          "apt install chromium, or open https://ui.perfetto.dev anywhere")};
}

}  // namespace reprise
