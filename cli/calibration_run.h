// Binds measuring runs to `reprise-train` and to replay's clock alignment.
#pragma once

#include "costmodel/measuring_runs.h"

namespace reprise {

/// Runs on this machine by mpirun. Errors of a run: kDevice when the ranks
/// cannot be started or fail, kIo for its temporary directory.
MeasuringRuns trainer_runs();

}  // namespace reprise
