// Dots by cuBLASLt, opened when used: one algorithm for each distinct shape,
// the library's first choice or the fastest of its choices (dot_algorithms.h),
// kept, so that every step and every captured graph computes the same bits. One
// that the library refuses when it is used gives way to its next choice.
//
// A unit's epilogue is cuBLASLt's: bias and relu as CUBLASLT_EPILOGUE_BIAS,
// RELU or RELU_BIAS, an accumulated matrix as C with beta 1, a scale as alpha.
// Only f32 dots have one, and all of it is f32, the bias too: TF32, where asked
// for, rounds the operands of the product and nothing after it. cuBLASLt adds C
// before the bias, where the CPU adds it after, and its relu may turn NaN into
// 0, where HLO's maximum keeps it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/cublas_shape.h"
#include "runtime/cuda/driver.h"

namespace reprise {

struct CublasFunctions;
struct CublasPlan;

/// First elements of a dot's operands; bias and accumulate as the spec has
/// them.
struct CublasMemory {
  CUdeviceptr lhs = 0, rhs = 0, out = 0, bias = 0, accumulate = 0;
};

/// The library and one stream's workspace. Calls belong to one thread.
class CublasLibrary {
 public:
  struct Options {
    MatrixMath math = MatrixMath::kF32;
    /// Bytes that algorithms may use beside their operands. NVIDIA recommends
    /// 32 MiB on Hopper.
    /// Source: cuBLAS documentation, cublasSetWorkspace.
    size_t workspace_bytes = size_t{32} << 20;
  };

  /// By which the library knows an algorithm of one of its versions.
  static constexpr size_t kAlgorithmBytes = 64;

  /// A dot bound to its memory.
  class Call {
   public:
    /// Enqueues the dot. Errors: kDevice.
    Status enqueue(CUstream stream) const;

   private:
    friend class CublasLibrary;
    const CublasLibrary* library_ = nullptr;
    CublasPlan* plan_ = nullptr;
    CUdeviceptr a_ = 0, b_ = 0, out_ = 0, bias_ = 0, accumulate_ = 0;
    float alpha_ = 1;
    std::vector<MatrixOffsets> offsets_;  ///< Bytes.
  };

  /// Opens the newest libcublasLt that the driver runs and that makes a handle
  /// (nvidia_library.h). Requires: the device's context is current. Errors:
  /// kDevice.
  static Result<std::unique_ptr<CublasLibrary>> create(const Driver& driver,
                                                       const Options& options);
  ~CublasLibrary();
  CublasLibrary(const CublasLibrary&) = delete;
  CublasLibrary& operator=(const CublasLibrary&) = delete;

  /// Binds a dot to its memory. The call refers to this library. Errors:
  /// kUnsupported for types, strides and epilogues (`matrix_product`) that
  /// cuBLASLt refuses; kDevice.
  Result<Call> bind(const DotSpec& spec, const CublasMemory& memory);

  /// Every distinct shape bound so far, in order: type, extents, strides,
  /// alignment, epilogue.
  std::vector<std::string> shapes() const;
  /// The fastest algorithm of a shape on this device, timed on memory of its
  /// own, as bytes for `use`, here or in another process with this version of
  /// the library on a like device; the library's first choice unless another
  /// takes clearly less. Requires: `shape` is one of `shapes()`, and nothing
  /// else runs. Errors: kDevice, also where the memory is not to be had.
  /// Source: cuBLAS documentation, cublasLtMatmulAlgo_t ("can be trivially
  /// serialized and later restored for use with the same version").
  Result<std::string> fastest(const std::string& shape);
  /// Uses these bytes for the shape from now on, before its other choices;
  /// false where the library refuses them or there is no such shape.
  bool use(const std::string& shape, const std::string& algorithm);

  /// As cublasLtGetVersion gives it: 130100.
  size_t version() const { return version_; }
  const Options& options() const { return options_; }

 private:
  class Timer;

  CublasLibrary() = default;
  Result<std::unique_ptr<CublasPlan>> make_plan(const MatrixProduct& product,
                                                CUdeviceptr bias,
                                                uint32_t alignment) const;
  Status set_bias_of(const CublasPlan& plan, CUdeviceptr bias) const;
  Status multiply(CublasPlan& plan, const Call& call, CUstream stream) const;
  int launch(const CublasPlan& plan, size_t algorithm, const Call& call,
             const MatrixOffsets& offset, CUstream stream) const;
  Status check(int status, const char* call) const;
  std::string bind(void* library, int driver_cuda);

  const Driver* driver_ = nullptr;
  Options options_;
  std::shared_ptr<const CublasFunctions> functions_;
  void* handle_ = nullptr;
  size_t version_ = 0;
  DeviceMemory workspace_;
  std::map<std::string, std::unique_ptr<CublasPlan>> plans_;
};

}  // namespace reprise
