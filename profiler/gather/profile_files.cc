// Files are told by their first bytes, whatever their names; a trainer's run by
// the directory in which its shards lie.
#include "profiler/gather/profile_files.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "data/formats/process_shard/process_shard_reader.h"
#include "profiler/trainer_context.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

bool is_trainer_shard(const std::string& path) {
  constexpr std::string_view kMagic = "RPRSHARD";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(
      std::fopen(path.c_str(), "rbe"), std::fclose);
  std::array<char, kMagic.size()> bytes{};
  return file != nullptr &&
         std::fread(bytes.data(), 1, bytes.size(), file.get()) ==
             bytes.size() &&
         std::string_view(bytes.data(), bytes.size()) == kMagic;
}

/// "" for a file of no run's directory.
std::string run_of(const fs::path& file) {
  std::string parent = file.parent_path().filename().string();
  return parent.starts_with(kRunDirectoryPrefix) ? parent : "";
}

}  // namespace

bool holds_trainer(const std::string& directory) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(directory, error);
       !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename() == kTrainerFile) return true;
  }
  return false;
}

Result<ProfileFiles> find_profile_files(const std::string& directory) {
  ProfileFiles files;
  std::map<std::string, TrainerRun> runs;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(directory, error);
       !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::string path = entry->path().string();
    if (entry->path().filename() == kTrainerFile) {
      TrainerRun& run = runs[run_of(entry->path())];
      run.context = std::max(run.context, path);
    } else if (is_process_shard(path)) {
      files.processes.push_back(path);
    } else if (is_trainer_shard(path)) {
      runs[run_of(entry->path())].shards.push_back(path);
    }
  }
  if (error) {
    return fail(ErrorKind::kIo, "{}: cannot list: {}", directory,
                error.message());
  }
  std::sort(files.processes.begin(), files.processes.end());
  for (auto& [name, run] : runs) {
    if (run.shards.empty()) continue;  // It ended before its first step.
    run.name = name;
    std::sort(run.shards.begin(), run.shards.end());
    files.trainers.push_back(std::move(run));
  }
  return files;
}

}  // namespace reprise
