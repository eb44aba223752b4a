// A kernel as launches for a GPU: which loops run in parallel, which in order,
// and what has to wait for the end of a launch.
//
// A launch orders nothing between blocks, so a kernel is cut where its serial
// loops order something between iterations that run in parallel: after each
// nest (an accumulation comes after its initial values), around stores by outer
// loops, whose old element other threads may still read, and between rows
// reduced by lanes and a reduction over those rows. A value that a later stage
// cannot compute again travels in the workspace.
//
// Stages run one after the other; each, run serially, is a kernel that the
// interpreter can run, and together they compute what the kernel does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

enum class StageMapping : uint8_t {
  kMap,  ///< A thread for each iteration of the parallel loops.
  /// kLanes threads for each iteration of the parallel loops, one a lane.
  kRows,
  /// A block for each iteration of the parallel loops; kLanes of its threads
  /// take their elements from shared memory.
  kBlocks,
  /// A thread for each iteration of the parallel loops, which walks the
  /// sequential ones.
  kOrdered,
  /// A thread for each element of the one output, which walks the sequential
  /// loops and takes what is for its element.
  kOwned,
  /// As kOrdered, but a block computes the values of a tile of sequential
  /// iterations, then accumulates them in order.
  kTiled,
  kSerial,  ///< One thread for everything.
};

/// A reduction into an output whose element stays the same over all sequential
/// iterations.
struct StageAccumulator {
  int32_t target = -1;  ///< Argument.
  /// Bits it starts from, if not those in memory.
  std::optional<uint64_t> initial;
};

struct CudaStage {
  /// Arguments are those of the whole kernel, then the workspace's arrays.
  Kernel kernel;
  StageMapping mapping = StageMapping::kSerial;
  std::vector<int32_t> parallel, sequential;  ///< Loops, outermost first.
  std::vector<int32_t> columns;  ///< kRows, kBlocks: loops below a row.
  std::vector<StageAccumulator> accumulators;  ///< kOrdered, kTiled, kOwned.
};

struct CudaPlan {
  std::vector<CudaStage> stages;
  /// Of arguments past the kernel's own: where each stands in the workspace.
  std::vector<int64_t> workspace_offsets;
  int64_t workspace_bytes = 0;
};

CudaPlan plan_cuda_stages(const Kernel& kernel);

/// Iterations of these loops together.
int64_t iterations_of(const Kernel& kernel, const std::vector<int32_t>& loops);

}  // namespace reprise
