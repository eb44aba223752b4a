#include "data/program/lowered_program.h"

#include <filesystem>
#include <optional>

#include "data/file.h"
#include "data/hlo/declared_type.h"
#include "data/manifest/dataset.h"
#include "data/manifest/state_file.h"
#include "data/program/dump_folder.h"
#include "data/program/refusals.h"

namespace reprise {
namespace {

/// A plan to lower under, and what errors call it.
struct PlanSource {
  std::optional<Plan> plan;  ///< None: the identity plan.
  PlanUse use = PlanUse::kGiven;
  std::string name;
};

/// The plan of file `path`, or else `text` of `owner`, a trace, if there is
/// one.
Result<PlanSource> plan_source(const std::string& path, const std::string& text,
                               const std::string& owner) {
  PlanSource source{.plan = {},
                    .use = text.empty() ? PlanUse::kGiven : PlanUse::kRan,
                    .name = path.empty() ? owner : path};
  if (path.empty() && text.empty()) return source;
  Result<Plan> plan = path.empty() ? parse_plan(text, owner) : load_plan(path);
  if (!plan) return pass(plan.error());
  source.plan = *std::move(plan);
  return source;
}

Status same_ranks(const Plan& plan, int64_t ranks, const std::string& path) {
  if (plan.ranks == ranks) return {};
  return fail(ErrorKind::kInvalid,
              "{}: the plan is for {} ranks, the run has {}", path, plan.ranks,
              ranks);
}

/// Inlined, and with the manifest's state in place.
Result<InlinedModule> inline_program(const Module& parsed,
                                     const Manifest& manifest,
                                     const std::string& name,
                                     Arithmetic arithmetic) {
  Result<InlinedModule> inlined = inline_calls(parsed, arithmetic);
  if (!inlined) return pass(inlined.error(), name);
  const Status fits = validate_manifest(manifest, *inlined);
  if (!fits) return pass(fits.error());
  const Status aliased = alias_state(manifest, &*inlined);
  if (!aliased) return pass(aliased.error());
  return inlined;
}

// Parses, checks and lowers; `name` is what errors call the program.
Result<LoweredProgram> lower_texts(LoweredProgram program,
                                   const std::string& name, PlanSource source,
                                   int64_t ranks, LoweredFor device) {
  Result<Module> parsed = parse_hlo(program.program_text, name);
  if (!parsed) return pass(parsed.error());
  Result<InlinedModule> inlined =
      inline_for(&source.plan, source.use, [&](Arithmetic arithmetic) {
        return inline_program(*parsed, program.manifest, name, arithmetic);
      });
  if (!inlined) return pass(inlined.error());
  program.module = std::move(*inlined);
  program.module.device = device;
  program.plan = source.plan ? *std::move(source.plan)
                             : identity_plan(program.module, ranks);
  if (Status same = same_ranks(program.plan, ranks, source.name); !same)
    return pass(same.error());
  const Status valid = validate_plan(program.plan, program.module);
  if (!valid) return pass(valid.error(), source.name);
  Result<Schedule> schedule = lower_schedule(program.module, program.plan);
  if (!schedule) {
    // The plan's groups may be at fault, or ops of the program: then all.
    const bool plans = schedule.error().kind == ErrorKind::kInvalid;
    if (Status runs = plans ? Status() : check_runs(program.module, ranks);
        !runs)
      return pass(runs.error(), name);
    return pass(schedule.error(), plans ? source.name : name);
  }
  program.schedule = std::move(*schedule);
  const Status runs = refuse(refusals_of(program.module, program.schedule));
  if (!runs) return pass(runs.error(), name);
  return program;
}

// Before ranks start. Errors: as BatchSource and InitialState.
Status check_data(const LoweredProgram& program, const std::string& name,
                  const std::string& state) {
  const std::string dataset = "the dataset of " + name;
  const Manifest& manifest = program.manifest;
  const Computation& entry = program.module.entry_computation();
  const Result<InitialState> initial =
      InitialState::open(manifest, entry, state);
  if (!initial) return pass(initial.error(), name);
  std::optional<BatchSource> source;
  if (manifest.dataset) {
    Result<BatchSource> opened =
        BatchSource::open(*manifest.dataset, manifest.ranks, manifest.folders);
    if (!opened) return pass(opened.error(), dataset);
    source = *std::move(opened);
  }
  const std::vector<const Instruction*> parameters = parameters_of(entry);
  for (const ManifestParameter& parameter : manifest.parameters) {
    if (parameter.role != ParameterRole::kBatch) continue;
    if (!source) {
      return fail(ErrorKind::kInvalid, "{}: '{}' is a batch without a dataset",
                  name, parameter.name);
    }
    const Status fits = source->check(
        parameter.field,
        declared_elements(*parameters[static_cast<size_t>(parameter.index)]));
    if (!fits) return pass(fits.error(), dataset);
  }
  return {};
}

}  // namespace

LoweredFor lowered_for(std::string_view device) {
  return device == "cuda" ? LoweredFor::kGpu : LoweredFor::kProcessor;
}

Result<LoweredProgram> load_lowered_program(const std::string& program,
                                            const std::string& plan,
                                            int64_t ranks,
                                            const ProgramData& data,
                                            LoweredFor device) {
  LoweredProgram loaded;
  Result<std::string> text = read_program_text(program);
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
                "{}: its manifest is for {} ranks, asked to run on {}; use -n "
                "{}, or export it for {}",
                program, loaded.manifest.ranks, ranks, loaded.manifest.ranks,
                ranks);
  }
  Result<PlanSource> source = plan_source(plan, "", program);
  if (!source) return pass(source.error());
  Result<LoweredProgram> lowered = lower_texts(
      std::move(loaded), program, *std::move(source), ranks, device);
  if (!lowered && lowered.error().kind == ErrorKind::kUnsupported) {
    const std::string other = sibling_that_runs(program);
    if (!other.empty()) lowered.error().message += "\n" + other + " runs";
  }
  if (!lowered) return lowered;
  if (Status there = check_data(*lowered, beside.string(), data.state); !there)
    return pass(there.error());
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
  loaded.manifest = std::move(*manifest);
  const int64_t ranks = static_cast<int64_t>(trace.ranks.size());
  Result<PlanSource> source = plan_source(plan, trace.plan_text, trace_path);
  if (!source) return pass(source.error());
  Result<LoweredProgram> lowered =
      lower_texts(std::move(loaded), trace_path, *std::move(source), ranks,
                  trace.ranks.empty() ? LoweredFor::kProcessor
                                      : lowered_for(trace.ranks[0].device));
  if (!lowered || data_folder.empty()) return lowered;
  if (Status there = check_data(*lowered, trace_path, ""); !there)
    return pass(there.error());
  return lowered;
}

Result<Schedule> lower_under(const LoweredProgram& program, const Plan& plan) {
  const Status valid = validate_plan(plan, program.module);
  if (!valid) return pass(valid.error());
  return lower_schedule(program.module, plan);
}

Result<LoweredProgram> lower_replanned(const LoweredProgram& recorded,
                                       const std::string& trace_path, Plan plan,
                                       const std::string& plan_path) {
  LoweredProgram replanned = recorded;
  if (plan.program_fingerprint != recorded.plan.program_fingerprint) {
    return lower_texts(
        std::move(replanned), trace_path,
        {.plan = std::move(plan), .use = PlanUse::kGiven, .name = plan_path},
        recorded.plan.ranks, recorded.module.device);
  }
  if (Status same = same_ranks(plan, recorded.plan.ranks, plan_path); !same)
    return pass(same.error());
  Result<Schedule> schedule = lower_under(recorded, plan);
  if (!schedule) {
    // The plan's groups may be at fault, or an op of the program.
    const bool plans = schedule.error().kind == ErrorKind::kInvalid;
    return pass(schedule.error(), plans ? plan_path : trace_path);
  }
  replanned.plan = std::move(plan);
  replanned.schedule = *std::move(schedule);
  return replanned;
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
