// Steps whose device work lacks: a file that was cut, a recording that ended
// before the device did, or dropped buffers of records leave calls that launch
// and nothing that they launched. What would be called idle there was not
// recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/trace/trace.h"
#include "data/trace/trace_by_rank.h"
#include "replay/analysis/device_work.h"

namespace reprise {

/// Of all ranks of a trace.
class CutSteps {
 public:
  /// [place in RankWork::steps] Whether it is to be left out: of what it
  /// launched lacks a tenth or more, ten kernels at least, beyond the share
  /// that the step lacks which lacks least (all calls of a kind may have
  /// another correlation than their kernels), or behind all that was recorded.
  /// None is, where no other step of the rank would be left but warm-up. Cost:
  /// linear in the rank's events, O(n log n) in its device work.
  std::vector<bool> add(const Trace& trace, const RankWork& work);
  /// Of any rank, by number.
  const std::set<int32_t>& left_out() const { return left_out_; }
  /// A sentence; none where nothing was cut.
  std::optional<std::string> remark() const;

 private:
  std::vector<uint32_t> ranks_;
  std::set<int32_t> left_out_;
  /// Calls that launch kernels on these ranks; those whose kernel lacks.
  int64_t launches_ = 0, lacking_ = 0;
};

/// Of all ranks, for who asks nothing else of them. Cost: as device_work and
/// CutSteps::add of each.
CutSteps find_cut_steps(const TraceByRank& recorded);

}  // namespace reprise
