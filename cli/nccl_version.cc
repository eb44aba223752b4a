// NCCL comes with PyTorch's wheels, so its version is read from the name of the
// wheel's metadata beside the Python that the command names, else from the file
// that the loader's usual directories hold.
#include "cli/nccl_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/process.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// Of "2.26.2" and whatever follows; 0 for what is no such number.
int parse_version(std::string_view text) {
  int parts[3] = {};
  for (int& part : parts) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc() || part < 0 || part > 99) return 0;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with('.')) text.remove_prefix(1);
  }
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

/// The version in a name behind `prefix` and what it ends with up to there.
std::optional<FoundNccl> told_by(const fs::path& path, std::string_view prefix,
                                 char before_version) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  const size_t at = name.find(before_version, prefix.size() - 1);
  if (at == std::string::npos) return std::nullopt;
  const int version = parse_version(std::string_view(name).substr(at + 1));
  if (version == 0) return std::nullopt;
  return FoundNccl{version, path.string()};
}

/// In order of their names; empty for a directory that cannot be listed.
std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The wheel of NCCL: nvidia_nccl_cu12-2.26.2.dist-info.
std::optional<FoundNccl> in_python(const fs::path& prefix) {
  for (const fs::path& python : entries(prefix / "lib")) {
    if (!python.filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& entry : entries(python / packages)) {
        if (entry.extension() != ".dist-info") continue;
        if (auto found = told_by(entry, "nvidia_nccl_cu", '-')) return found;
      }
    }
  }
  return std::nullopt;
}

std::vector<fs::path> library_directories() {
  std::vector<fs::path> directories;
  const char* list = std::getenv("LD_LIBRARY_PATH");
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) directories.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  for (const char* usual :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
        "/usr/local/lib", "/usr/lib"}) {
    directories.emplace_back(usual);
  }
  return directories;
}

}  // namespace

std::string FoundNccl::text() const {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100,
                     version % 100);
}

std::optional<FoundNccl> find_nccl(const std::vector<std::string>& command) {
  std::vector<fs::path> prefixes;
  for (const std::string& word : command) {
    const bool is_path = word.find('/') != std::string::npos;
    const fs::path program = is_path ? word : find_program(word);
    if (program.parent_path().filename() != "bin") continue;
    prefixes.push_back(program.parent_path().parent_path());
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* prefix = std::getenv(variable))
      prefixes.emplace_back(prefix);
  }
  for (const fs::path& prefix : prefixes) {
    if (auto found = in_python(prefix)) return found;
  }
  for (const fs::path& directory : library_directories()) {
    std::error_code error;
    // A link to the file that has the version in its name.
    const fs::path file = fs::canonical(directory / "libnccl.so.2", error);
    if (error) continue;
    return told_by(file, "libnccl.so.", '.');
  }
  return std::nullopt;
}

}  // namespace reprise
