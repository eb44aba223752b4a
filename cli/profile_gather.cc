#include "cli/profile_gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "cli/device_units.h"
#include "cli/trainer_context.h"
#include "data/file.h"
#include "data/formats/process_shard/process_shard_contents.h"
#include "data/formats/process_shard/process_shard_reader.h"
#include "data/formats/ranks.h"
#include "data/import/import.h"
#include "data/import/import_report.h"
#include "profiler/gather.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// A whole number from 0; `fallback` for "".
std::optional<int64_t> side(std::string_view text, int64_t fallback) {
  if (text.empty()) return fallback;
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) return std::nullopt;
  return value;
}

ImportOptions import_options(const std::string& directory) {
  ImportOptions options;
  options.kind = process_shards_reader().kind();
  options.spool_directory = directory;
  return options;
}

std::vector<uint32_t> ranks_of(const Trace& trace) {
  std::vector<uint32_t> ranks;
  for (const RankInfo& rank : trace.ranks) ranks.push_back(rank.rank);
  return ranks;
}

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

void keep_window(const StepWindow& window, Trace& trace) {
  const auto is_outside = [&](int32_t step) {
    return step >= 0 && (step < window.first || step >= window.end);
  };
  std::erase_if(trace.events,
                [&](const Event& event) { return is_outside(event.step); });
  std::erase_if(trace.steps,
                [&](const StepMark& mark) { return is_outside(mark.step); });
}

/// Of the ranks alone: what a launcher lost is nothing to a trainer's trace.
void warn_of_losses(const std::vector<FileReport>& reports, Trace& trace) {
  for (const FileReport& report : reports) {
    if (report.ranks.empty()) continue;
    for (const auto& [what, count] : report.dropped) {
      trace.warnings.push_back(
          fmt::format("rank {}: dropped from its process "
                      "shard: {} ({})",
                      rank_list(report.ranks), what, count));
    }
  }
}

bool has_device_work(const Trace& trace) {
  return std::any_of(
      trace.events.begin(), trace.events.end(), [&](const Event& event) {
        return trace.streams[event.stream].kind == StreamKind::kDeviceStream;
      });
}

void warn_of_blindness(const std::vector<FileReport>& reports, Trace& trace) {
  trace.warnings.emplace_back(
      "no work on a GPU was recorded: when its units ran is unknown");
  for (const FileReport& report : reports) {
    if (report.ranks.empty()) continue;
    trace.warnings.insert(trace.warnings.end(), report.missing.begin(),
                          report.missing.end());
  }
}

/// The shards of some processes alone, of a directory of them.
class SomeProcessShards : public DirectoryReader {
 public:
  /// `files`: paths relative to the directory.
  explicit SomeProcessShards(std::set<std::string> files)
      : files_(std::move(files)) {}

  std::string_view kind() const override {
    return process_shards_reader().kind();
  }
  bool recognizes(const DirectoryListing& directory) const override {
    return process_shards_reader().recognizes(directory);
  }
  Status read(const DirectoryListing& directory,
              const std::string& spool_directory,
              std::vector<DirectoryPart>& parts) const override {
    DirectoryListing some = directory;
    std::erase_if(some.files, [this](const std::string& file) {
      return !files_.contains(file);
    });
    return process_shards_reader().read(some, spool_directory, parts);
  }

 private:
  std::set<std::string> files_;
};

/// Shards of the run's own processes; of all where none is known as one.
std::set<std::string> shards_of_run(const ProfileFiles& files,
                                    const std::string& directory,
                                    const Trace& run) {
  std::set<std::pair<std::string, int64_t>> processes;
  for (const RankInfo& rank : run.ranks) {
    processes.emplace(rank.host, rank.process);
  }
  std::set<std::string> all, own;
  for (const std::string& path : files.processes) {
    const std::string relative = fs::path(path).lexically_relative(directory);
    all.insert(relative);
    const auto contents = ProcessShardContents::open(path);
    if (contents && processes.contains({contents->identity().host,
                                        contents->identity().process})) {
      own.insert(relative);
    }
  }
  return own.empty() ? all : own;
}

/// Those shards, on the clocks that the trainer has measured itself.
Result<Trace> device_trace(const std::string& directory,
                           const std::set<std::string>& shards,
                           std::vector<FileReport>& reports) {
  const SomeProcessShards reader(shards);
  ImportOptions options = import_options(directory);
  options.directory_readers = {&reader};
  Result<ImportResult> read =
      import_files(std::vector<std::string>{directory}, options);
  if (!read) return pass(read.error());
  for (TraceSpool& spool : read->spools) {
    for (uint32_t i = 0; i < spool.rank_count(); ++i) {
      spool.set_time_base(i, 0);
    }
  }
  reports = std::move(read->files);
  return gather_spools(read->spools);
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
                                         const std::string& output) {
  Result<ImportResult> read = import_files(std::vector<std::string>{directory},
                                           import_options(directory));
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
    written = write_import(*read, output);
  } else {
    Result<Trace> trace = gather_spools(read->spools);
    if (!trace) return pass(trace.error());
    trace->import_text = import_text(read->files);
    align_clocks(*trace);
    written = write_trace(*trace, output);
  }
  if (!written) return pass(written.error());
  gathered.files = std::move(read->files);
  return gathered;
}

}  // namespace

std::optional<StepWindow> parse_step_window(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || text.size() == 1) return std::nullopt;
  const std::string_view all = text;
  const auto first = side(all.substr(0, colon), 0);
  const auto end = side(all.substr(colon + 1), INT64_MAX);
  if (!first || !end || *first >= *end) return std::nullopt;
  return StepWindow{*first, *end};
}

std::string path_of_run(const std::string& output, size_t number) {
  if (number < 2) return output;
  const fs::path path = output;
  fs::path numbered = path.stem();
  numbered += fmt::format(".{}", number);
  numbered += path.extension();
  return (path.parent_path() / numbered).string();
}

Result<Trace> gather_trainer(const ProfileFiles& files, const TrainerRun& run,
                             const std::string& directory,
                             const StepWindow& window) {
  if (run.context.empty()) {
    return fail(ErrorKind::kUnsupported,
                "{}: shards of reprise-train without its trainer.json, which "
                "says what ran",
                run.name.empty() ? directory : directory + "/" + run.name);
  }
  const Result<std::string> text = read_file(run.context);
  if (!text) return pass(text.error());
  const Result<GatherContext> context =
      parse_trainer_context(*text, run.context);
  if (!context) return pass(context.error());
  Result<Trace> trace = gather_shards(run.shards, *context);
  if (!trace) return pass(trace.error());
  if (!files.processes.empty()) {
    std::vector<FileReport> reports;
    const Result<Trace> device = device_trace(
        directory, shards_of_run(files, directory, *trace), reports);
    if (!device) return pass(device.error());
    attribute_device_work(context->units, *device, *trace);
    warn_of_losses(reports, *trace);
    if (context->environment.contains("device") &&
        context->environment.at("device") == "cuda" &&
        !has_device_work(*device)) {
      warn_of_blindness(reports, *trace);
    }
  }
  keep_window(window, *trace);
  return trace;
}

namespace {

/// Each run's trace; at the first that cannot be had or written it ends.
Result<GatheredProfile> gather_runs(const ProfileFiles& files,
                                    const std::string& directory,
                                    const std::string& output,
                                    const StepWindow& window, bool force) {
  GatheredProfile gathered;
  gathered.of_trainer = true;
  const size_t runs = files.trainers.size();
  for (size_t number = 2; number <= runs && !force; ++number) {
    const std::string path = path_of_run(output, number);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    return fail(ErrorKind::kInvalid,
                "the command trained {} times, and a trace holds one training: "
                "{} is there already (--force replaces it)",
                runs, path);
  }
  for (size_t number = 1; number <= runs; ++number) {
    const TrainerRun& run = files.trainers[number - 1];
    Result<Trace> trace = gather_trainer(files, run, directory, window);
    if (!trace) return pass(trace.error());
    const std::string path = path_of_run(output, number);
    Status written = write_trace(*trace, path);
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

Result<GatheredProfile> gather_profile(const std::string& directory,
                                       const std::string& output,
                                       const StepWindow& window, bool force) {
  const Result<ProfileFiles> files = find_profile_files(directory);
  if (!files) return pass(files.error());
  if (files->processes.empty() && files->trainers.empty()) {
    return fail(ErrorKind::kUnsupported, "{}: no process left a shard",
                directory);
  }
  return files->trainers.empty()
             ? gather_strangers(directory, output)
             : gather_runs(*files, directory, output, window, force);
}

}  // namespace reprise
