// inductor, fx-buckets, fsdp2, horovod: the buckets as other ways of training
// with PyTorch take them. A recording knows gradients by shape and order, so
// modules find their names in the user's model when they are called.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/export/export_target.h"
#include "cli/export/torch_plan.h"

namespace reprise {
namespace {

constexpr std::string_view kParameters =
#include "cli/export/parameters.inc"
    ;

constexpr std::string_view kInductorText =
    R"text(Buckets of all-reduces for torch.compile, from inductor_plan.json beside this file.

    import reprise_inductor
    reprise_inductor.apply()  # Before the first step is compiled.

PyTorch 2.10 and newer. Inductor fuses neighbouring all-reduces of a compiled graph until the next one would pass the
bucket's size; sizes count in the order of the graph, which is that of readiness where backward is compiled as a whole.
Releases up to 2.15 ask for the size of the first bucket alone: these get the best single cap.
)text";
constexpr std::string_view kInductorBody = R"python(
def takes_list():
    """Whether this Inductor asks for the size of each bucket, and not of the first alone."""
    import inspect
    from torch._inductor.fx_passes import bucketing
    return inspect.getsource(bucketing.greedy_bucket_collective_by_mb).count("bucket_cap_mb_by_bucket_idx(") > 1


def apply():
    """Sets Inductor's options. Raises RuntimeError where this PyTorch has none for all-reduces."""
    from torch._inductor import config
    for name in ("bucket_all_reduces_fx", "bucket_all_reduces_fx_bucket_size_determinator"):
        if not hasattr(config, name):
            raise RuntimeError(f"reprise: this PyTorch's Inductor has no {name}: 2.10 or newer is needed")
    sizes = PLAN["bucket_mb"] if takes_list() else [PLAN["single_cap_mb"]]
    config.bucket_all_reduces_fx = "all"
    config.bucket_all_reduces_fx_bucket_size_determinator = lambda bucket: sizes[min(bucket, len(sizes) - 1)]
)python";

constexpr std::string_view kFxText =
    R"text(Buckets by names of submodules for Inductor's manual_overlap_bucketing, from fx_buckets_plan.json beside this file.

    import reprise_fx_buckets
    from torch._inductor.fx_passes.overlap_manual_scheduling import manual_overlap_bucketing
    manual_overlap_bucketing(graph_module, reprise_fx_buckets.module_bucket_plans(model))

PyTorch 2.10 and newer (SimpleFSDP, torchtitan's graph trainer).
)text";
constexpr std::string_view kFxBody = R"python(

def module_bucket_plans(model):
    """Lists of submodules' names, one a bucket, in the order of the forward pass; print them to paste them."""
    return units(model)
)python";

constexpr std::string_view kFsdpText =
    R"text(Groups of submodules for FSDP2, from fsdp2_plan.json beside this file.

    import reprise_fsdp2
    model = reprise_fsdp2.apply(model, mesh=mesh)  # For fully_shard(model, mesh=mesh).

Each planned bucket is one group: one all-gather before its forward and backward, one reduce-scatter behind it; each
prefetches its neighbour. PyTorch 2.6 and newer.
)text";
constexpr std::string_view kFsdpBody = R"python(

def apply(model, prefetch=True, **arguments):
    """Shards groups as planned, then the rest of the model; `arguments` are fully_shard's. Returns the model."""
    from torch.distributed.fsdp import fully_shard
    groups = units(model)
    for names in groups:
        modules = [model.get_submodule(name) for name in names]
        fully_shard(modules if len(modules) > 1 else modules[0], **arguments)
    fully_shard(model, **arguments)
    firsts = [model.get_submodule(names[0]) for names in groups]
    if prefetch:
        for this, following in zip(firsts, firsts[1:]):
            this.set_modules_to_forward_prefetch([following])
            following.set_modules_to_backward_prefetch([this])
    return model


def groups_of(model):
    """Names of the parameters of each group that FSDP2 made, the model's own last."""
    from torch.distributed.fsdp import FSDPModule
    names = {id(each): name for name, each in model.named_parameters()}
    found = []
    for module in model.modules():
        if isinstance(module, FSDPModule):
            state = module._get_fsdp_state()
            groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
            for group in filter(None, groups):
                members = sorted(names.get(id(each.sharded_param), "?") for each in group.fsdp_params)
                if members not in found:
                    found.append(members)
    return found


def check(model):
    """Whether FSDP2's groups are the planned ones: "" if so, else the first that is not, in a sentence."""
    made, own = groups_of(model), {name for name, _ in model.named_parameters()}
    for place, names in enumerate(units(model)):
        planned = sorted(name for name in own if any(name.startswith(unit + ".") for unit in names))
        if planned not in made:
            return f"group {place} ({names[0]}) is not one that FSDP2 made"
    return ""
)python";

constexpr std::string_view kHorovodText =
    R"text(Groups of gradients for Horovod, from horovod_plan.json beside this file.

    import reprise_horovod
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         groups=reprise_horovod.groups(model))

Horovod 0.21 and newer. environment.sh keeps Horovod from fusing groups further; source it before horovodrun.
)text";
constexpr std::string_view kHorovodBody = R"python(

def groups(model):
    """Lists of parameters, one a bucket, in the order of readiness."""
    found = parameters(model)
    return [[found[place][1] for place in bucket] for bucket in PLAN["buckets"]]
)python";

/// The prediction is of eager DDP: say what else differs.
Provenance qualified(const BucketPlan& plan, const std::string& check,
                     const std::string& caution) {
  Provenance provenance = provenance_of(plan, check);
  provenance.predicted +=
      " That is of DistributedDataParallel in eager mode: " + caution;
  return provenance;
}

Result<Artefact> make_module(const ExportRequest& request,
                             const std::string& name, std::string_view text,
                             std::string_view body, const std::string& check,
                             const std::string& caution) {
  const Result<BucketPlan> plan = load_bucket_plan(request.path, name);
  if (!plan) return pass(plan.error());
  const Result<nlohmann::ordered_json> members = torch_plan(*plan);
  if (!members) return pass(members.error());
  const Provenance provenance = qualified(*plan, check, caution);
  return torch_artefact(name, provenance, *members, text,
                        std::string(kParameters.substr(1)) + std::string(body),
                        fmt::format("{}\n", text));
}

}  // namespace

Result<Artefact> make_inductor(const ExportRequest& request) {
  const Result<BucketPlan> plan = load_bucket_plan(request.path, "inductor");
  if (!plan) return pass(plan.error());
  std::map<std::string, int64_t> bytes;
  for (const PlannedGradient& each : plan->trace().gradients) {
    bytes[each.name] = each.bytes;
  }
  std::vector<int64_t> sizes;
  for (const Bucket& bucket : plan->plan.buckets) {
    int64_t& size = sizes.emplace_back(0);
    for (const std::string& name : bucket.collectives) size += bytes[name];
  }
  const Provenance provenance = qualified(
      *plan,
      "the compiled graph (TORCH_LOGS=output_code) has one all_reduce a bucket "
      "of several gradients.",
      "compiled kernels are ready at other times.");
  return torch_artefact(
      "inductor", provenance,
      {{"bucket_mb", mebibytes(sizes)},
       {"single_cap_mb", mebibytes({plan->trace().single_cap_bytes}).front()}},
      kInductorText, kInductorBody.substr(1),
      fmt::format("{}\n", kInductorText));
}

Result<Artefact> make_fx_buckets(const ExportRequest& request) {
  return make_module(
      request, "fx_buckets", kFxText, kFxBody,
      "the graph that comes back has one bucketed collective a list.",
      "all-gathers of parameters were not in the recording.");
}

Result<Artefact> make_fsdp2(const ExportRequest& request) {
  return make_module(
      request, "fsdp2", kFsdpText, kFsdpBody,
      "reprise_fsdp2.check(model) is \"\", or names the first group that "
      "differs.",
      "FSDP2's all-gathers of parameters were not in the recording.");
}

Result<Artefact> make_horovod(const ExportRequest& request) {
  Result<Artefact> artefact = make_module(
      request, "horovod", kHorovodText, kHorovodBody,
      "in HOROVOD_TIMELINE=FILE, imported, grouped_allreduce.NAME_1ofN to NofN "
      "of a group of N show the same transfer each, and no other does.",
      "Horovod's cycle adds up to a millisecond to each group.");
  if (!artefact) return artefact;
  artefact->files.push_back(
      {"environment.sh",
       "# Groups stay as planned, and are not fused further.\n"
       "export HOROVOD_DISABLE_GROUP_FUSION=1\n"
       "export HOROVOD_CYCLE_TIME=1  # Milliseconds, its default.\n"});
  return artefact;
}

}  // namespace reprise
