#include "data/program/lowered_program.h"

#include <filesystem>

#include "data/file.h"
#include "data/manifest/dataset.h"

namespace reprise {
namespace {

// Parses, checks and lowers; `name` is what errors call the program.
Result<LoweredProgram> lower_texts(LoweredProgram program,
                                   const std::string& name,
                                   const std::string& plan_path,
                                   const std::string& plan_text,
                                   int64_t ranks) {
  Result<Module> parsed = parse_hlo(program.program_text, name);
  if (!parsed) return pass(parsed.error());
  const Status fits = validate_manifest(program.manifest, *parsed);
  if (!fits) return pass(fits.error());
  const Status aliased = alias_state(program.manifest, &*parsed);
  if (!aliased) return pass(aliased.error());
  Result<InlinedModule> inlined = inline_calls(*parsed);
  if (!inlined) return pass(inlined.error(), name);
  program.module = std::move(*inlined);
  program.plan = identity_plan(program.module, ranks);
  if (!plan_path.empty() || !plan_text.empty()) {
    Result<Plan> plan =
        plan_path.empty() ? parse_plan(plan_text, name) : load_plan(plan_path);
    if (!plan) return pass(plan.error());
    program.plan = std::move(*plan);
  }
  if (program.plan.ranks != ranks) {
    return fail(
        ErrorKind::kInvalid, "{}: the plan is for {} ranks, the run has {}",
        plan_path.empty() ? name : plan_path, program.plan.ranks, ranks);
  }
  const Status valid = validate_plan(program.plan, program.module);
  if (!valid) return pass(valid.error(), plan_path.empty() ? name : plan_path);
  Result<Schedule> schedule = lower_schedule(program.module, program.plan);
  if (!schedule) {
    // The plan's groups may be at fault, or an op of the program.
    const bool plans = schedule.error().kind == ErrorKind::kInvalid;
    return pass(schedule.error(),
                plans && !plan_path.empty() ? plan_path : name);
  }
  program.schedule = std::move(*schedule);
  return program;
}

// Before ranks start. Errors: as BatchSource::open.
Status check_dataset(const Manifest& manifest) {
  if (!manifest.dataset || manifest.folders.none()) return {};
  const Result<DataFile> file =
      find_data_file(manifest.dataset->file, manifest.folders);
  if (!file) return pass(file.error());
  const Result<MappedFile> opened = MappedFile::open(file->path);
  if (!opened) return pass(opened.error());
  return BatchSource::check_size(*manifest.dataset, opened->bytes().size());
}

}  // namespace

Result<LoweredProgram> load_lowered_program(const std::string& program,
                                            const std::string& plan,
                                            int64_t ranks,
                                            const ProgramData& data) {
  LoweredProgram loaded;
  Result<std::string> text = read_text_file(program);
  if (!text) return pass(text.error());
  loaded.program_text = std::move(*text);
  Result<Manifest> manifest = load_manifest_for(program);
  if (!manifest) return pass(manifest.error());
  loaded.manifest = std::move(*manifest);
  const std::filesystem::path beside =
      std::filesystem::path(program).replace_extension(".json");
  const Result<std::string> manifest_text = read_text_file(beside.string());
  if (!manifest_text) return pass(manifest_text.error());
  loaded.manifest_text = *manifest_text;
  loaded.manifest.folders.data = data.folder;
  if (data.made_up) loaded.manifest.folders = {};
  if (loaded.manifest.ranks != ranks) {
    return fail(ErrorKind::kInvalid,
                "{}: exported for {} ranks, asked to run on {}", program,
                loaded.manifest.ranks, ranks);
  }
  Result<LoweredProgram> lowered =
      lower_texts(std::move(loaded), program, plan, "", ranks);
  if (!lowered) return lowered;
  if (Status there = check_dataset(lowered->manifest); !there)
    return pass(there.error(), "the dataset of " + beside.string());
  return lowered;
}

Result<LoweredProgram> lowered_program_of(const Trace& trace,
                                          const std::string& trace_path,
                                          const std::string& plan,
                                          const std::string& data_folder) {
  if (trace.program_text.empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: holds no program; only traces of `reprise train` do",
                trace_path);
  }
  LoweredProgram loaded;
  loaded.program_text = trace.program_text;
  loaded.manifest_text = trace.manifest_text;
  Result<Manifest> manifest =
      parse_manifest(trace.manifest_text, trace_path + ":manifest");
  if (!manifest) return pass(manifest.error());
  manifest->folders.data = data_folder;
  if (Status there = check_dataset(*manifest); !there)
    return pass(there.error(), "the dataset of " + trace_path);
  loaded.manifest = std::move(*manifest);
  const int64_t ranks = static_cast<int64_t>(trace.ranks.size());
  return lower_texts(std::move(loaded), trace_path, plan, trace.plan_text,
                     ranks);
}

Result<Schedule> lower_under(const LoweredProgram& program, const Plan& plan) {
  const Status valid = validate_plan(plan, program.module);
  if (!valid) return pass(valid.error());
  return lower_schedule(program.module, plan);
}

Result<std::string> materialize(const LoweredProgram& program,
                                const std::string& directory) {
  const std::string path = directory + "/program.hlo";
  for (const auto& [file, text] :
       {std::pair{path, &program.program_text},
        {directory + "/program.json", &program.manifest_text}}) {
    const Status written = write_file_atomically(file, *text);
    if (!written) return pass(written.error());
  }
  const Status written = write_file_atomically(directory + "/program.plan.json",
                                               print_plan(program.plan));
  if (!written) return pass(written.error());
  return path;
}

}  // namespace reprise
