// Starts `reprise-train` on every rank by mpirun and waits for it: the one
// place where `train`, `calibrate` and `optimize` meet the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/program/lowered_program.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

struct TrainRequest {
  std::string program;  ///< PROGRAM.hlo, its manifest beside it.
  std::string plan;     ///< Plan file; empty: identity.
  int64_t ranks = 1;
  int64_t steps = 20;
  int64_t warmup = 2;  ///< The first of `steps` that are not timed.
  std::string device = "cpu";
  ProgramData data;
  bool verify = false;
  bool solo = false;  ///< Collectives do nothing: calibration.
  bool interpret = false;
  std::string dump_state;  ///< Write the final state here, if set.
  bool allow_nan = false;  ///< Go on where the loss is not finite.
  bool record = false;     ///< Record every unit into shards.
  double timeout_s = 30;   ///< Longest wait for a silent peer.
  /// A folder that goes with the run, even where this process is killed; its
  /// own is made there. Empty: where temporary files are.
  std::string scratch;
  std::vector<std::string> mpi_arguments;
  std::vector<std::string> trainer_arguments;  ///< Passed on as they are.
};

struct TrainOutcome {
  int exit_status = 0;  ///< The trainer's, or 128+N.
  int received = 0;     ///< The last signal passed on to it, or 0.
  /// reprise.train/1 of rank 0; empty when it failed.
  std::string result_json;
  Trace trace;  ///< Filled when `record` was asked and the run ended well.
};

/// Runs it. Words of REPRISE_MPI_ARGS are appended to mpirun's arguments.
/// SIGINT and SIGTERM reach the ranks. The ranks' stderr passes through.
/// Errors: kDevice when mpirun or reprise-train is missing, kIo for the shard
/// directory.
Result<TrainOutcome> run_trainer(const TrainRequest& request);

}  // namespace reprise
