// The tools that plans and traces are written for: one file each, and a row in
// the table of export_target.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/export/artefact.h"
#include "data/result.h"

namespace reprise {

struct ExportRequest {
  std::string path;  ///< The plan or the trace, as it was given.
  /// The trace as a file of ours: not `path` where that is another tool's.
  std::string file = {};
  bool planned = false;        ///< `path` is a plan, `file` its recording.
  std::string recording = {};  ///< The run that a plan was made of (chakra).
  std::string costs = {};      ///< Database that prices its units (chakra).
  /// Measured collectives: "ring/simple=TRACE" (nccl-tuner).
  std::vector<std::string> points = {};
  std::string program = {};          ///< HLO text that the plan is of (xla).
  std::optional<int32_t> step = {};  ///< None: everything (chakra).
};

struct ExportTarget {
  std::string_view name;
  bool of_trace = false;  ///< Takes a trace; else a plan.
  bool of_both = false;   ///< Takes a plan too, with its recording.
  Result<Artefact> (*make)(const ExportRequest& request);
};

/// In the order of the help page.
std::span<const ExportTarget> export_targets();

Result<Artefact> make_ddp(const ExportRequest& request);
Result<Artefact> make_inductor(const ExportRequest& request);
Result<Artefact> make_fx_buckets(const ExportRequest& request);
Result<Artefact> make_fsdp2(const ExportRequest& request);
Result<Artefact> make_horovod(const ExportRequest& request);
Result<Artefact> make_deepspeed(const ExportRequest& request);
Result<Artefact> make_megatron(const ExportRequest& request);
Result<Artefact> make_dpro(const ExportRequest& request);
Result<Artefact> make_pgle(const ExportRequest& request);
Result<Artefact> make_chakra(const ExportRequest& request);
Result<Artefact> make_planned_chakra(const ExportRequest& request);
Result<Artefact> make_nccl_tuner(const ExportRequest& request);
Result<Artefact> make_xla(const ExportRequest& request);
Result<Artefact> make_pge(const ExportRequest& request);

}  // namespace reprise
