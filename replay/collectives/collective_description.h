// Which host ranges describe which device collective: the ranges around the
// call that launched it, and a description that ended within these before it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/trace/trace_by_rank.h"

namespace reprise {

/// The signature that the event refers to, or nullptr.
const CollectiveInfo* info_of(const Trace& trace, const Event& event);

/// Whether it is a message that a host thread posted (Gloo's isend, irecv): its
/// range lasts until wait(), beside what the thread does.
bool is_posted_message(const Trace& trace, const Event& event);

/// Size of the call in bytes by nccl-tests' convention: the larger of what goes
/// in and what comes out of this rank; 0 when unknown.
int64_t recorded_bytes(const CollectiveInfo& info);

/// The same from the dimensions of the operator's arguments, as the event's
/// attributes state them: at least the input, the whole where both are stated.
int64_t dimension_bytes(const Trace& trace, const Event& event);

class CollectiveDescriptions {
 public:
  /// `device`: indices of the device's collectives in events.trace.events,
  /// ascending, of the one rank.
  CollectiveDescriptions(const RankEvents& events,
                         std::span<const uint32_t> device);

  /// Ranges that describe device[i], innermost first; indices of events.
  std::span<const uint32_t> of(size_t i) const;
  /// Start of the launching call, of the event itself where that is unknown.
  int64_t launch_ns(size_t i) const { return launch_ns_[i]; }
  /// The host thread of that call, where it is known.
  std::optional<uint32_t> launch_stream(size_t i) const;
  bool used(uint32_t event) const;
  /// Ranges of host threads that may describe one, ascending; none where the
  /// device has no collectives.
  std::span<const uint32_t> ranges() const { return ranges_; }

 private:
  void find_launches(std::span<const uint32_t> device);
  void tie_by_containment();
  void tie_by_record();
  void tie_by_external_id(std::span<const uint32_t> device);
  void tie_by_order(std::span<const uint32_t> device);

  const Trace& trace_;
  uint32_t first_, last_;  // In trace_.events.
  std::vector<int64_t> launch_ns_;
  std::vector<uint32_t> launch_stream_;      // [i], or kNone.
  std::vector<std::vector<uint32_t>> tied_;  // [i], innermost first.
  std::vector<uint32_t> ranges_;
  std::vector<bool> used_;  // [event - first_]
};

}  // namespace reprise
