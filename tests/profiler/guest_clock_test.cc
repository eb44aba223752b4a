#include "profiler/cupti/guest_clock.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "profiler/cupti/cupti_records.h"
#include "profiler/process_recorder.h"

namespace reprise::cupti {
namespace {

uint64_t readings = 0;
/// Says 10^15 when it is set, 3 * 10^15 when records are moved.
uint64_t clock_of_guest() {
  return uint64_t{1'000'000'000'000'000} * (1 + 2 * readings++);
}

/// A buffer of kernels, one after the other.
Result next_kernel(uint8_t* buffer, size_t valid_bytes, void** record) {
  auto* next = *record == nullptr
                   ? buffer
                   : static_cast<uint8_t*>(*record) + sizeof(KernelRecord);
  if (next + sizeof(KernelRecord) > buffer + valid_bytes) return 1;
  *record = next;
  return kSuccess;
}

TEST(GuestClock, MovesTimesBetweenItsTwoReadings) {
  readings = 0;
  Functions functions{};
  functions.next_record = next_kernel;
  GuestClock clock;
  clock.set(clock_of_guest);
  const auto start_ns = static_cast<uint64_t>(ProcessRecorder::now_ns());
  std::array<KernelRecord, 2> kernels{};
  for (KernelRecord& kernel : kernels) {
    kernel.kind = kConcurrentKernel;
    kernel.start = start_ns;
    kernel.end = static_cast<uint64_t>(ProcessRecorder::now_ns());
    kernel.correlation = 7;
  }
  // Recorded by a clock that runs 5,000 ns behind CLOCK_MONOTONIC.
  kernels[1].start -= 5'000;
  kernels[1].end -= 5'000;
  std::array<KernelRecord, 2> moved = kernels;
  auto* bytes = reinterpret_cast<uint8_t*>(moved.data());
  clock.move(functions, 130'001, 0, bytes, sizeof(KernelRecord));
  readings = 1;
  clock.move(functions, 130'001, 5'000, bytes + sizeof(KernelRecord),
             sizeof(KernelRecord));
  for (const KernelRecord& kernel : moved) {
    EXPECT_GE(kernel.start, 1'000'000'000'000'000U);
    EXPECT_LE(kernel.start, kernel.end);
    EXPECT_LE(kernel.end, 3'000'000'000'000'000U);
    EXPECT_EQ(kernel.completed, 0U);  // None stays none.
    EXPECT_EQ(kernel.correlation, 7U);
  }
}

TEST(GuestClock, LeavesAGuestWithoutAClockOurs) {
  Functions functions{};
  functions.next_record = next_kernel;
  KernelRecord kernel{};
  kernel.kind = kConcurrentKernel;
  kernel.start = 5;
  GuestClock{}.move(functions, 130'001, 0, reinterpret_cast<uint8_t*>(&kernel),
                    sizeof kernel);
  EXPECT_EQ(kernel.start, 5U);
}

}  // namespace
}  // namespace reprise::cupti
