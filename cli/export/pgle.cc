// pgle: times of instructions for XLA's latency-hiding scheduler, as text of
// tensorflow.profiler.ProfiledInstructionsProto:
//   costs { name: "all-gather-start.1" cost_us: 7040.5 }
// Source: xla/service/profile_guided_latency_estimator.cc of openxla/xla.
#include <fmt/format.h>

#include <map>

#include "cli/export/export_target.h"
#include "data/io/json_text.h"
#include "data/number_text.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/estimates/instruction_estimates.h"

namespace reprise {
namespace {

/// The module that takes most of the device's time: a training step stands
/// among many small ones.
std::string largest_module(const std::vector<InstructionEstimate>& all) {
  std::map<std::string, int64_t> time_ns;
  for (const InstructionEstimate& each : all) {
    time_ns[each.module] += each.device_ns * each.executions;
  }
  std::string largest;
  for (const auto& [module, time] : time_ns) {
    if (largest.empty() || time > time_ns[largest]) largest = module;
  }
  return largest;
}

}  // namespace

Result<Artefact> make_pgle(const ExportRequest& request) {
  const Result<AlignedTrace> trace = AlignedTrace::read(request.file);
  if (!trace) return pass(trace.error());
  const std::vector<InstructionEstimate> all = estimate_instructions(*trace);
  if (all.empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: no device work in it names an HLO instruction; record "
                "with jax.profiler and import its xplane.pb",
                request.path);
  }
  const std::string module = largest_module(all);
  std::string costs;
  int64_t count = 0, collectives = 0;
  for (const InstructionEstimate& each : all) {
    if (each.module != module) continue;
    ++count;
    collectives += each.collective;
    costs += fmt::format("costs {{ name: {} cost_us: {} }}\n",
                         json_quoted(each.name),
                         static_cast<double>(each.device_ns) / 1e3);
  }
  const Provenance provenance = {
      .source = fmt::format("{} ({} ranks), module {}: {} instructions, {} of "
                            "them collectives",
                            request.path, trace->frame().ranks.size(), module,
                            count, collectives),
      .predicted =
          "nothing: XLA's scheduler decides by these times what overlaps.",
      .trust =
          "the names are those of the compiled module that was recorded: "
          "another version of XLA or of the program has others. Transfers are "
          "medians, waits taken out where all ranks were recorded.",
      .check =
          "the scheduler warns of instructions that the profile lacks "
          "(--xla_gpu_pgle_accuracy_checker=warn); the effect on a GPU has not "
          "been tested."};
  const std::string advice = fmt::format(
      "XLA_FLAGS=\"--xla_gpu_enable_latency_hiding_scheduler=true "
      "--xla_gpu_pgle_profile_file_or_directory_path=$PWD/pgle.pbtxt\"\n"
      "jaxlib 0.5 and newer, on GPUs; an older one ends on a flag that it does "
      "not know.\n{}",
      comment_of(provenance, ""));
  return Artefact{.files = {{"pgle.pbtxt", comment_of(provenance) + costs}},
                  .advice = advice};
}

}  // namespace reprise
