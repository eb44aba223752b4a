// reprise import: traces of other tools, joined into one.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/import_output.h"
#include "cli/interruptible_import.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "data/import/import.h"
#include "profiler/gather/gather_profile.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

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

/// The kinds in lines that fit a help page.
std::string kinds_footer() {
  constexpr size_t kWidth = 80;
  std::string text = "Kinds, found by content:";
  size_t width = text.size();
  for (const std::string& kind : import_kinds()) {
    if (width + 1 + kind.size() > kWidth) {
      text += "\n ";
      width = 1;
    }
    text += ' ';
    text += kind;
    width += 1 + kind.size();
  }
  return text;
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
        .one_value_each();
    flags.add_flag("--shapes", shapes_,
                   "keep what PyTorch's operators were called with");
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
    InterruptibleImport guard;
    options_.cancelled = &guard.cancelled();
    if (inputs_.size() == 1 && holds_trainer(inputs_.front())) {
      return import_trainer(guard, start);
    }
    Result<ImportResult> result = read();
    if (guard.signal() != 0) {
      tell("reprise import: interrupted, nothing written\n");
      return 128 + guard.signal();
    }
    if (!result) return pass(result.error());
    guard.writes(output_);
    if (Status written = write_import(*result, output_, existing_with(force_));
        !written)
      return pass(written.error());
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    print_import(result->files, output_, seconds.count(), format_);
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
    tell_of_repeats();
    if (shapes_) options_.readers = trace_readers_with_shapes();
    return {};
  }

  void tell_of_repeats() const {
    std::set<std::string> seen, told;
    for (const std::string& input : inputs_) {
      if (!seen.insert(input).second && told.insert(input).second)
        tell("reprise import: {}: named more than once, read once\n", input);
    }
  }

  /// What `reprise profile` left of our own trainer.
  Result<int> import_trainer(InterruptibleImport& guard,
                             std::chrono::steady_clock::time_point start) {
    guard.writes(output_);
    Result<GatheredProfile> gathered = gather_profile(
        inputs_.front(), output_,
        {.existing = existing_with(force_),
         .align_clocks = [](Trace& trace) { align_clocks(trace); }});
    if (!gathered) return pass(gathered.error());
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    print_import(gathered->files, output_, seconds.count(), format_);
    return kExitOk;
  }

  Result<ImportResult> read() const {
    ProgressLine line;
    return import_files(inputs_, options_, import_watcher(line));
  }

  std::vector<std::string> inputs_, ranks_;
  std::string output_;
  bool force_ = false, shapes_ = false;
  ImportOptions options_;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_import_command() {
  return std::make_unique<ImportCommand>();
}

}  // namespace reprise
