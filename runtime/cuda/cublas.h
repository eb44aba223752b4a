// Dots by cuBLASLt, opened when used: one algorithm for each distinct shape,
// chosen once by the library's heuristics and kept, so that every step and
// every captured graph computes the same bits.
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

  /// A dot bound to its memory.
  class Call {
   public:
    /// Enqueues the dot. Errors: kDevice.
    Status enqueue(CUstream stream) const;

   private:
    friend class CublasLibrary;
    const CublasLibrary* library_ = nullptr;
    const struct CublasPlan* plan_ = nullptr;
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

  /// As cublasLtGetVersion gives it: 130100.
  size_t version() const { return version_; }

 private:
  CublasLibrary() = default;
  Result<std::unique_ptr<CublasPlan>> make_plan(const MatrixProduct& product,
                                                CUdeviceptr bias,
                                                uint32_t alignment) const;
  Status check(int status, const char* call) const;
  std::string bind(void* library, int driver_cuda);

  Options options_;
  std::shared_ptr<const CublasFunctions> functions_;
  void* handle_ = nullptr;
  size_t version_ = 0;
  DeviceMemory workspace_;
  std::map<std::string, std::unique_ptr<CublasPlan>> plans_;
};

}  // namespace reprise
