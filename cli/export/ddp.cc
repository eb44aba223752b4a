// Three files: the plan as data, a Python module that reads it and hands
// DistributedDataParallel what its version takes, and the same lines to paste.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/export/export_target.h"
#include "data/number_text.h"
#include "data/plan/plan.h"
#include "optimizer/ddp/ddp_arguments.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// No text of a plan enters it: it reads the JSON beside it.
constexpr std::string_view kPython =
    R"python("""Applies the bucket plan in ddp_plan.json, which lies beside this file, to DistributedDataParallel.

    import reprise_ddp
    model = DistributedDataParallel(model, **reprise_ddp.kwargs())
    ...
    reprise_ddp.check(model)  # After the second step: are the buckets the planned ones?
"""

import inspect
import json
import pathlib

import torch.distributed
from torch.nn.parallel import DistributedDataParallel

PLAN = json.loads((pathlib.Path(__file__).parent / "ddp_plan.json").read_text())


def takes_list():
    """Whether this version of PyTorch takes a cap for each bucket."""
    return "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel).parameters


def kwargs():
    """Arguments for DistributedDataParallel: a cap a bucket, or the best single cap."""
    if takes_list():
        return {"bucket_cap_mb_list": PLAN["bucket_cap_mb_list"]}
    # Versions without the list keep a first bucket of 1 MiB beside any cap.
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = int(PLAN["bucket_cap_mb"] * 2**20)
    return {"bucket_cap_mb": PLAN["bucket_cap_mb"]}


def check(model):
    """Compares the buckets that DDP rebuilt after its first step with the planned ones.

    Returns True when they are the same, False when they differ (other gradients, another order of
    their readiness), None when this version of PyTorch does not tell or has not rebuilt them yet.
    """
    told = model._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
    if not told:
        return None
    planned = PLAN["bucket_bytes" if takes_list() else "single_cap_bucket_bytes"]
    return [int(size) for size in told.split(",")] == planned
)python";

std::string json_of(const Plan& plan, const DdpArguments& arguments) {
  const int64_t cap_bytes = plan.trace->single_cap_bytes;
  Json predicted = {{"bucket_cap_mb_list", plan.predicted->step_time_ns},
                    {"bucket_cap_mb", plan.trace->single_cap_step_time_ns}};
  Json baselines = Json::object();
  for (const auto& [name, time_ns] : plan.predicted->baselines) {
    baselines[name] = time_ns;
  }
  predicted["baselines"] = std::move(baselines);
  const Json json = {
      {"schema", "reprise.ddp/1"},
      {"trace_fingerprint", plan.trace->fingerprint},
      {"bucket_cap_mb_list", mebibytes(arguments.bucket_bytes)},
      {"bucket_cap_mb", static_cast<double>(cap_bytes) / (1 << 20)},
      {"bucket_bytes", arguments.bucket_bytes},
      {"single_cap_bucket_bytes", arguments.single_cap_bucket_bytes},
      {"predicted_step_time_ns", std::move(predicted)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// What people paste, and what each is predicted to give.
std::string lines_of(const Plan& plan, const DdpArguments& arguments) {
  const PlanPrediction& predicted = *plan.predicted;
  std::string text = fmt::format(
      "# Copy ddp_plan.json and reprise_ddp.py beside your script, then:\n"
      "import reprise_ddp\n"
      "model = DistributedDataParallel(model, **reprise_ddp.kwargs())\n\n"
      "# Or by hand. With bucket_cap_mb_list (new PyTorch), {} predicted:\n"
      "DistributedDataParallel(model, bucket_cap_mb_list={})\n"
      "# Without it, {} predicted:\n"
      "torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = {}\n"
      "DistributedDataParallel(model, bucket_cap_mb={})\n",
      time_text(predicted.step_time_ns),
      mebibytes(arguments.bucket_bytes).dump(),
      time_text(plan.trace->single_cap_step_time_ns),
      plan.trace->single_cap_bytes,
      static_cast<double>(plan.trace->single_cap_bytes) / (1 << 20));
  const auto usual = predicted.baselines.find("ddp");
  if (usual != predicted.baselines.end()) {
    text += fmt::format("# PyTorch's default, {} predicted: bucket_cap_mb=25\n",
                        time_text(usual->second));
  }
  return text;
}

}  // namespace

Result<Artefact> make_ddp(const ExportRequest& request) {
  const Result<BucketPlan> plan = load_bucket_plan(request.path, "ddp");
  if (!plan) return pass(plan.error());
  const Result<DdpArguments> arguments =
      ddp_arguments(plan->plan, request.path);
  if (!arguments) return pass(arguments.error());
  const std::string lines = lines_of(plan->plan, *arguments);
  return Artefact{.files = {{"ddp_plan.json", json_of(plan->plan, *arguments)},
                            {"reprise_ddp.py", std::string(kPython)},
                            {"README.txt", lines}},
                  .advice = lines};
}

}  // namespace reprise
