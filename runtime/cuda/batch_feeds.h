// The batch on its way to the device: page-locked copies of the parameters that
// change every step, copied on a stream of their own beside whatever does not
// need them yet.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/device_program.h"
#include "runtime/cuda/driver.h"

namespace reprise {

class BatchFeeds {
 public:
  /// Staging memory for the parameters `fed`. Errors: kDevice.
  static Result<BatchFeeds> create(const Driver& driver,
                                   const Schedule& schedule,
                                   const DeviceProgram& program,
                                   const std::vector<int64_t>& fed);

  /// Where the host writes a parameter's next value; empty when steps do not
  /// copy it.
  std::optional<std::span<std::byte>> staging(int64_t parameter) const;
  /// Enqueues all copies. Errors: kDevice.
  Status copy(const DeviceStream& stream) const;
  /// Lets `stream` wait for what `unit` reads, unless an earlier unit of its
  /// stream has waited already. Errors: kDevice.
  Status wait_before(UnitId unit, const DeviceStream& stream) const;

 private:
  /// A parameter that every step copies.
  struct Feed {
    int64_t parameter = 0;
    CUdeviceptr target = 0;
    PinnedMemory staging;
    DeviceEvent copied;
  };

  explicit BatchFeeds(const Driver& driver) : driver_(&driver) {}
  void find_first_uses(const Schedule& schedule, const Location& location);

  const Driver* driver_;
  std::vector<Feed> feeds_;
  std::vector<std::vector<uint32_t>> before_;  ///< `[unit]`, first uses.
};

}  // namespace reprise
