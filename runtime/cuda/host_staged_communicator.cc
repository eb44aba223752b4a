#include "runtime/cuda/host_staged_communicator.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise {
namespace {

class HostStagedCommunicator final : public DeviceCommunicator {
 public:
  HostStagedCommunicator(const Driver& driver,
                         std::unique_ptr<Communicator> host)
      : driver_(driver), host_(std::move(host)) {}

  Status attach(DeviceSpan memory, size_t largest_bytes) override;
  Status check(const CollectiveSpec& spec) const override {
    return host_->check(spec);
  }
  bool is_host_staged() const override { return true; }
  bool is_immediate() const override { return host_->is_immediate(); }
  Status enqueue(const CollectiveSpec& spec, uint64_t data,
                 CUstream_st* stream) override;

 private:
  Status copy_back(uint64_t data, size_t size_bytes, CUstream_st* stream);

  const Driver& driver_;
  std::unique_ptr<Communicator> host_;
  DeviceSpan memory_;
  PinnedMemory staging_;
  /// Where the last result is copied from the staging memory.
  std::optional<CUstream_st*> last_stream_;
};

Status HostStagedCommunicator::attach(DeviceSpan memory, size_t largest_bytes) {
  memory_ = memory;
  Result<PinnedMemory> staging =
      PinnedMemory::allocate(driver_, std::max<size_t>(largest_bytes, 1));
  if (!staging) return pass(staging.error());
  staging_ = std::move(*staging);
  return host_->attach(staging_.bytes());
}

Status HostStagedCommunicator::enqueue(const CollectiveSpec& spec,
                                       uint64_t data, CUstream_st* stream) {
  const auto size_bytes = static_cast<size_t>(spec.bytes);
  REPRISE_CHECK(size_bytes <= staging_.bytes().size());
  REPRISE_CHECK(data >= memory_.base &&
                data - memory_.base + size_bytes <= memory_.size_bytes);
  Status status;
  // The stream's own copy out of the staging memory comes before what follows;
  // another stream's may still be reading.
  if (last_stream_ && *last_stream_ != stream) {
    status = driver_.check(driver_.stream_synchronize(*last_stream_),
                           "cuStreamSynchronize");
  }
  last_stream_ = stream;
  if (status) {
    status = driver_.check(driver_.copy_to_host_async(staging_.bytes().data(),
                                                      data, size_bytes, stream),
                           "cuMemcpyDtoHAsync");
  }
  if (status) {
    status = driver_.check(driver_.stream_synchronize(stream),
                           "cuStreamSynchronize");
  }
  if (status) status = host_->run(spec, staging_.bytes().data());
  return status ? copy_back(data, size_bytes, stream) : status;
}

Status HostStagedCommunicator::copy_back(uint64_t data, size_t size_bytes,
                                         CUstream_st* stream) {
  return driver_.check(driver_.copy_to_device_async(
                           data, staging_.bytes().data(), size_bytes, stream),
                       "cuMemcpyHtoDAsync");
}

}  // namespace

std::unique_ptr<DeviceCommunicator> make_host_staged_communicator(
    const Driver& driver, std::unique_ptr<Communicator> host) {
  return std::make_unique<HostStagedCommunicator>(driver, std::move(host));
}

}  // namespace reprise
