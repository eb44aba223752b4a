// A convolution between what brings its operands into the library's order and
// what brings its result back.
#include <array>
#include <optional>
#include <utility>

#include "runtime/cuda/device_unit_calls.h"

namespace reprise {
namespace {

class DeviceConvolution final : public DeviceRoutine {
 public:
  DeviceConvolution(std::vector<std::unique_ptr<DeviceRoutine>> before,
                    const CudnnLibrary::Call& call,
                    std::unique_ptr<DeviceRoutine> after)
      : before_(std::move(before)), call_(call), after_(std::move(after)) {}

  Status enqueue(CUstream stream) override {
    Status status;
    for (const auto& program : before_) {
      if (status) status = program->enqueue(stream);
    }
    if (status) status = call_.enqueue(stream);
    if (status && after_ != nullptr) status = after_->enqueue(stream);
    return status;
  }

  // An algorithm may be several kernels, for all that is known.
  int64_t operations() const override {
    int64_t all = after_ == nullptr ? 1 : 1 + after_->operations();
    for (const auto& program : before_) all += program->operations();
    return all;
  }

 private:
  std::vector<std::unique_ptr<DeviceRoutine>> before_;
  CudnnLibrary::Call call_;
  std::unique_ptr<DeviceRoutine> after_;
};

}  // namespace

Result<std::unique_ptr<DeviceRoutine>> make_library_convolution(
    DeviceResources& resources, const LibraryRoutine& routine,
    const DeviceArrays& arrays) {
  const CUdeviceptr memory = resources.expansion.address();
  CudnnMemory at{.lhs = arrays.operands[0].base,
                 .rhs = arrays.operands[1].base,
                 .result = arrays.results[0].base};
  const auto arranged = [&](int64_t offset) {
    return memory + static_cast<CUdeviceptr>(offset);
  };
  std::vector<std::unique_ptr<DeviceRoutine>> before;
  const CanonicalConvolution& c = routine.convolution;
  const auto array = [&](CUdeviceptr address, const ArrayExtents& shape) {
    return DeviceSpan{.base = address,
                      .size_bytes = static_cast<size_t>(
                          product(shape) * primitive_type_bits(c.type) / 8)};
  };
  const auto bring = [&](const std::optional<ExpandedRoutine>& program,
                         int64_t offset, const ArrayExtents& shape,
                         CUdeviceptr* address) -> Status {
    if (!program) return {};
    auto made = make_expanded(resources, *program,
                              {.operands = {array(*address, shape)},
                               .results = {array(arranged(offset), shape)},
                               .workspace = memory});
    if (!made) return pass(made.error());
    before.push_back(*std::move(made));
    *address = arranged(offset);
    return {};
  };
  Status status =
      bring(routine.lhs, routine.lhs_offset, c.lhs_shape(), &at.lhs);
  if (status)
    status = bring(routine.rhs, routine.rhs_offset, c.rhs_shape(), &at.rhs);
  if (!status) return pass(status.error());
  std::unique_ptr<DeviceRoutine> after;
  if (routine.result) {
    at.result = arranged(routine.result_offset);
    auto made = make_expanded(resources, *routine.result,
                              {.operands = {array(at.result, c.result_shape())},
                               .results = arrays.results,
                               .workspace = memory});
    if (!made) return pass(made.error());
    after = *std::move(made);
  }
  const Result<CudnnLibrary::Call> call = resources.binding.cudnn->bind(c, at);
  if (!call) return pass(call.error());
  return std::make_unique<DeviceConvolution>(std::move(before), *call,
                                             std::move(after));
}

}  // namespace reprise
