// What a schedule says that a GPU must do in a step, and what a profiler saw of
// it, in one form.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/program/lowered_program.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

enum class DeviceCollectives : uint8_t { kNone, kNccl, kGloo };

/// One kernel or copy: the unit that it belongs to (-1: to none) and what
/// CUPTI calls it.
struct DeviceOperation {
  int64_t unit = -1;
  std::string name;
  bool operator==(const DeviceOperation&) const = default;
};
using DeviceOperations = std::vector<DeviceOperation>;

/// A step's operations of each of the executor's streams, in order.
struct DeviceStep {
  DeviceOperations compute, communication, feeds;
};

/// From the schedule alone, and from the launches that its kernels are compiled
/// to. Copies of the batch belong to no unit. Errors: as compile_cubins.
Result<DeviceStep> scheduled_step(const LoweredProgram& program,
                                  DeviceCollectives collectives,
                                  const std::string& kernel_cache);

/// How the streams are numbered in records.
struct StreamNumbers {
  int64_t compute = 0, communication = 0, feeds = 0;
};

/// Where a step's records are not what is scheduled: one line each, "rank 0,
/// step 2, compute: 7th is 4:dot, not 5:dot". `device` is a gathered process
/// shard: work belongs to the step in which its call was made.
std::vector<std::string> compare_records(const Trace& device, uint32_t rank,
                                         int32_t step,
                                         const StreamNumbers& streams,
                                         const DeviceStep& scheduled);

/// Where a step's units in a trainer's trace are not the schedule's: each unit
/// once, named as there, of so many operations, from their first start to
/// their last end, in order on its stream.
std::vector<std::string> compare_units(const Trace& trainer,
                                       const Trace& device, uint32_t rank,
                                       int32_t step, const Schedule& schedule,
                                       const DeviceStep& scheduled);

}  // namespace reprise
