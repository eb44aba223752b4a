// What an imported trace tells of a DistributedDataParallel job: the gradients
// in the order in which backward made them, when each was ready, which
// all-reduce carried it, and what a step spends outside of that.
//
// A gradient is an AccumulateGrad operator with its input's dimensions
// (record_shapes=True). On a host it is ready when that operator ends; on a
// device, when the work launched before that end is done. DDP rebuilds its
// buckets in this order after the first step, so a bucket is the next
// gradients of one type whose bytes add up to an all-reduce's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/fit_collectives.h"
#include "costmodel/fit_contention.h"
#include "data/result.h"
#include "data/trace/trace.h"
#include "optimizer/ddp/ddp_timeline.h"

namespace reprise {

/// One all-reduce of one recorded step, on rank 0's clock.
struct DdpTransfer {
  int64_t bytes = 0;
  int64_t arrival_ns = 0;       ///< Last member's start.
  int64_t end_ns = 0;           ///< Last member's end.
  uint32_t stream = 0;          ///< First member's, in Trace::streams.
  std::string collective = {};  ///< "all-reduce 12": its sequence.
};

/// One recorded step over all ranks, on rank 0's clock.
struct DdpStep {
  int32_t step = 0;
  int64_t start_ns = 0;                        ///< Of the first rank.
  int64_t time_ns = 0;                         ///< Maximum over ranks.
  std::vector<std::vector<int64_t>> ready_ns;  ///< [rank][gradient], ascending.
  std::vector<DdpTransfer> transfers;          ///< Of the buckets, by arrival.
  std::vector<int64_t> barrier_ns;             ///< Transfers without payload.
};

struct DdpRecording {
  std::vector<DdpGradient> gradients;  ///< In ready order.
  std::vector<DdpBucket> buckets;      ///< As recorded.
  /// Those whose time lies in the middle half: means over them are robust.
  std::vector<DdpStep> steps;
  int64_t step_time_ns = 0;  ///< Median over all recorded steps.
  size_t ranks = 0;
  /// The job's, of the largest all-reduce. Where it is more than `ranks`, waits
  /// for ranks that were not recorded cannot be told from transfers.
  size_t group_size = 0;
  int workers = 1;                  ///< Buckets that a rank may send at a time.
  std::string collective_key = {};  ///< "all-reduce/f32/2".
  /// Runs of compute by operator and dimensions, beside transfers and not.
  std::map<std::string, ContentionKey> compute;
  bool host_only = false;          ///< Backward ran on host threads.
  std::vector<std::string> notes;  ///< Whole sentences.
};

/// Sets the step time, then leaves out the fastest and slowest quarter of the
/// steps. Requires: a step.
void keep_middle_steps(DdpRecording& recording);

/// Reads the recording, of a dPRO directory by `horovod_recording`; aligns the
/// clocks of `trace` on the way. Errors: kInvalid saying what the trace lacks
/// and how to record it: steps, gradients with dimensions, all-reduces that
/// carry them.
Result<DdpRecording> ddp_recording(Trace& trace);

/// Fits what `simulate_buckets` needs. `known` are the user's own points
/// (nccl-tests), which replace the trace's price where they are not empty.
/// Requires: a recording from `ddp_recording`.
DdpModel ddp_model(const DdpRecording& recording,
                   const std::vector<std::pair<double, double>>& known = {});

/// The other end of what a recording without some ranks allows: transfers cost
/// no latency and pass at the best rate that was seen; `model` takes all of
/// their recorded time for transfer.
DdpModel with_least_price(const DdpRecording& recording, DdpModel model);

/// The mean bytes of the recorded transfers where these are of one size and no
/// collective without payload was recorded: nothing then tells what a further
/// one costs. 0 otherwise.
double only_size(const DdpRecording& recording);

/// Both ends of what `only_size` allows: the time of a transfer is its bytes',
/// or it is the same whatever they are. First the one at which the recorded
/// buckets are predicted slower. Requires: an only size.
std::pair<DdpModel, DdpModel> price_ends(const DdpRecording& recording,
                                         const DdpModel& model);

}  // namespace reprise
