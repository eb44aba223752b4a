#include "cli/export/export_target.h"

namespace reprise {
namespace {

constexpr ExportTarget kTargets[] = {
    {.name = "pge", .of_trace = true, .make = make_pge},
    {.name = "pgle", .of_trace = true, .make = make_pgle},
    {.name = "nccl-tuner", .of_trace = true, .make = make_nccl_tuner},
    {.name = "chakra", .of_trace = true, .of_both = true, .make = make_chakra},
    {.name = "ddp", .make = make_ddp},
    {.name = "inductor", .make = make_inductor},
    {.name = "fx-buckets", .make = make_fx_buckets},
    {.name = "fsdp2", .make = make_fsdp2},
    {.name = "deepspeed", .make = make_deepspeed},
    {.name = "megatron", .make = make_megatron},
    {.name = "horovod", .make = make_horovod},
    {.name = "dpro", .make = make_dpro},
    {.name = "xla", .make = make_xla},
};

}  // namespace

std::span<const ExportTarget> export_targets() { return kTargets; }

}  // namespace reprise
