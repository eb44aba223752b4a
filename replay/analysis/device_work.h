// What one rank's device did: the events of a trace that keep a device busy,
// each with the call that launched it. The common ground of breakdown, idle
// causes, kernel and launch statistics; made once per rank.
//
// Device work of a rank: computing, collectives, copies and memsets on any
// stream that is no host thread (so our trainer's streams too). A rank whose
// collectives ran on host threads alone (Gloo) has those as communication. A
// rank without any other device work has its operators as computing
// (`host_only`), but for what they wait (replay/graph/operator_waits.h).
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "data/trace/intervals.h"
#include "data/trace/trace.h"
#include "replay/graph/operator_waits.h"

namespace reprise {

enum class WorkClass : uint8_t { kCompute, kCommunication, kMemory };

struct DeviceEvent {
  static constexpr uint32_t kNoEvent = std::numeric_limits<uint32_t>::max();
  static constexpr int64_t kNoLaunch = std::numeric_limits<int64_t>::min();

  int64_t start_ns = 0, end_ns = 0;  ///< Of the rank's own clock, clamped.
  /// When it was handed over: start of the runtime call with its correlation,
  /// else its own enqueue time, else kNoLaunch.
  int64_t launch_ns = kNoLaunch;
  int64_t call_end_ns = kNoLaunch;  ///< Of that call, if there is one.
  /// Its duration without operators nested in it and its own waits (host_only),
  /// else whole.
  int64_t own_ns = 0;
  uint32_t event = 0;          ///< Index in Trace::events.
  uint32_t launch = kNoEvent;  ///< The runtime call, index in Trace::events.
  uint32_t stream = 0;
  int32_t step = -1;  ///< Place in RankWork::steps that launched it, or -1.
  WorkClass work = WorkClass::kCompute;
  bool beside = false;  ///< is_posted_message: its thread goes on meanwhile.
};

/// All of one rank. Trace::events holds each rank's events in one piece.
struct RankWork {
  uint32_t rank = 0;
  bool host_only = false;
  std::vector<DeviceEvent> events;  ///< By start, then stream.
  std::vector<OperatorWait> waits;  ///< Of host_only; as operator_waits.
  std::vector<StepMark> steps;      ///< By start, times clamped.
  /// End of the steps to warm up; the earliest time where none are marked, or
  /// nothing else is.
  int64_t warm_from_ns = -kLatestTime;
  /// Calls in which the host waited for the device, by start.
  std::vector<Interval> synchronizations;
};

/// The rank's events: [first, second) in Trace::events.
std::pair<size_t, size_t> events_of_rank(const Trace& trace, uint32_t rank);

/// Place of the step in which a time lies; -1: in none. `steps`: by start.
int32_t step_at(const std::vector<StepMark>& steps, int64_t time_ns);

/// Place in work.steps of the step that launched the event; where no launch
/// was recorded, of the step in which it started; -1: of none.
int32_t step_of(const RankWork& work, const DeviceEvent& event);

/// The rank's steps as its device keeps them: each ends with its mark or the
/// last work that it launched, and begins with its mark or where the one before
/// it ends. Of a host that waits for the device in each step, the marks.
std::vector<StepMark> device_steps(const RankWork& work);

/// What typically passes from a step's end to the begin of the next one: marks
/// may leave out what is done between, as loading data. `steps`: device_steps
/// of ranks, one after the other.
int64_t between_steps_ns(const std::vector<StepMark>& steps);

/// Cost: linear in the rank's events, nearly always.
RankWork device_work(const Trace& trace, uint32_t rank);

}  // namespace reprise
