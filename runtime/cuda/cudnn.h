// Convolutions by cuDNN, opened when used: one algorithm for each distinct
// shape, kept, so that every step and every captured graph computes the same
// bits. Of its algorithms those are used that give the same bits each time and
// sum products as they are: none by Fourier or Winograd transforms, whose
// rounding is another.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "data/hlo/arrange_convolution.h"
#include "data/result.h"
#include "runtime/cuda/cublas_shape.h"
#include "runtime/cuda/driver.h"

namespace reprise {

struct CudnnFunctions;
struct CudnnPlan;

/// First elements of a convolution's arrays.
struct CudnnMemory {
  CUdeviceptr lhs = 0, rhs = 0, result = 0;
};

/// The library and one stream's workspace. Calls belong to one thread.
class CudnnLibrary {
 public:
  struct Options {
    MatrixMath math = MatrixMath::kF32;
    /// Bytes that an algorithm may use beside its operands.
    size_t workspace_bytes = size_t{512} << 20;
  };

  /// A convolution bound to its memory.
  class Call {
   public:
    /// Errors: kDevice.
    Status enqueue(CUstream stream) const;

   private:
    friend class CudnnLibrary;
    const CudnnLibrary* library_ = nullptr;
    const CudnnPlan* plan_ = nullptr;
    CudnnMemory memory_;
  };

  /// Opens the libcudnn that the driver runs and that makes a handle
  /// (nvidia_library.h). Requires: the device's context is current. Errors:
  /// kDevice.
  static Result<std::unique_ptr<CudnnLibrary>> create(const Driver& driver,
                                                      const Options& options);
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  /// Whether there is an algorithm for it; a shape that is new is run once, on
  /// memory of its own, since only that tells.
  bool takes(const CanonicalConvolution& convolution);
  /// Of products without tensor cores: with features first a ResNet's step took
  /// 3.27 ms, turned arrays and all, with features last 4.73, as matrix
  /// products 3.91; with tensor cores 2.12, 1.84, 3.47 (our measurement:
  /// big_resnet, cuDNN 9.19, H100).
  bool wants_features_first(PrimitiveType type) const;
  /// The call refers to this library. Requires: `takes`. Errors: kDevice where
  /// the workspace is not to be had.
  Result<Call> bind(const CanonicalConvolution& convolution,
                    const CudnnMemory& memory);

  /// As cudnnGetVersion gives it: 91900.
  size_t version() const { return version_; }

 private:
  CudnnLibrary() = default;
  std::string open(void* library, int driver_cuda);
  std::unique_ptr<CudnnPlan> make_plan(const CanonicalConvolution& convolution);
  bool runs(const CudnnPlan& plan);
  Status reserve(size_t bytes);
  Status check(int status, const char* call) const;

  const Driver* driver_ = nullptr;
  Options options_;
  std::shared_ptr<const CudnnFunctions> functions_;
  void* handle_ = nullptr;
  size_t version_ = 0;
  DeviceMemory workspace_;
  /// By the convolution's numbers; null where the library refuses.
  std::map<std::string, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace reprise
