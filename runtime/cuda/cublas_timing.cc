// How long each algorithm of a shape takes, on operands of its own that lie as
// the schedule's do. Zeros would let a device run faster than it does in a step
// (fewer bits switch), so the operands hold a number.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cublas_plan.h"

namespace reprise {
namespace {

/// Launches before and within one timing, and timings of which the shortest
/// counts.
constexpr int kWarmUps = 2, kLaunches = 4, kTimings = 3;
/// Another algorithm than the library's first must take this much less: two
/// that are alike should not change places from one machine to the next.
constexpr double kClearlyLess = 0.97;
/// Four of them are 2.9e-3 in f32; two, 2.9e-3 in bf16 and 0.9 in f16.
constexpr uint8_t kOperandByte = 0x3B;

size_t extent_bytes(const ColumnMajor& matrix, int64_t batches, int64_t width) {
  const int64_t elements = (batches - 1) * matrix.batch_stride +
                           (matrix.columns - 1) * matrix.leading + matrix.rows;
  return static_cast<size_t>(elements * width);
}

}  // namespace

/// Memory and events of one shape's timings.
class CublasLibrary::Timer {
 public:
  Timer(CublasLibrary& library, CublasPlan& plan)
      : library_(library), driver_(*library.driver_), plan_(plan) {}

  Status prepare() {
    const MatrixProduct& product = plan_.product;
    const int64_t width = primitive_type_bits(product.type) / 8;
    call_.library_ = &library_;
    call_.plan_ = &plan_;
    call_.offsets_ = {MatrixOffsets{}};
    const size_t out = extent_bytes(product.out, product.batches, width);
    Status status =
        place(call_.a_, extent_bytes(product.a, product.batches, width));
    if (status)
      status = place(call_.b_, extent_bytes(product.b, product.batches, width));
    if (status) status = place(call_.out_, out);
    if (status && product.has_accumulate)
      status = place(call_.accumulate_, out);
    if (status && product.has_bias)
      status =
          place(call_.bias_, static_cast<size_t>(product.out.rows * width));
    if (status && product.has_bias)
      status = library_.set_bias_of(plan_, call_.bias_);
    if (!status) return status;
    Result<CudaStream> stream = make_stream(driver_, /*urgent=*/false);
    if (!stream) return pass(stream.error());
    stream_ = std::move(*stream);
    for (CudaEvent* event : {&start_, &end_}) {
      Result<CudaEvent> made = make_event(driver_, /*timed=*/true);
      if (!made) return pass(made.error());
      *event = std::move(*made);
    }
    return driver_.synchronize(nullptr);
  }

  /// Milliseconds a launch; nothing where the algorithm is refused.
  Result<std::optional<double>> time(size_t algorithm) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kWarmUps; ++i) {
      if (!launch(algorithm)) return std::optional<double>();
    }
    for (int timing = 0; timing < kTimings; ++timing) {
      Status status = driver_.record(start_, stream_);
      for (int i = 0; i < kLaunches; ++i) {
        if (!launch(algorithm)) return std::optional<double>();
      }
      if (status) status = driver_.record(end_, stream_);
      if (status) status = driver_.synchronize(stream_.get());
      float milliseconds = 0;
      if (status) {
        status = driver_.check(
            driver_.event_elapsed_time(&milliseconds, start_.get(), end_.get()),
            "cuEventElapsedTime");
      }
      if (!status) return pass(status.error());
      best = std::min(best, static_cast<double>(milliseconds) / kLaunches);
    }
    return std::optional<double>(best);
  }

 private:
  // Aligned as the shape's operands are, no better.
  Status place(CUdeviceptr& address, size_t bytes) {
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(driver_, bytes + plan_.alignment);
    if (!memory) return pass(memory.error(), "operands to time dots with");
    address = memory->address() + plan_.alignment;
    memory_.push_back(std::move(*memory));
    return driver_.check(
        driver_.memset_async(address, kOperandByte, bytes, nullptr),
        "cuMemsetD8Async");
  }
  bool launch(size_t algorithm) const {
    return library_.launch(plan_, algorithm, call_, {}, stream_.get()) ==
           CUBLAS_STATUS_SUCCESS;
  }

  CublasLibrary& library_;
  const Driver& driver_;
  CublasPlan& plan_;
  Call call_;
  std::vector<DeviceMemory> memory_;
  CudaStream stream_;
  CudaEvent start_, end_;
};

Result<std::string> CublasLibrary::fastest(const std::string& shape) {
  CublasPlan& plan = *plans_.at(shape);
  std::optional<size_t> best;
  double best_ms = 0;
  if (plan.algorithms.size() > 1) {
    Timer timer(*this, plan);
    const Status prepared = timer.prepare();
    if (!prepared) return pass(prepared.error());
    for (size_t i = 0; i < plan.algorithms.size(); ++i) {
      const auto took = timer.time(i);
      if (!took) return pass(took.error(), shape);
      if (!*took) continue;
      if (!best || **took < kClearlyLess * best_ms) {
        best = i;
        best_ms = **took;
      }
    }
  }
  const cublasLtMatmulAlgo_t& chosen = plan.algorithms[best.value_or(0)];
  return std::string(reinterpret_cast<const char*>(&chosen), sizeof chosen);
}

}  // namespace reprise
