// XLA names dumps module_NNNN.NAME.STAGE: NNNN counts modules, of which most
// are small conversions beside the step; STAGE is before_optimizations,
// DEVICE_after_optimizations, or NNNN.PIPELINE.after_PASS.before_PASS.
#include "data/program/dump_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/hlo/proto/hlo_proto.h"
#include "data/manifest/infer.h"
#include "data/plan/plan.h"
#include "data/schedule/schedule.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// What of a name tells its stage, the best to run first.
struct Stage {
  std::string_view pattern, words;
};
constexpr std::array<Stage, 6> kStages = {{
    {".HLO_passes_through_layout_assignment.after_dot_decomposer.",
     "after dot_decomposer, before layouts are assigned"},
    {".HLO_passes_through_layout_assignment.",
     "the end of the passes before layouts are assigned"},
    {".after_spmd-partitioning.", "after partitioning"},
    {".spmd-partitioner.", "the end of the partitioner"},
    {".before_optimizations", "before optimizations"},
    {"after_optimizations", "after optimizations"},
}};

struct DumpFile {
  std::string path;
  std::string module;  ///< `module_0016`.
  size_t stage = 0;
};

std::optional<DumpFile> dump_file(const fs::path& path) {
  constexpr std::string_view kPrefix = "module_";
  const std::string name = path.filename().string();
  DumpFile file;
  file.path = path.string();
  std::string_view stem = name;
  if (stem.ends_with(".hlo.pb")) {
    stem.remove_suffix(std::string_view(".hlo.pb").size());
  } else if (stem.ends_with(".txt")) {
    stem.remove_suffix(std::string_view(".txt").size());
  } else {
    return std::nullopt;
  }
  const size_t dot = stem.find('.');
  if (!stem.starts_with(kPrefix) || dot == std::string_view::npos)
    return std::nullopt;
  file.module = stem.substr(0, dot);
  const bool ends = stem.ends_with("before_optimizations") ||
                    stem.ends_with("after_optimizations");
  const bool is_pass = stem.find(".after_") != std::string_view::npos &&
                       stem.find(".before_") != std::string_view::npos;
  if (!ends && !is_pass) return std::nullopt;
  for (const Stage& stage : kStages) {
    if (stem.find(stage.pattern) != std::string_view::npos) break;
    ++file.stage;
  }
  if (file.stage == kStages.size()) return std::nullopt;
  return file;
}

/// Dumps of a folder, by name.
std::vector<DumpFile> dumps_in(const fs::path& folder) {
  std::vector<DumpFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (auto file = dump_file(entry.path())) files.push_back(*std::move(file));
  }
  std::sort(
      files.begin(), files.end(),
      [](const DumpFile& a, const DumpFile& b) { return a.path < b.path; });
  return files;
}

/// Of one module, the last file of each stage, the best stage first. Protos
/// sort before the texts beside them, so a text is taken where there is one.
std::vector<DumpFile> stages_of(const std::vector<DumpFile>& files,
                                const std::string& module) {
  std::map<size_t, DumpFile> last;
  for (const DumpFile& file : files) {
    if (file.module == module) last[file.stage] = file;
  }
  std::vector<DumpFile> stages;
  stages.reserve(last.size());
  for (auto& [stage, file] : last) stages.push_back(std::move(file));
  return stages;
}

bool runs(const std::string& path) {
  const Result<Module> module = read_hlo_file(path);
  if (!module) return false;
  const Result<InlinedModule> inlined = inline_calls(*module);
  return inlined &&
         lower_schedule(*inlined, identity_plan(*inlined, ranks_of(*inlined)));
}

Result<std::string> read_text(const std::string& path,
                              const HloProtoOptions& options) {
  Result<std::string> bytes = read_text_file(path, starts_like_hlo_proto);
  if (!bytes || !starts_like_hlo_proto(*bytes)) return bytes;
  return hlo_proto_text(*bytes, path, options);
}

/// How many instructions a dump has, whose lines are `name = …`; a constant's
/// further lines are not. None of what cannot be read.
size_t instruction_count(const std::string& path) {
  const Result<std::string> text = read_text(path, {.max_literal_elements = 0});
  if (!text) return 0;
  size_t count = 0;
  for (size_t at = 0; (at = text->find(" = ", at)) != text->npos; ++count)
    at = text->find('\n', at);
  return count;
}

/// The stages of the module that has the most instructions, by the best stage
/// of each; none in a folder without dumps.
std::vector<DumpFile> stages_of_largest(const std::vector<DumpFile>& files) {
  std::vector<DumpFile> largest;
  size_t most = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i > 0 && files[i].module == files[i - 1].module) continue;
    std::vector<DumpFile> stages = stages_of(files, files[i].module);
    const size_t count = instruction_count(stages.front().path);
    if (!largest.empty() && count <= most) continue;
    most = count;
    largest = std::move(stages);
  }
  return largest;
}

}  // namespace

Result<std::string> read_program_text(const std::string& path) {
  return read_text(path, {.max_literal_elements = int64_t{1} << 40});
}

Result<ChosenProgram> choose_program(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return ChosenProgram{path, ""};
  const std::vector<DumpFile> stages = stages_of_largest(dumps_in(path));
  if (stages.empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: a folder without dumps of XLA (module_NNNN.NAME.….txt, by "
                "--xla_dump_to=DIR --xla_dump_hlo_as_text)",
                path);
  }
  const auto found =
      std::find_if(stages.begin(), stages.end(),
                   [](const DumpFile& file) { return runs(file.path); });
  const DumpFile& file = found == stages.end() ? stages.front() : *found;
  return ChosenProgram{
      file.path,
      fmt::format("{}, the largest module{}", kStages[file.stage].words,
                  found == stages.end() ? "; none of it runs" : "")};
}

std::string sibling_that_runs(const std::string& path) {
  const std::optional<DumpFile> self = dump_file(path);
  if (!self) return {};
  const fs::path folder = fs::absolute(path).parent_path();
  for (const DumpFile& file : stages_of(dumps_in(folder), self->module)) {
    if (fs::path(file.path).filename() == fs::path(path).filename()) continue;
    if (runs(file.path)) return file.path;
  }
  return {};
}

}  // namespace reprise
