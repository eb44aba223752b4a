// All that runs inside a step on a device: its own units, those of loops and
// branches, and those that an instruction is expanded into where the device has
// no routine for it. From the program alone, so that what compiles kernels and
// what binds them agree.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "data/hlo/module.h"
#include "data/kernel/kernel.h"
#include "data/schedule/called_program.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/packed_dots.h"

namespace reprise {

/// Programs that convolutions are expanded into
/// (data/hlo/expand_convolution.h).
struct ExpandedRoutine {
  std::shared_ptr<const CalledProgram> program;
  size_t first_kernel = 0;  ///< Of its schedule's, in DevicePrograms::kernels.
};

struct DevicePrograms {
  /// The step's, those of its callees included, then those of expansions and
  /// of packed dots.
  std::vector<Kernel> kernels;
  struct Packed {
    PackedDots dots;
    size_t first_kernel = 0;
  };
  std::map<const Schedule*, Packed> packed;  ///< Of every schedule.
  std::map<const Unit*, ExpandedRoutine> expanded;
  /// Of the largest expansion, and of the dots that need most.
  int64_t expansion_bytes = 0, packed_bytes = 0;
};

/// `module` is what `step` was lowered from; both must outlive the result.
DevicePrograms device_programs(const Module& module, const Schedule& step);

}  // namespace reprise
