#include "cli/export/export_target.h"

namespace reprise {
namespace {

constexpr ExportTarget kTargets[] = {
    {.name = "pge", .of_trace = true, .make = make_pge},
    {.name = "ddp", .make = make_ddp},
};

}  // namespace

std::span<const ExportTarget> export_targets() { return kTargets; }

}  // namespace reprise
