// reprise import: traces of other tools, joined into one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "data/formats/ranks.h"
#include "data/import/import.h"
#include "data/import/import_report.h"
#include "profiler/gather/gather_profile.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

std::atomic<bool> cancelled = false;
volatile std::sig_atomic_t interrupted = 0;
// The trace that is being written, for the signal handler; empty: none.
std::array<char, 4096> unfinished{};

extern "C" void stop_import(int number) {
  interrupted = number;
  cancelled = true;
  if (unfinished[0] == '\0') return;
  ::unlink(unfinished.data());
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// While it lives, the first SIGINT, SIGTERM or SIGHUP ends the import with
/// nothing half-written, and the second one the process.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action = {};
    action.sa_handler = stop_import;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &action, &old_[i]);
    }
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() {
    unfinished[0] = '\0';
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &old_[i], nullptr);
    }
  }

  /// From now on the temporary file of `path` goes with a signal.
  static void writes(const std::string& path) {
    const std::string name = fmt::format("{}.tmp.{}", path, ::getpid());
    if (name.size() >= unfinished.size()) return;
    // The first byte last: the handler looks at it.
    std::memcpy(unfinished.data() + 1, name.data() + 1, name.size() - 1);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    unfinished[0] = name[0];
  }

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> old_{};
};

/// One line on a terminal that is written over; nothing elsewhere.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(const ImportProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    constexpr double kWidth = 24;
    const double share =
        progress.bytes_total > 0
            ? std::clamp(static_cast<double>(progress.bytes_done) /
                             static_cast<double>(progress.bytes_total),
                         0.0, 1.0)
            : 0.0;
    fmt::print(stderr, "\r  reading [{:<24}] {}/{} files, {}\x1b[K",
               std::string(static_cast<size_t>(share * kWidth), '#'),
               progress.files_done, progress.files_total,
               bytes_text(static_cast<double>(progress.bytes_done)));
    std::fflush(stderr);
  }
  void clear() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
    shown_ = false;
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

/// "FILE=N", cut at the last '='.
std::optional<std::pair<std::string, uint32_t>> parse_rank(
    const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  uint32_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data() + equals + 1, end, rank);
  constexpr uint32_t kLargest = (1 << 20) - 1;
  if (error != std::errc() || rest != end || rank > kLargest)
    return std::nullopt;
  return std::pair(text.substr(0, equals), rank);
}

int64_t total(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [reason, count] : counts) sum += count;
  return sum;
}

std::string shortened(const std::string& path, size_t width) {
  if (path.size() <= width) return path;
  size_t from = path.size() - (width - 1);
  while (from < path.size() && (path[from] & 0xC0) == 0x80) ++from;
  return "…" + path.substr(from);
}

/// The kinds in lines that fit a help page.
std::string kinds_footer() {
  constexpr size_t kWidth = 80;
  std::string text = "Kinds, found by content:", line = text;
  for (const std::string& kind : import_kinds()) {
    if (line.size() + 1 + kind.size() > kWidth) {
      text += "\n ";
      line = " ";
    }
    text += " " + kind;
    line += " " + kind;
  }
  return text;
}

/// A row a file; people see no more than `limit` of them.
Table table_of(std::span<const FileReport> files, size_t limit,
               size_t name_width) {
  Table table;
  table.headings = {"file",    "kind",        "dialect", "ranks",   "events",
                    "kernels", "collectives", "steps",   "dropped", "repaired"};
  table.left = {0, 1, 2};
  for (const FileReport& file : files.first(std::min(limit, files.size()))) {
    const std::string kind = file.refused.empty() ? file.kind : "refused";
    table.rows.push_back(
        {shortened(file.path, name_width), kind,
         shortened(file.dialect, name_width), rank_list(file.ranks),
         std::to_string(file.events), std::to_string(file.kernels),
         std::to_string(file.collectives), std::to_string(file.steps),
         std::to_string(total(file.dropped)),
         std::to_string(total(file.repaired))});
  }
  if (files.size() > limit) {
    FileReport rest;
    for (const FileReport& file : files.subspan(limit)) {
      rest.events += file.events;
      rest.kernels += file.kernels;
      rest.collectives += file.collectives;
      rest.ranks.insert(rest.ranks.end(), file.ranks.begin(), file.ranks.end());
    }
    table.rows.push_back({fmt::format("… and {} more", files.size() - limit),
                          "", "", rank_list(rest.ranks),
                          std::to_string(rest.events),
                          std::to_string(rest.kernels),
                          std::to_string(rest.collectives), "", "", ""});
  }
  return table;
}

class ImportCommand : public Command {
 public:
  std::string name() const override { return "import"; }
  std::string summary() const override {
    return "Join traces of other tools into one trace";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("inputs", inputs_,
                    "files, archives (tar, zip) or directories; gz and xz too")
        .required()
        .type_name("FILE");
    flags.add_option("-o,--output", output_, "trace to write").required();
    flags.add_option("--kind", options_.kind, "read every input as this kind")
        .type_name("KIND")
        .one_of(import_kinds());
    flags
        .add_option("--rank", ranks_,
                    "FILE=N: rank of an input that does not say it itself")
        .type_name("FILE=N")
        .repeatable();
    flags.add_flag("--strict", options_.strict,
                   "fail when anything is dropped or refused");
    flags.add_flag("--force", force_, "replace an existing file");
    flags
        .add_option("--threads", options_.threads,
                    "files read at a time (default: one a core)")
        .type_name("N")
        .range(1, 1024);
    flags.add_format(format_);
    flags.footer(kinds_footer());
  }

  Result<int> run() override {
    if (Status ready = prepare(); !ready) return pass(ready.error());
    const auto start = std::chrono::steady_clock::now();
    const InterruptGuard guard;
    if (inputs_.size() == 1 && holds_trainer(inputs_.front())) {
      return import_trainer(start);
    }
    Result<ImportResult> result = read();
    if (interrupted != 0) {
      fmt::print(stderr, "reprise import: interrupted, nothing written\n");
      return 128 + interrupted;
    }
    if (!result) return pass(result.error());
    InterruptGuard::writes(output_);
    if (Status written = write_import(*result, output_); !written)
      return pass(written.error());
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    print(*result, seconds.count());
    return kExitOk;
  }

 private:
  Status prepare() {
    if (Status writable = check_output(output_, force_); !writable)
      return writable;
    const std::filesystem::path folder =
        std::filesystem::path(output_).parent_path();
    std::error_code error;
    if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
      return fail(ErrorKind::kIo, "{}: cannot write: no directory {}", output_,
                  folder.string());
    }
    for (const std::string& text : ranks_) {
      const auto rank = parse_rank(text);
      if (!rank) {
        return fail(ErrorKind::kInvalid,
                    "--rank {}: expected FILE=N with a rank N from 0", text);
      }
      if (!options_.ranks.insert(*rank).second) {
        return fail(ErrorKind::kInvalid, "--rank {}: named twice", rank->first);
      }
    }
    options_.output = output_;
    options_.cancelled = &cancelled;
    return {};
  }

  /// What `reprise profile` left of our own trainer.
  Result<int> import_trainer(std::chrono::steady_clock::time_point start) {
    InterruptGuard::writes(output_);
    Result<GatheredProfile> gathered = gather_profile(
        inputs_.front(), output_,
        {.force = force_,
         .align_clocks = [](Trace& trace) { align_clocks(trace); }});
    if (!gathered) return pass(gathered.error());
    ImportResult result;
    result.files = std::move(gathered->files);
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    print(result, seconds.count());
    return kExitOk;
  }

  Result<ImportResult> read() const {
    ProgressLine line;
    return import_files(inputs_, options_, [&](const ImportProgress& progress) {
      line.show(progress);
    });
  }

  void print(const ImportResult& result, double seconds) const {
    constexpr size_t kMostRows = 24, kMostRemarks = 20, kNameWidth = 40;
    const bool people = format_ == Format::kTable;
    print_output(
        format_,
        table_of(result.files, people ? kMostRows : result.files.size(),
                 people ? kNameWidth : std::string::npos - 1),
        import_json(result.files, seconds));
    std::fflush(stdout);
    for (const std::string& remark :
         import_remarks(result.files, kMostRemarks)) {
      fmt::print(stderr, "  {}\n", remark);
    }
    int64_t events = 0, bytes = 0;
    std::vector<uint32_t> ranks;
    for (const FileReport& file : result.files) {
      events += file.events;
      bytes += file.bytes;
      ranks.insert(ranks.end(), file.ranks.begin(), file.ranks.end());
    }
    fmt::print(stderr, "wrote {} (rank {}, {} events of {} in {})\n", output_,
               ranks.empty() ? "none" : rank_list(ranks), events,
               bytes_text(static_cast<double>(bytes)),
               duration_text(seconds * 1e9));
  }

  std::vector<std::string> inputs_, ranks_;
  std::string output_;
  bool force_ = false;
  ImportOptions options_;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_import_command() {
  return std::make_unique<ImportCommand>();
}

}  // namespace reprise
