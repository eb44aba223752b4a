// Units of work (files, directories) go to threads, the largest first, each
// input into its own spool; results stand in the order of the units, so that
// the trace does not depend on the threads. An execution trace of PyTorch and
// the Kineto file of the same rank are two records of one run and are joined op
// by op once all is read. Cost: that of the readers; one spool's memory an
// input.
#include "data/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "data/formats/ranks.h"
#include "data/import/content_words.h"
#include "data/import/import_inputs.h"
#include "data/import/import_report.h"
#include "data/import/joined_records.h"
#include "data/parallel.h"
#include "data/trace/trace_file.h"

namespace reprise {
namespace {

// An archive of a million members that are no traces is told by its first.
constexpr size_t kMostRefusedMembers = 1000;

/// Tells the watcher how far all threads are.
class SharedProgress {
 public:
  SharedProgress(const ImportWatcher& watcher,
                 std::span<const ImportUnit> units)
      : watcher_(watcher), positions_(units.size()) {
    shown_.files_total = units.size();
    for (const ImportUnit& unit : units) shown_.bytes_total += unit.bytes;
  }

  std::atomic<int64_t>& position(size_t unit) { return positions_[unit]; }
  void finish(size_t unit, int64_t bytes) {
    positions_[unit] = bytes;
    ++finished_;
    tell();
  }
  void tell() {
    if (!watcher_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    shown_.bytes_done = 0;
    for (const auto& position : positions_) shown_.bytes_done += position;
    shown_.files_done = finished_;
    watcher_(shown_);
  }

 private:
  const ImportWatcher& watcher_;
  std::vector<std::atomic<int64_t>> positions_;
  std::atomic<size_t> finished_ = 0;
  std::mutex mutex_;
  ImportProgress shown_;
};

/// Counts what a reader takes, keeps the error that it may swallow, and stops
/// it when the import is cancelled.
class MeteredSource : public ByteSource {
 public:
  MeteredSource(ByteSource& source, const ImportOptions& options,
                SharedProgress& progress)
      : source_(source), options_(options), progress_(progress) {}

  Result<size_t> read(std::span<char> into) override {
    if (options_.cancelled != nullptr && *options_.cancelled) {
      return fail(ErrorKind::kIo, "interrupted");
    }
    const Result<size_t> got = source_.read(into);
    if (!got) {
      error_ = got.error();
      return pass(got.error());
    }
    bytes_ += static_cast<int64_t>(*got);
    since_told_ += *got;
    if (since_told_ >= kTellEveryBytes) {
      since_told_ = 0;
      progress_.tell();
    }
    return *got;
  }

  int64_t bytes() const { return bytes_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr size_t kTellEveryBytes = size_t{8} << 20;

  ByteSource& source_;
  const ImportOptions& options_;
  SharedProgress& progress_;
  int64_t bytes_ = 0;
  size_t since_told_ = 0;
  std::optional<Error> error_;
};

/// Reads one unit; every unit has its own, and a thread of its own.
class UnitImport {
 public:
  UnitImport(const ImportUnit& unit, size_t number,
             const ImportOptions& options, SharedProgress& progress)
      : unit_(unit), number_(number), options_(options), progress_(progress) {}

  std::vector<DirectoryPart> run() {
    if (!cancelled()) {
      if (unit_.reader != nullptr) {
        read_directory();
      } else if (!unit_.view_of.empty()) {
        refuse_unit("another view of " + unit_.view_of + ", which is read");
      } else {
        read_file();
      }
    }
    progress_.finish(number_, unit_.bytes);
    return std::move(parts_);
  }

 private:
  bool cancelled() const {
    return options_.cancelled != nullptr && *options_.cancelled;
  }

  void read_directory() {
    const Status read =
        unit_.reader->read(unit_.listing, options_.spool_directory, parts_);
    if (!read) {
      DirectoryPart part;
      part.report.path = unit_.path;
      part.report.refused = read.error().message;
      parts_.push_back(std::move(part));
    }
    for (DirectoryPart& part : parts_) {
      part.report.kind = unit_.reader->kind();
      if (part.spool) part.report.events = part.spool->event_count();
    }
  }

  void read_file() {
    const Status visited = visit_inputs(
        unit_.path,
        [this](InputFile& input) -> Status {
          if (cancelled()) return fail(ErrorKind::kIo, "interrupted");
          read_input(input);
          return {};
        },
        &progress_.position(number_));
    if (!visited) {
      note_unit_error(visited.error());
    } else if (parts_.empty()) {
      refuse_unit("an archive without files");
    }
    if (members_left_out_ > 0) {
      DirectoryPart part;
      part.report.path = unit_.path;
      part.report.kind = "archive";
      part.report.dropped["more members that are no traces"] =
          members_left_out_;
      parts_.push_back(std::move(part));
    }
  }

  void refuse_unit(std::string reason) {
    DirectoryPart part;
    part.report.path = unit_.path;
    part.report.refused = std::move(reason);
    parts_.push_back(std::move(part));
  }

  // A file that cannot be opened, or an archive that is damaged on the way.
  void note_unit_error(const Error& error) {
    std::string message = error.message;
    const std::string prefix = unit_.path + ": ";
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
    if (parts_.empty()) {
      refuse_unit(std::move(message));
      return;
    }
    DirectoryPart part;
    part.report.path = unit_.path;
    part.report.kind = "archive";
    part.report.dropped["rest of a damaged archive"] = 1;
    part.report.missing.push_back(message + "; what came before is imported");
    parts_.push_back(std::move(part));
  }

  void read_input(InputFile& input) {
    DirectoryPart part;
    part.report.path = input.name;
    if (!input.unreadable.empty()) {
      part.report.refused = input.unreadable;
    } else if (const TraceReader* reader = reader_of(input)) {
      part.report.kind = reader->kind();
      read_with(*reader, input, part);
    } else {
      part.report.bytes = static_cast<int64_t>(input.head.size());
      part.report.refused = std::string(kNoTrace) + words_for_content(input);
    }
    if (!part.report.refused.empty() && ++refused_ > kMostRefusedMembers) {
      ++members_left_out_;
      return;
    }
    parts_.push_back(std::move(part));
  }

  const TraceReader* reader_of(const InputFile& input) const {
    for (const TraceReader* reader : options_.readers) {
      const bool fits = options_.kind.empty() ? reader->recognizes(input)
                                              : reader->kind() == options_.kind;
      if (fits) return reader;
    }
    return nullptr;
  }

  void read_with(const TraceReader& reader, InputFile& input,
                 DirectoryPart& part) {
    MeteredSource metered(*input.source, options_, progress_);
    input.source = &metered;
    TraceSpool spool(options_.spool_directory);
    FileReport& report = part.report;
    const Status read = reader.read(input, spool, report);
    // Readers with random access pass the source by.
    report.bytes = input.path.empty() ? metered.bytes()
                                      : std::max(metered.bytes(), unit_.bytes);
    report.events = spool.event_count();
    if (!read && report.events == 0 && report.refused.empty()) {
      report.refused = read.error().message;
    } else if (!read) {
      note_loss(report, read.error());
    } else if (metered.error()) {
      note_loss(report, *metered.error());
    }
    if (report.refused.empty()) part.spool = std::move(spool);
  }

  // The input ended early: what came before counts, and the loss is told.
  static void note_loss(FileReport& report, const Error& error) {
    if (report.dropped.empty()) report.dropped["cut off by damage"] = 1;
    std::string message = error.message;
    const std::string prefix = report.path + ": ";
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
    report.missing.push_back(message + "; what came before is imported");
  }

  const ImportUnit& unit_;
  size_t number_;
  const ImportOptions& options_;
  SharedProgress& progress_;
  std::vector<DirectoryPart> parts_;
  size_t refused_ = 0;
  int64_t members_left_out_ = 0;
};

size_t thread_count(const ImportOptions& options, size_t units) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t wanted =
      options.threads > 0 ? static_cast<size_t>(options.threads) : cores;
  // For a single file threads would cost more to make than it to read.
  return std::min({wanted, size_t{cores}, units});
}

/// Reads all units; the result is in their order, whatever the threads did.
std::vector<std::vector<DirectoryPart>> read_units(
    std::span<const ImportUnit> units, const ImportOptions& options,
    const ImportWatcher& watcher) {
  // The largest first, so that no thread is left with it at the end.
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return units[a].bytes > units[b].bytes;
  });
  SharedProgress progress(watcher, units);
  std::vector<std::vector<DirectoryPart>> read(units.size());
  parallel_for(
      order.size(), thread_count(options, units.size()), [&](size_t i) {
        const size_t unit = order[i];
        read[unit] = UnitImport(units[unit], unit, options, progress).run();
      });
  return read;
}

std::string listed(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "; "));
}

/// Fails when nothing was read, or with --strict when anything was lost.
Status check_losses(std::span<const FileReport> files,
                    std::span<const std::string> paths,
                    const ImportOptions& options) {
  constexpr size_t kShown = 3;
  std::vector<FileReport> lost, refused;
  for (const FileReport& file : files) {
    FileReport brief = file;
    brief.missing.clear();
    brief.repaired.clear();
    if (lost_something(file)) lost.push_back(brief);
    if (!file.refused.empty()) refused.push_back(std::move(brief));
  }
  const bool nothing_read =
      std::all_of(files.begin(), files.end(), [](const FileReport& file) {
        return !file.refused.empty() || file.kind == "archive";
      });
  if (files.empty()) {
    return fail(ErrorKind::kUnsupported, "{}: there is no file to import",
                fmt::join(paths, ", "));
  }
  if (nothing_read) {
    return fail(ErrorKind::kUnsupported,
                "nothing to import: {} (kinds that are read: {})",
                listed(import_remarks(lost, kShown)),
                fmt::join(import_kinds(options), ", "));
  }
  if (options.strict && !lost.empty()) {
    return fail(ErrorKind::kUnsupported, "--strict, and something was lost: {}",
                listed(import_remarks(lost, kShown)));
  }
  return {};
}

Status number_ranks(std::vector<DirectoryPart>& parts,
                    const ImportOptions& options) {
  std::vector<RankedInput> ranked;
  for (DirectoryPart& part : parts) {
    if (part.spool) {
      ranked.push_back({part.report.path, part.report.kind, &*part.spool,
                        &part.report.missing});
    }
  }
  if (Status done = assign_ranks(ranked, options.ranks); !done) return done;
  for (DirectoryPart& part : parts) {
    for (uint32_t i = 0; part.spool && i < part.spool->rank_count(); ++i) {
      part.report.ranks.push_back(part.spool->rank(i).rank);
    }
  }
  return {};
}

std::vector<const DirectoryReader*> readers_of_kind(
    const ImportOptions& options) {
  std::vector<const DirectoryReader*> readers;
  for (const DirectoryReader* reader : options.directory_readers) {
    if (options.kind.empty() || reader->kind() == options.kind)
      readers.push_back(reader);
  }
  return readers;
}

}  // namespace

Result<ImportResult> import_files(std::span<const std::string> paths,
                                  const ImportOptions& options,
                                  const ImportWatcher& watcher) {
  const std::vector<std::string> kinds = import_kinds(options);
  if (!options.kind.empty() &&
      std::find(kinds.begin(), kinds.end(), options.kind) == kinds.end()) {
    return fail(ErrorKind::kInvalid, "no kind '{}'; there are: {}",
                options.kind, fmt::join(kinds, ", "));
  }
  const Result<std::vector<ImportUnit>> units =
      find_units(paths, readers_of_kind(options), options.output);
  if (!units) return pass(units.error());
  std::vector<std::vector<DirectoryPart>> read =
      read_units(*units, options, watcher);
  if (options.cancelled != nullptr && *options.cancelled) {
    return fail(ErrorKind::kIo, "interrupted");
  }
  std::vector<DirectoryPart> parts;
  for (std::vector<DirectoryPart>& some : read) {
    std::move(some.begin(), some.end(), std::back_inserter(parts));
  }
  std::vector<FileReport> reports;
  reports.reserve(parts.size());
  for (const DirectoryPart& part : parts) reports.push_back(part.report);
  if (Status good = check_losses(reports, paths, options); !good)
    return pass(good.error());
  if (Status known = number_ranks(parts, options); !known)
    return pass(known.error());
  ImportResult result;
  for (DirectoryPart& part : parts) {
    result.files.push_back(std::move(part.report));
    if (part.spool) result.spools.push_back(std::move(*part.spool));
  }
  forget_advice_taken(result.files);
  return result;
}

Status write_import(ImportResult& result, const std::string& path,
                    Existing existing) {
  for (std::string& loss : import_losses(result.files)) {
    if (!result.spools.empty())
      result.spools.front().add_warning("import: " + loss);
  }
  if (!has_both_records(result.files)) {
    return write_spools(result.spools, import_text(result.files), path,
                        existing);
  }
  // What ran when and what it was given are joined op by op, in memory.
  Result<Trace> trace = gather_spools(result.spools);
  if (!trace) return pass(trace.error());
  note_join(join_execution_traces(*trace), result.files);
  trace->import_text = import_text(result.files);
  return write_trace(*trace, path, existing);
}

std::vector<std::string> import_kinds(const ImportOptions& options) {
  std::vector<std::string> kinds;
  for (const DirectoryReader* reader : options.directory_readers) {
    kinds.emplace_back(reader->kind());
  }
  for (const TraceReader* reader : options.readers) {
    if (std::find(kinds.begin(), kinds.end(), reader->kind()) == kinds.end())
      kinds.emplace_back(reader->kind());
  }
  return kinds;
}

}  // namespace reprise
