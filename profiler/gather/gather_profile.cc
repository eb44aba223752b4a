// Strangers on one clock are written as they were read, segment by segment and
// never whole in memory. Those of several hosts are read whole, to be aligned.
// A trainer's runs come one after another, each with its own trace.
#include "profiler/gather/gather_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "data/formats/process_shard/process_shard_reader.h"
#include "data/import/import.h"
#include "data/import/import_report.h"
#include "data/trace/trace_file.h"
#include "profiler/gather/profile_files.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// A row for each rank of a trainer, as import has one for each input.
std::vector<FileReport> trainer_reports(const std::vector<std::string>& paths,
                                        const Trace& trace) {
  std::map<uint32_t, FileReport> reports;
  for (const RankInfo& info : trace.ranks) {
    FileReport& report = reports[info.rank];
    const auto path =
        std::find_if(paths.begin(), paths.end(), [&](const std::string& shard) {
          return fs::path(shard).filename() ==
                 fmt::format("rank.{}.shard", info.rank);
        });
    if (path != paths.end()) report.path = *path;
    report.kind = "trainer-shard";
    report.ranks = {info.rank};
  }
  for (const Event& event : trace.events) {
    FileReport& report = reports[event.rank];
    ++report.events;
    report.collectives += event.kind == EventKind::kCollective;
  }
  for (const StepMark& mark : trace.steps) ++reports[mark.rank].steps;
  std::vector<FileReport> all;
  all.reserve(reports.size());
  for (auto& [rank, report] : reports) all.push_back(std::move(report));
  return all;
}

std::vector<uint32_t> ranks_of(const Trace& trace) {
  std::vector<uint32_t> ranks;
  for (const RankInfo& rank : trace.ranks) ranks.push_back(rank.rank);
  return ranks;
}

/// By the names of the shards: their directory is gone when the trace is read.
void shorten_paths(const std::string& directory,
                   std::vector<FileReport>& reports) {
  const std::string prefix = directory + "/";
  for (FileReport& report : reports) {
    if (report.path.starts_with(prefix)) report.path.erase(0, prefix.size());
  }
}

Result<GatheredProfile> gather_strangers(const std::string& directory,
                                         const std::string& output,
                                         const GatherOptions& options) {
  ImportOptions import;
  import.kind = process_shards_reader().kind();
  import.spool_directory = directory;
  Result<ImportResult> read =
      import_files(std::vector<std::string>{directory}, import);
  if (!read) return pass(read.error());
  shorten_paths(directory, read->files);
  GatheredProfile gathered;
  bool is_one_clock = true;
  for (TraceSpool& spool : read->spools) {
    gathered.events += spool.event_count();
    for (uint32_t i = 0; i < spool.rank_count(); ++i) {
      gathered.ranks.push_back(spool.rank(i).rank);
      is_one_clock &= spool.rank(i).clock_domain == "monotonic";
    }
  }
  Status written;
  if (is_one_clock) {
    written = write_import(*read, output, options.existing);
  } else {
    Result<Trace> trace = gather_spools(read->spools);
    if (!trace) return pass(trace.error());
    trace->import_text = import_text(read->files);
    options.align_clocks(*trace);
    written = write_trace(*trace, output, options.existing);
  }
  if (!written) return pass(written.error());
  gathered.files = std::move(read->files);
  return gathered;
}

/// Before anything is written. Errors: kInvalid.
Status check_later_runs(size_t runs, const std::string& output) {
  for (size_t number = 2; number <= runs; ++number) {
    const std::string path = path_of_run(output, number);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    return fail(ErrorKind::kInvalid,
                "the command trained {} times, and a trace holds one training: "
                "{} is there already (--force replaces it)",
                runs, path);
  }
  return {};
}

/// Each run's trace; at the first that cannot be had or written it ends.
Result<GatheredProfile> gather_runs(const ProfileFiles& files,
                                    const std::string& directory,
                                    const std::string& output,
                                    const GatherOptions& options) {
  GatheredProfile gathered;
  gathered.of_trainer = true;
  const size_t runs = files.trainers.size();
  if (options.existing == Existing::kKeep) {
    Status free = check_later_runs(runs, output);
    if (!free) return pass(free.error());
  }
  for (size_t number = 1; number <= runs; ++number) {
    const TrainerRun& run = files.trainers[number - 1];
    Result<Trace> trace = gather_trainer(files, run, directory, options.window);
    if (!trace) return pass(trace.error());
    const std::string path = path_of_run(output, number);
    Status written = write_trace(*trace, path, options.existing);
    if (!written) return pass(written.error());
    std::vector<FileReport> reports = trainer_reports(run.shards, *trace);
    if (number > 1 && !reports.empty()) {
      reports.front().missing.insert(
          reports.front().missing.begin(),
          fmt::format("training {} of {}: its trace is {}", number, runs,
                      path));
    }
    std::move(reports.begin(), reports.end(),
              std::back_inserter(gathered.files));
    for (const std::string& warning : trace->warnings) {
      gathered.warnings.push_back(
          number == 1 ? warning
                      : fmt::format("training {}: {}", number, warning));
    }
    if (number > 1) continue;
    gathered.ranks = ranks_of(*trace);
    gathered.events = std::ssize(trace->events);
  }
  shorten_paths(directory, gathered.files);
  return gathered;
}

}  // namespace

std::string path_of_run(const std::string& output, size_t number) {
  if (number < 2) return output;
  const fs::path path = output;
  fs::path numbered = path.stem();
  numbered += fmt::format(".{}", number);
  numbered += path.extension();
  return (path.parent_path() / numbered).string();
}

Result<GatheredProfile> gather_profile(const std::string& directory,
                                       const std::string& output,
                                       const GatherOptions& options) {
  const Result<ProfileFiles> files = find_profile_files(directory);
  if (!files) return pass(files.error());
  if (files->processes.empty() && files->trainers.empty()) {
    return fail(ErrorKind::kUnsupported, "{}: no process left a shard",
                directory);
  }
  return files->trainers.empty()
             ? gather_strangers(directory, output, options)
             : gather_runs(*files, directory, output, options);
}

}  // namespace reprise
