// ddp: the plan as data, a Python module that reads it, hands
// DistributedDataParallel what its version takes and checks the first rerun,
// and the same lines to paste.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/export/export_target.h"
#include "cli/export/torch_plan.h"
#include "data/io/json_tree.h"
#include "data/number_text.h"
#include "optimizer/ddp/ddp_arguments.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// No text of a plan enters it: it reads the JSON beside it.
constexpr std::string_view kDdpModule =
#include "cli/export/ddp_module.inc"
    ;

Json predictions_of(const Plan& plan) {
  Json baselines = Json::object();
  for (const auto& [name, time_ns] : plan.predicted->baselines) {
    baselines[name] = time_ns;
  }
  return {{"bucket_cap_mb_list", plan.predicted->step_time_ns},
          {"bucket_cap_mb", plan.trace->single_cap_step_time_ns},
          {"baselines", std::move(baselines)}};
}

/// What people paste, and what each is predicted to give.
std::string lines_of(const Plan& plan, const DdpArguments& arguments,
                     const Provenance& provenance) {
  const PlanPrediction& predicted = *plan.predicted;
  std::string text = fmt::format(
      "# Copy ddp_plan.json and reprise_ddp.py beside your script, then:\n"
      "import reprise_ddp\n"
      "model = reprise_ddp.wrap(model)  # For "
      "DistributedDataParallel(model)\n\n"
      "# Or by hand. With bucket_cap_mb_list (PyTorch 2.11), {} predicted:\n"
      "DistributedDataParallel(model, bucket_cap_mb_list={})\n"
      "# Without it, {} predicted:\n"
      "torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = {}\n"
      "DistributedDataParallel(model, bucket_cap_mb={})\n",
      time_text(predicted.step_time_ns),
      json_text(mebibytes(arguments.bucket_bytes)),
      time_text(plan.trace->single_cap_step_time_ns),
      plan.trace->single_cap_bytes,
      static_cast<double>(plan.trace->single_cap_bytes) / (1 << 20));
  const auto usual = predicted.baselines.find("ddp");
  if (usual != predicted.baselines.end()) {
    text += fmt::format("# PyTorch's default, {} predicted: bucket_cap_mb=25\n",
                        time_text(usual->second));
  }
  return text + "\n" + comment_of(provenance);
}

}  // namespace

Result<Artefact> make_ddp(const ExportRequest& request) {
  const Result<BucketPlan> plan = load_bucket_plan(request.path, "ddp");
  if (!plan) return pass(plan.error());
  const Result<DdpArguments> arguments =
      ddp_arguments(plan->plan, request.path);
  if (!arguments) return pass(arguments.error());
  const Provenance provenance =
      provenance_of(*plan,
                    "wrap() and watch() warn on rank 0 with the first bucket "
                    "that differs, in "
                    "the third step; `reprise verify` sees it in a trace.");
  Json json = {
      {"schema", "reprise.ddp/1"},
      {"reprise", json_of(provenance)},
      {"trace_fingerprint", plan->trace().fingerprint},
      {"bucket_cap_mb_list", mebibytes(arguments->bucket_bytes)},
      {"bucket_cap_mb",
       static_cast<double>(plan->trace().single_cap_bytes) / (1 << 20)},
      {"bucket_bytes", arguments->bucket_bytes},
      {"single_cap_bucket_bytes", arguments->single_cap_bucket_bytes},
      {"predicted_step_time_ns", predictions_of(plan->plan)}};
  const Result<Json> members = torch_plan(*plan);
  if (members) json.update(*members);
  const std::string lines = lines_of(plan->plan, *arguments, provenance);
  return Artefact{.files = {{"ddp_plan.json", pretty(json)},
                            {"reprise_ddp.py", std::string(kDdpModule)},
                            {"README.txt", lines}},
                  .advice = lines};
}

}  // namespace reprise
