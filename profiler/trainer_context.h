// What the shards of a training run do not repeat for each event, as a value
// and as the file `trainer.json` (reprise.trainer/1) that a profiled
// reprise-train leaves beside its shards.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/collective/collective.h"
#include "data/program/lowered_program.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// Name of the file, one a run.
inline constexpr const char* kTrainerFile = "trainer.json";
/// Runs below one directory have one each, named training.TIME.HOST.PROCESS,
/// by rank 0: a profiled command may train several times.
inline constexpr std::string_view kRunDirectoryPrefix = "training.";

/// One per unit of the schedule, in its order.
struct UnitLabel {
  std::string name;
  EventKind kind = EventKind::kCompute;
  /// Payload of a collective, or of those inside a loop or branch.
  int64_t bytes = 0;
  /// Of a collective.
  CollectiveKind collective = CollectiveKind::kUnknown;
  /// Which ranks meet in it; empty: all.
  std::vector<std::vector<uint32_t>> groups = {};
};

struct TrainerContext {
  std::string program_text;
  std::string manifest_text;
  std::string plan_text;
  std::map<std::string, std::string> environment;
  std::vector<UnitLabel> units;
};

/// `program_path` is what the user named; `solo`: without communication.
TrainerContext trainer_context(const LoweredProgram& lowered,
                               const std::string& program_path,
                               const std::string& device, bool solo);

/// {schema, program_text, manifest_text, plan_text, environment{},
/// units[{name, kind, bytes, of collectives collective, and of those among some
/// of the ranks groups}]}.
std::string print_trainer_context(const TrainerContext& context);
/// Errors: kParse, naming `file`.
Result<TrainerContext> parse_trainer_context(const std::string& text,
                                             const std::string& file);

}  // namespace reprise
