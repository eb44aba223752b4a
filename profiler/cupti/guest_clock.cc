#include "profiler/cupti/guest_clock.h"

#include <cmath>
#include <cstring>
#include <initializer_list>

#include "profiler/cupti/cupti_records.h"
#include "profiler/process_recorder.h"

namespace reprise::cupti {
namespace {

/// A line through two readings of both clocks.
struct Line {
  int64_t ours_ns = 0;
  uint64_t theirs = 0;
  double slope = 1;

  uint64_t at(uint64_t time_ns) const {
    const int64_t since_ns = static_cast<int64_t>(time_ns) - ours_ns;
    return theirs + static_cast<uint64_t>(
                        std::llround(slope * static_cast<double>(since_ns)));
  }
};

void move_times(const Line& line, void* record,
                std::initializer_list<size_t> offsets) {
  for (const size_t offset : offsets) {
    auto* const place = static_cast<uint8_t*>(record) + offset;
    uint64_t time = 0;
    std::memcpy(&time, place, sizeof time);
    if (time == 0) continue;
    time = line.at(time);
    std::memcpy(place, &time, sizeof time);
  }
}

template <typename Record>
void move_span(const Line& line, void* record) {
  move_times(line, record, {offsetof(Record, start), offsetof(Record, end)});
}

void move_record(const Line& line, uint32_t version, void* record) {
  switch (*static_cast<const uint32_t*>(record)) {
    case kKernel:
    case kConcurrentKernel:
      move_span<KernelRecord>(line, record);
      return move_times(line, record, {offsetof(KernelRecord, completed)});
    case kMemcpy:
      return move_span<CopyRecord>(line, record);
    case kMemcpyPeer:
      return move_span<PeerCopyRecord>(line, record);
    case kMemset:
      return move_span<MemsetRecord>(line, record);
    case kRuntime:
    case kDriver:
      return move_span<ApiRecord>(line, record);
    case kSynchronization:
      return move_span<SynchronizationRecord>(line, record);
    case kOverhead:
      return move_span<OverheadRecord>(line, record);
    case kCudaEvent:
      if (version < kEventSyncIdVersion) return;
      return move_times(line, record, {offsetof(EventRecord, device_time)});
    default:
      return;
  }
}

}  // namespace

void GuestClock::set(Timestamp of_guest) {
  if (of_guest == nullptr) return;
  ours_then_ns_.store(ProcessRecorder::now_ns());
  theirs_then_.store(of_guest());
  of_guest_.store(of_guest);
}

void GuestClock::move(const Functions& functions, uint32_t version,
                      int64_t shift_ns, uint8_t* buffer,
                      size_t valid_bytes) const {
  const Timestamp of_guest = of_guest_.load();
  if (of_guest == nullptr) return;
  Line line{.ours_ns = ours_then_ns_.load(), .theirs = theirs_then_.load()};
  const int64_t ours_ns = ProcessRecorder::now_ns() - line.ours_ns;
  const auto theirs = static_cast<int64_t>(of_guest() - line.theirs);
  if (ours_ns > 0) {
    line.slope = static_cast<double>(theirs) / static_cast<double>(ours_ns);
  }
  line.ours_ns -= shift_ns;
  void* record = nullptr;
  while (functions.next_record(buffer, valid_bytes, &record) == kSuccess &&
         record != nullptr) {
    move_record(line, version, record);
  }
}

}  // namespace reprise::cupti
