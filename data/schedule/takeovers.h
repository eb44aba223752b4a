// Who may write over whom: temporaries over temporaries that end where they
// begin, and over parameters whose old value nobody needs any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/schedule/memory_plan.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Of one schedule, which must outlive it. The unit where one value ends and
/// the next begins reads each element for the last time before it writes there
/// (a kernel, by in_place_safe), or starts by copying one to the other (a
/// loop). Never of what a collective may still use, or of a part of a buffer.
class Takeovers {
 public:
  static constexpr uint32_t kOwnBytes = UINT32_MAX;

  Takeovers(const Schedule& schedule, const std::vector<LiveInterval>& live);

  /// [buffer] kOwnBytes, or the temporary over which this one is written. None
  /// is written over twice.
  const std::vector<uint32_t>& from() const { return from_; }

  /// True if temporaries that follow each other, from `first` to `last`, may
  /// lie in the bytes of a parameter: after the last read of its old value and
  /// before the first write of its new one.
  bool fits(uint32_t first, uint32_t last, const LiveInterval& live,
            uint32_t parameter) const;

 private:
  /// When nobody needs a parameter's bytes, both ends excluded.
  struct Gap {
    int64_t last_read = -1, first_write = INT64_MAX;
  };

  void find_gaps();
  void add_kernel(const Unit& unit, int64_t place);
  void add_edge(const Unit& unit, const Location& old, size_t write,
                int64_t place);
  void add_loop(const Unit& unit, int64_t place);
  bool is_whole_temporary(const Location& at) const;
  bool meet(const Location& old, const Location& value, int64_t place) const;
  bool is_safe(const Unit& unit, const Location& old, size_t write) const;
  bool is_taken(BufferId buffer) const;
  void take(BufferId old, BufferId value);

  const Schedule& schedule_;
  const std::vector<LiveInterval>& live_;
  std::vector<bool> communicated_;  ///< [buffer] Touched by a collective.
  /// [buffer] Without length for batches and what collectives use.
  std::vector<Gap> gaps_;
  std::vector<uint32_t> from_;
  /// [temporary] Parameters whose old value it may begin over, or whose new one
  /// may be written over it.
  std::vector<std::vector<uint32_t>> over_, under_;
  std::vector<BufferId> taken_;  ///< By the unit at hand.
};

}  // namespace reprise
