// Executors and whole training runs on the fake device, in this process.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/plan/plan.h"
#include "data/result.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/cudnn.h"
#include "tests/runtime/train/trained_program.h"

namespace reprise {

/// What a CUDA executor refers to.
struct Bound {
  std::shared_ptr<const DeviceContext> context;
  std::unique_ptr<CublasLibrary> cublas;
  std::unique_ptr<CudnnLibrary> cudnn;  ///< None: convolutions are expanded.
};

/// Opens the device, and cuDNN, before `make_executor`.
Status open_cudnn(Bound& bound);

/// Binds a schedule to the fake device; fills `bound`, which must outlive the
/// executor. `functions`: as of DeviceBinding.
Result<std::unique_ptr<CudaExecutor>> make_executor(
    Bound& bound, const Module& inlined, const Schedule& schedule,
    const Cubins& cubins, DeviceCommunicator& communicator,
    const CudaExecutor::Options& options,
    std::span<const KernelCode> functions = {}, int64_t rank = 0);

struct Trained {
  std::vector<double> losses;
  std::vector<std::string> digests;
};

/// Trains one rank with the CPU runtime's code for each kernel.
Result<Trained> train_on_device(const TestProgram& program, const Plan& plan,
                                bool graph, int32_t steps, int64_t rank,
                                DeviceCommunicator& communicator);

}  // namespace reprise
