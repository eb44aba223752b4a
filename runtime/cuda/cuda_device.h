// Training on GPUs: one device for each rank of a host, in turn.
#pragma once

#include <memory>
#include <string>

#include "data/result.h"
#include "runtime/cuda/cublas_shape.h"
#include "runtime/train/training_device.h"

namespace reprise {

struct CudaOptions {
  /// What runs collectives among several ranks.
  enum class Collectives : uint8_t {
    kAutomatic,  ///< NCCL, or Gloo where ranks share a device.
    kNccl,
    kGloo,  ///< Through host memory; steps are then eager.
  };
  Collectives collectives = Collectives::kAutomatic;
  bool graph = true;  ///< Replay steps as a CUDA graph where that is possible.
  MatrixMath math = MatrixMath::kF32;
};

/// Facts of what it binds: device_name, driver_version, steps_run_as ("graph",
/// "eager"), math ("f32", "tf32"), collectives ("none", "nccl", "gloo").
/// Errors of `bind`: kDevice without a driver, a device, NVRTC, cuBLASLt or
/// (where it is needed) NCCL; kInvalid for DeviceOptions::interpret.
std::unique_ptr<TrainingDevice> make_cuda_device(const CudaOptions& options);

/// Whether there is a device to run on. Errors: kDevice with the reason.
Status check_cuda();

}  // namespace reprise
