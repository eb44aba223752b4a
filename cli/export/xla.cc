// xla: a plan of a program as what XLA and JAX can be told: which all-reduces
// may be combined (combiner_key), options that leave the cutting to these keys,
// fusions, and the whole as a scheduled module, whose order XLA keeps.
//
// Source: openxla/xla, xla/side_effect_util.h and xla/debug_options_flags.cc;
// jax/experimental/xla_metadata.py. XLA:CPU's combiner does not look at keys.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/export/export_target.h"
#include "cli/export/scheduled_hlo.h"
#include "cli/export/torch_plan.h"
#include "data/collective/collective_names.h"
#include "data/hlo/hlo.h"
#include "data/hlo/instruction_place.h"
#include "data/manifest/manifest.h"
#include "data/number_text.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kXlaText =
    R"text(Buckets, fusions and order of a plan for XLA and JAX, from xla_plan.json beside this file.

    import reprise_xla
    grads = reprise_xla.psum(grads, "data")       # In the step, for jax.lax.psum(grads, "data").
    compiled = jax.jit(step).lower(...).compile(compiler_options=reprise_xla.compiler_options())
    print(reprise_xla.check(compiled.as_text()))

Keys of buckets take effect on GPUs where XLA knows combiner_key (jax-cuda13-pjrt 0.10.2 and newer); before that the
size of the largest bucket is the threshold of XLA's own combiner. scheduled.hlo is the step in the plan's order, for
run_hlo_module and hlo_runner_main (--xla_disable_all_hlo_passes), not for jax.jit.
)text";
constexpr std::string_view kXlaBody =
#include "cli/export/xla_module.inc"
    ;

struct PlannedProgram {
  InlinedModule module;
  Plan plan;
  OpGraph graph;
  PlanChoice choice;
  Schedule schedule;
};

/// Into `program`, as its graph borrows its module.
Status load(const ExportRequest& request, PlannedProgram& program) {
  Result<Plan> loaded = load_plan(request.path);
  if (!loaded) return pass(loaded.error());
  std::optional<Plan> plan = *std::move(loaded);
  if (plan->trace) {
    return fail(ErrorKind::kInvalid,
                "{}: the plan is of a trace; --as xla takes a plan of a "
                "program",
                request.path);
  }
  if (request.program.empty()) {
    return fail(ErrorKind::kInvalid,
                "--as xla needs the program that the plan is of: --program "
                "FILE.hlo");
  }
  const Result<Module> parsed = parse_hlo_file(request.program);
  if (!parsed) return pass(parsed.error());
  // Of a step with a manifest that says which outputs are state, plans are of
  // the program that has them in place.
  const Result<Manifest> manifest = load_manifest_for(request.program);
  Result<InlinedModule> inlined = inline_for(
      &plan, PlanUse::kGiven,
      [&](Arithmetic arithmetic) -> Result<InlinedModule> {
        Result<InlinedModule> made = inline_calls(*parsed, arithmetic);
        if (!made || !manifest) return made;
        const Status aliased = alias_state(*manifest, &*made);
        if (!aliased) return pass(aliased.error());
        return made;
      });
  if (!inlined) return pass(inlined.error(), request.program);
  program.module = *std::move(inlined);
  program.plan = *std::move(plan);
  if (Status sound = validate_plan(program.plan, program.module); !sound) {
    return pass(sound.error(), request.path);
  }
  Result<OpGraph> graph = build_op_graph(program.module);
  if (!graph) return pass(graph.error(), request.program);
  program.graph = *std::move(graph);
  Result<PlanChoice> choice = bind_plan(program.graph, program.plan);
  if (!choice) return pass(choice.error(), request.path);
  program.choice = *std::move(choice);
  Result<Schedule> schedule = lower_schedule(program.module, program.plan);
  if (!schedule) return pass(schedule.error(), request.program);
  program.schedule = *std::move(schedule);
  return {};
}

/// Where a person finds an instruction.
void add_place(const PlannedProgram& program, const Instruction& instruction,
               Json& json) {
  json["op_name"] = metadata_field(instruction, "op_name");
  json["source"] = source_line(program.module, instruction);
}

/// Members of all buckets: those of the plan, and each all-reduce that is in
/// none as one of its own.
std::vector<std::pair<std::string, std::vector<int32_t>>> buckets_of(
    const PlannedProgram& program) {
  std::vector<std::pair<std::string, std::vector<int32_t>>> buckets;
  std::vector<bool> seen(program.graph.slots.size());
  for (size_t at = 0; at < program.choice.buckets.size(); ++at) {
    const std::vector<int32_t>& slots = program.choice.buckets[at].slots;
    for (const int32_t slot : slots) seen[static_cast<size_t>(slot)] = true;
    buckets.emplace_back(bucket_name(program.graph, program.choice, at), slots);
  }
  for (size_t slot = 0; slot < seen.size(); ++slot) {
    const auto place = static_cast<int32_t>(slot);
    if (!seen[slot]) {
      buckets.push_back({slot_name(program.graph, place), {place}});
    }
  }
  return buckets;
}

Json bucket_json(const PlannedProgram& program, int64_t& largest_bytes) {
  Json buckets = Json::array();
  for (const auto& [key, slots] : buckets_of(program)) {
    Json members = Json::array();
    int64_t bytes = 0;
    for (const int32_t at : slots) {
      const CollectiveSlot& slot = program.graph.slots[static_cast<size_t>(at)];
      if (slot.kind != CollectiveKind::kAllReduce) continue;
      const Instruction& own = program.graph.at(slot.collective);
      const Shape& shape =
          own.shape.is_tuple()
              ? own.shape.elements[static_cast<size_t>(slot.operand)]
              : own.shape;
      Json member = {{"name", slot_name(program.graph, at)},
                     {"place", at},
                     {"type", name_of(shape.type)},
                     {"shape", shape.dimensions},
                     {"bytes", slot.bytes}};
      add_place(program, own, member);
      members.push_back(std::move(member));
      bytes += slot.bytes;
    }
    if (members.empty()) continue;
    largest_bytes = std::max(largest_bytes, bytes);
    buckets.push_back({{"key", key}, {"collectives", std::move(members)}});
  }
  return buckets;
}

/// Up to how many bytes of results XLA is to combine of a kind that has no
/// keys: those of the largest bucket of several, 0 without one; nothing where
/// the program has none of the kind.
void add_threshold(const PlannedProgram& program, CollectiveKind kind,
                   std::string_view option, Json& options) {
  const std::vector<CollectiveSlot>& slots = program.graph.slots;
  if (std::ranges::none_of(
          slots, [&](const CollectiveSlot& slot) { return slot.kind == kind; }))
    return;
  int64_t largest = 0;
  for (const ChosenBucket& bucket : program.choice.buckets) {
    int64_t bytes = 0;
    for (const int32_t slot : bucket.slots) {
      const CollectiveSlot& member = slots[static_cast<size_t>(slot)];
      if (member.kind == kind) bytes += member.output_bytes;
    }
    if (bucket.slots.size() > 1) largest = std::max(largest, bytes);
  }
  options[std::string(option)] = largest;
}

Json fusion_json(const PlannedProgram& program) {
  Json fusion = Json::array();
  for (size_t at = 0; at < program.choice.fusion.size(); ++at) {
    Json ops = Json::array();
    for (const InstructionId id : program.choice.fusion[at].ops) {
      Json op = {{"name", program.graph.at(id).name}};
      add_place(program, program.graph.at(id), op);
      ops.push_back(std::move(op));
    }
    fusion.push_back(
        {{"unit", program.plan.fusion[at].unit}, {"ops", std::move(ops)}});
  }
  return fusion;
}

Provenance provenance_of(const ExportRequest& request, const Plan& plan) {
  Provenance told;
  told.source =
      fmt::format("{}, a plan of {} for the program {} ({})", request.path,
                  plan.made_by.empty() ? "unknown tool" : plan.made_by,
                  request.program, plan.program_fingerprint);
  told.predicted = "nothing is stated.";
  if (plan.predicted) {
    told.predicted =
        fmt::format("a step of {}", time_text(plan.predicted->step_time_ns));
    const auto usual = plan.predicted->baselines.find("xla");
    if (usual != plan.predicted->baselines.end()) {
      told.predicted +=
          fmt::format(", by XLA's own rules {}", time_text(usual->second));
    }
    told.predicted += " with the kernels of reprise-train.";
  }
  told.trust =
      "that is of another compiler than XLA: only which all-reduces run as "
      "one, and in which order, and how large gathers and scatters that run "
      "as one may be, is told to XLA. It has not been tried on a GPU; "
      "XLA:CPU combines without looking at keys.";
  told.check =
      "reprise_xla.check(compiled.as_text()) is \"\", or names the first "
      "bucket "
      "that XLA did not make.";
  return told;
}

}  // namespace

Result<Artefact> make_xla(const ExportRequest& request) {
  PlannedProgram program;
  if (Status loaded = load(request, program); !loaded) {
    return pass(loaded.error());
  }
  int64_t largest_bytes = 0;
  Json buckets = bucket_json(program, largest_bytes);
  // Beyond any bucket: keys alone cut. A signed 64-bit option of XLA's.
  constexpr int64_t kUnbounded = int64_t{1} << 40;
  Json options = {{"xla_gpu_all_reduce_combine_threshold_bytes", kUnbounded},
                  {"xla_gpu_enable_latency_hiding_scheduler", true}};
  add_threshold(program, CollectiveKind::kAllGather,
                "xla_gpu_all_gather_combine_threshold_bytes", options);
  add_threshold(program, CollectiveKind::kReduceScatter,
                "xla_gpu_reduce_scatter_combine_threshold_bytes", options);
  const Json plan = {{"options", std::move(options)},
                     {"largest_bucket_bytes", largest_bytes},
                     {"buckets", std::move(buckets)},
                     {"fusion", fusion_json(program)},
                     {"order", program.plan.order}};
  const Provenance told = provenance_of(request, program.plan);
  Artefact artefact =
      torch_artefact("xla", told, plan, kXlaText, kXlaBody.substr(1),
                     fmt::format("{}\n", kXlaText));
  const Module scheduled = scheduled_module(program.module, program.graph,
                                            program.choice, program.schedule);
  artefact.files.push_back(
      {"scheduled.hlo", comment_of(told, "// ") + print_hlo(scheduled)});
  return artefact;
}

}  // namespace reprise
