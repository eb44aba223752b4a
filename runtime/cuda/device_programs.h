// All that runs inside a step on a device: its own units, those of loops and
// branches, and those that an instruction is expanded into where the device has
// no routine for it. From the program alone, so that what compiles kernels and
// what binds them agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "data/hlo/arrange_convolution.h"
#include "data/hlo/module.h"
#include "data/kernel/kernel.h"
#include "data/schedule/called_program.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/packed_dots.h"

namespace reprise {

/// A program that an instruction is expanded into: convolutions, gradients of
/// pooling (data/hlo/expand_convolution.h, expand_select_and_scatter.h).
struct ExpandedRoutine {
  std::shared_ptr<const CalledProgram> program;
  size_t first_kernel = 0;  ///< Of its schedule's, in DevicePrograms::kernels.
};

/// A convolution of the device's library, and what arranges its arrays: no
/// program where they are as the library has them. In the memory that
/// expansions share lie, in this order, what the programs need, the arranged
/// operands and the library's result.
struct LibraryRoutine {
  CanonicalConvolution convolution;
  std::optional<ExpandedRoutine> lhs, rhs, result;
  int64_t lhs_offset = 0, rhs_offset = 0, result_offset = 0;  ///< Bytes.
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
  std::map<const Unit*, LibraryRoutine> convolutions;
  /// Of the largest expansion, and of the dots that need most.
  int64_t expansion_bytes = 0, packed_bytes = 0;
};

/// The device's library of convolutions; none where `takes` is empty.
struct ConvolutionLibrary {
  std::function<bool(const CanonicalConvolution&)> takes = {};
  /// Whether arrays with features first are so much faster that they are worth
  /// turning; else the order is taken that moves fewer bytes.
  std::function<bool(PrimitiveType)> wants_features_first = {};
};

/// `module` is what `step` was lowered from; both must outlive the result.
/// Convolutions that are not taken are expanded.
DevicePrograms device_programs(const Module& module, const Schedule& step,
                               const ConvolutionLibrary& library = {});

}  // namespace reprise
