// deepspeed, megatron, dpro: tools that take one size for all buckets, or the
// buckets as lists of tensors in files of their own.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/export/export_target.h"
#include "cli/export/torch_plan.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// A plan's best single cap, in elements.
struct SingleCap {
  Provenance provenance;
  int64_t elements = 0;
};

Result<SingleCap> single_cap(const ExportRequest& request,
                             const std::string& target,
                             const std::string& check) {
  const Result<BucketPlan> plan = load_bucket_plan(request.path, target);
  if (!plan) return pass(plan.error());
  const Result<int64_t> elements =
      elements_in(*plan, plan->trace().single_cap_bytes);
  if (!elements) return pass(elements.error());
  SingleCap cap{.provenance = provenance_of(*plan, check, true),
                .elements = *elements};
  cap.provenance.predicted +=
      " That is of DistributedDataParallel with one cap for all buckets, the "
      "nearest that " +
      target + " can be told.";
  return cap;
}

}  // namespace

Result<Artefact> make_deepspeed(const ExportRequest& request) {
  const Result<SingleCap> cap = single_cap(
      request, "deepspeed",
      "DeepSpeed prints its configuration at the start: reduce_bucket_size is "
      "this one.");
  if (!cap) return pass(cap.error());
  // DeepSpeed refuses what it does not know within zero_optimization alone.
  const Json patch = {{"reprise", json_of(cap->provenance)},
                      {"zero_optimization",
                       {{"reduce_bucket_size", cap->elements},
                        {"allgather_bucket_size", cap->elements},
                        {"overlap_comm", true}}}};
  return Artefact{
      .files = {{"deepspeed_patch.json", pretty(patch)}},
      .advice = fmt::format(
          "Merge it into your ds_config.json (RFC 7396; sizes are elements):\n"
          "  jq -s '.[0] * .[1]' ds_config.json deepspeed_patch.json\n"
          "DeepSpeed 0.9 and newer, ZeRO stages 1 to 3.\n{}",
          comment_of(cap->provenance, ""))};
}

Result<Artefact> make_megatron(const ExportRequest& request) {
  const Result<SingleCap> cap =
      single_cap(request, "megatron",
                 "Megatron logs \"Number of buckets for gradient all-reduce / "
                 "reduce-scatter\" and the parameters of each.");
  if (!cap) return pass(cap.error());
  const std::string text = fmt::format(
      "{}# Megatron-Core 0.9 and newer. Sizes are parameters, not bytes:\n"
      "#   . ./megatron_arguments.sh; torchrun ... pretrain_gpt.py ... "
      "$REPRISE_MEGATRON_ARGUMENTS\n"
      "REPRISE_MEGATRON_ARGUMENTS=\"--ddp-bucket-size {} "
      "--overlap-grad-reduce\"\n",
      comment_of(cap->provenance), cap->elements);
  return Artefact{.files = {{"megatron_arguments.sh", text}}, .advice = text};
}

Result<Artefact> make_dpro(const ExportRequest& request) {
  const Result<BucketPlan> plan = load_bucket_plan(request.path, "dpro");
  if (!plan) return pass(plan.error());
  const Provenance provenance = provenance_of(
      *plan, "dPRO's own replay of the mapping, or a timeline of its Horovod.");
  Json mapping = Json::array();
  for (const Bucket& bucket : plan->plan.buckets) {
    std::string ids;
    for (const std::string& name : bucket.collectives) {
      // Of a DDP plan "gradient.3", of a Horovod plan the tensor's own name.
      constexpr std::string_view kOurs = "gradient.";
      ids += ids.empty() ? "" : "+";
      ids += name.starts_with(kOurs) ? name.substr(kOurs.size()) : name;
    }
    mapping.push_back(std::move(ids));
  }
  const Json json = {{"mapping", std::move(mapping)}};
  return Artefact{
      .files = {{"tensor_fusion_grp_mapping.json", pretty(json)},
                {"tensor_grp.json", pretty(json)},
                {"README.txt", comment_of(provenance, "")}},
      .advice = "The fusion groups of dPRO's Horovod, by tensors' ids.\n" +
                comment_of(provenance, "")};
}

}  // namespace reprise
