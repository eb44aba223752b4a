#include "cli/profile_gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "cli/device_units.h"
#include "cli/trainer_context.h"
#include "data/file.h"
#include "data/formats/import.h"
#include "data/formats/import_report.h"
#include "data/formats/process_shard_reader.h"
#include "profiler/gather.h"
#include "replay/clock_alignment.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainerFile = "trainer.json";

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

/// The process shards of a trainer's directory, on the clocks that the trainer
/// has measured itself; empty when there is nothing in them.
Result<Trace> device_trace(const std::string& directory,
                           std::vector<FileReport>& reports) {
  Result<ImportResult> read = import_files(std::vector<std::string>{directory},
                                           import_options(directory));
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
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(directory, error);
       !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::string path = entry->path().string();
    if (entry->path().filename() == kTrainerFile) {
      files.trainer_context = std::max(files.trainer_context, path);
    } else if (is_process_shard(path)) {
      files.processes.push_back(path);
    } else if (is_trainer_shard(path)) {
      files.trainers.push_back(path);
    }
  }
  if (error) {
    return fail(ErrorKind::kIo, "{}: cannot list: {}", directory,
                error.message());
  }
  std::sort(files.processes.begin(), files.processes.end());
  std::sort(files.trainers.begin(), files.trainers.end());
  return files;
}

Result<Trace> gather_trainer(const ProfileFiles& files,
                             const std::string& directory,
                             const StepWindow& window) {
  if (files.trainer_context.empty()) {
    return fail(ErrorKind::kUnsupported,
                "{}: shards of reprise-train without its trainer.json, which "
                "says what ran",
                directory);
  }
  const Result<std::string> text = read_file(files.trainer_context);
  if (!text) return pass(text.error());
  const Result<GatherContext> context =
      parse_trainer_context(*text, files.trainer_context);
  if (!context) return pass(context.error());
  Result<Trace> trace = gather_shards(files.trainers, *context);
  if (!trace) return pass(trace.error());
  if (!files.processes.empty()) {
    std::vector<FileReport> reports;
    const Result<Trace> device = device_trace(directory, reports);
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

Result<GatheredProfile> gather_profile(const std::string& directory,
                                       const std::string& output,
                                       const StepWindow& window) {
  const Result<ProfileFiles> files = find_profile_files(directory);
  if (!files) return pass(files.error());
  if (files->processes.empty() && files->trainers.empty()) {
    return fail(ErrorKind::kUnsupported, "{}: no process left a shard",
                directory);
  }
  if (files->trainers.empty()) return gather_strangers(directory, output);
  GatheredProfile gathered;
  gathered.of_trainer = true;
  Result<Trace> trace = gather_trainer(*files, directory, window);
  if (!trace) return pass(trace.error());
  gathered.files = trainer_reports(files->trainers, *trace);
  shorten_paths(directory, gathered.files);
  gathered.ranks = ranks_of(*trace);
  gathered.events = std::ssize(trace->events);
  gathered.warnings = trace->warnings;
  Status written = write_trace(*trace, output);
  if (!written) return pass(written.error());
  return gathered;
}

}  // namespace reprise
