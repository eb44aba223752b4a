// Which of cuBLASLt's algorithms each dot of a schedule takes: the fastest of
// those that the library offers, timed once a shape, device and version, and
// kept beside the compiled kernels.
#pragma once

#include <string>

#include "data/result.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/driver.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// What `choose_dot_algorithms` did.
struct DotAlgorithms {
  int timed = 0;     ///< Shapes that no cache held, on rank 0.
  std::string note;  ///< For the user; empty: all is as it should be.
};

/// Rank 0 times the shapes that `cublas` has bound and tells its choice to all
/// ranks, so that like devices compute the same bits; a rank with another kind
/// of device or version of the library keeps that library's first choices, as
/// all do where there is no memory to time with. Without a cache that can be
/// written, nothing is kept. Collective. Errors: kDevice for lost ranks.
Result<DotAlgorithms> choose_dot_algorithms(CublasLibrary& cublas,
                                            const DeviceContext& context,
                                            const std::string& cache_directory,
                                            ProcessGroup& group);

}  // namespace reprise
