// The rows of a Horovod timeline: one a tensor, its activities nested.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/formats/horovod/fused_transfers.h"
#include "data/formats/horovod/horovod_events.h"
#include "data/formats/reader.h"

namespace reprise {

class HorovodTensors {
 public:
  HorovodTensors(TraceSpool& spool, FileReport& report, uint32_t rank);

  void take(const ChromeEvent& event);
  /// After the last event.
  void finish();
  /// Ranks that became ready, or 0 where no negotiation says so.
  int64_t world_size() const { return std::ssize(ranks_); }

 private:
  struct Activity {
    std::string name;
    int64_t start_ns = 0, end_ns = 0;
    size_t depth = 0;
    /// Of a negotiation: rank and when it was ready.
    std::vector<std::pair<uint32_t, int64_t>> ready;
  };
  struct Tensor {
    std::string name;
    uint32_t stream = UINT32_MAX;
    std::vector<Activity> open;
    std::vector<Activity> closed;  ///< Within the outermost open one.
  };

  void take_metadata(const ChromeEvent& event);
  void take_begin(const ChromeEvent& event, Tensor& tensor);
  void take_end(const ChromeEvent& event, Tensor& tensor);
  void take_complete(const ChromeEvent& event, Tensor& tensor);
  void take_instant(const ChromeEvent& event);
  void finish_outermost(Tensor& tensor, const ChromeEvent* end);
  void add(Tensor& tensor, const Activity& activity, EventKind kind,
           const CollectiveInfo& info, int64_t bytes);
  CollectiveInfo signature_of(CollectiveInfo info) const;
  std::string ready_attributes(const Activity& negotiation) const;
  uint32_t stream_of(Tensor& tensor);

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  FusedTransfers transfers_;
  std::map<std::string, Tensor> tensors_;  ///< By pid.
  std::string key_;
  uint32_t cycles_ = UINT32_MAX;  ///< Stream of cycle marks.
  std::set<uint32_t> ranks_;      ///< That became ready.
};

}  // namespace reprise
