// What the readers of NCCL's profiler plugins share: calls in the words of the
// trace store, and their times as cost points.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "data/formats/measured_times.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// The value of a JSON object's member as it stands; "" if there is none.
std::string_view json_member(std::string_view object, std::string_view key);

/// A whole number within [0, limit]; `fallback` for anything else.
int64_t number_within(std::string_view value, int64_t limit, int64_t fallback);

/// Counts and bytes beyond it are garbage.
constexpr int64_t kLargestCount = int64_t{1} << 50;

/// Times of collectives, one point for each call of a communicator: that of
/// the fastest rank of the file, for the last to arrive waits for nobody.
/// Sends and receives are no cost points.
class CollectiveCostPoints {
 public:
  /// `context` as in Measurement.
  CollectiveCostPoints(TraceSpool& spool, std::string context)
      : spool_(spool), context_(std::move(context)) {}

  /// Without a sequence (-1) it is a call of its own.
  void add(const CollectiveInfo& info, int64_t bytes, int64_t sequence,
           int64_t time_ns);
  /// Adds the Measurements to the spool.
  void finish();

 private:
  using Call = std::tuple<int32_t, int64_t, int64_t>;  // Info, bytes, sequence.
  struct Point {
    MeasuredTimes::Subject subject;
    int64_t time_ns = 0;
  };

  void close_calls();

  TraceSpool& spool_;
  std::string context_;
  std::map<Call, Point> open_;
  MeasuredTimes times_;
};

}  // namespace reprise
