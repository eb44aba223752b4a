// Three files: the plan as data, a Python module that reads it and hands
// DistributedDataParallel what its version takes, and the same lines to paste.
#include "cli/export_ddp.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "data/file.h"
#include "data/io/printable_text.h"
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

Status invalid(const std::string& path, const std::string& what) {
  return fail(ErrorKind::kInvalid,
              "{}: {}; --as ddp takes a plan that `reprise optimize` made from "
              "an imported PyTorch trace",
              path, what);
}

Json mebibytes(const std::vector<int64_t>& sizes) {
  Json all = Json::array();
  for (const int64_t bytes : sizes) {
    all.push_back(static_cast<double>(bytes) / (1 << 20));  // Exact.
  }
  return all;
}

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

Status write_files(const std::string& directory, const std::string& json,
                   const std::string& lines, bool force) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return fail(ErrorKind::kIo, "{}: {}", directory, error.message());
  }
  const std::pair<std::string, std::string_view> files[] = {
      {directory + "/ddp_plan.json", json},
      {directory + "/reprise_ddp.py", kPython},
      {directory + "/README.txt", lines}};
  for (const auto& [path, text] : files) {
    if (Status writable = check_output(path, force); !writable) return writable;
  }
  for (const auto& [path, text] : files) {
    if (Status written =
            write_file_atomically(path, text, existing_with(force));
        !written) {
      return written;
    }
  }
  return {};
}

}  // namespace

Status export_ddp(const std::string& plan_path, const std::string& output,
                  bool force) {
  const Result<Plan> plan = load_plan(plan_path);
  if (!plan) return pass(plan.error());
  if (!plan->trace) return invalid(plan_path, "the plan is of a program");
  if (!plan->predicted || plan->trace->single_cap_bytes <= 0) {
    return invalid(plan_path, "the plan states no prediction or no single cap");
  }
  const Result<DdpArguments> arguments = ddp_arguments(*plan, plan_path);
  if (!arguments) return pass(arguments.error());
  const std::string json = json_of(*plan, *arguments);
  const std::string lines = lines_of(*plan, *arguments);
  if (output == "-") {
    write_out(printable_json(json));
    return {};
  }
  const Status written =
      output.ends_with(".json")
          ? write_file_atomically(output, json, existing_with(force))
          : write_files(output, json, lines, force);
  if (written) tell("wrote {}\n\n{}", output, lines);
  return written;
}

}  // namespace reprise
