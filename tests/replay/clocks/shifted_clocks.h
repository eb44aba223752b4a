// Clocks put wrong on purpose, and how well they came right again.
#pragma once

#include <cstdint>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// What each rank's clock shows at true time t:
/// t + offset + drift (t - reference).
struct ClockShifts {
  int64_t reference_ns = 0;
  std::vector<int64_t> offset_ns;  ///< [place in Trace::ranks]
  std::vector<double> drift_ppm;
  int64_t shown_ns(size_t place, int64_t true_ns) const;
};

/// Offsets within ±10 ms and drifts within ±50 ppm, rank 0's clock too.
ClockShifts random_shifts(const Trace& trace, uint32_t seed);

/// The trace as ranks with such clocks would have recorded it. The order of
/// events stays.
Trace shifted(Trace trace, const ClockShifts& shifts);

/// Largest distance of an aligned time of a rank's events to what the lowest
/// rank's clock showed at that instant.
int64_t worst_error_ns(const Trace& aligned, const Trace& truth,
                       const ClockShifts& shifts, size_t place);

/// By how much, at most, some rank leaves a collective that joins all ranks
/// before another enters it.
int64_t worst_acausality_ns(const Trace& aligned);

}  // namespace reprise
