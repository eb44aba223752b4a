// The shards of ranks give units and steps; process shards of the same
// processes, by host and process number, give what their devices did. Other
// processes of the command (a launcher, a data loader) are left out.
#include "profiler/gather/gather_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "data/file.h"
#include "data/formats/process_shard/process_shard_contents.h"
#include "data/formats/process_shard/process_shard_reader.h"
#include "data/formats/ranks.h"
#include "data/import/import.h"
#include "profiler/gather/device_units.h"
#include "profiler/gather/gather_shards.h"
#include "profiler/trainer_context.h"

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
  ImportOptions options;
  options.kind = reader.kind();
  options.spool_directory = directory;
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

/// Gives units the times of their kernels, and says what is not known of them.
Status take_device_times(const ProfileFiles& files,
                         const std::string& directory,
                         const TrainerContext& context, Trace& trace) {
  std::vector<FileReport> reports;
  const Result<Trace> device =
      device_trace(directory, shards_of_run(files, directory, trace), reports);
  if (!device) return pass(device.error());
  attribute_device_work(context.units, *device, trace);
  warn_of_losses(reports, trace);
  const auto kind = context.environment.find("device");
  const bool is_gpu =
      kind != context.environment.end() && kind->second == "cuda";
  if (is_gpu && !has_device_work(*device)) warn_of_blindness(reports, trace);
  return {};
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
  const Result<TrainerContext> context =
      parse_trainer_context(*text, run.context);
  if (!context) return pass(context.error());
  Result<Trace> trace = gather_shards(run.shards, *context);
  if (!trace) return pass(trace.error());
  if (!files.processes.empty()) {
    Status timed = take_device_times(files, directory, *context, *trace);
    if (!timed) return pass(timed.error());
  }
  keep_window(window, *trace);
  return trace;
}

}  // namespace reprise
