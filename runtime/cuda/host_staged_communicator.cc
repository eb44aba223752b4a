#include "runtime/cuda/host_staged_communicator.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise {
namespace {

class HostStagedCommunicator final : public DeviceCommunicator {
 public:
  HostStagedCommunicator(const Driver& driver,
                         std::unique_ptr<Communicator> host, double timeout_s)
      : driver_(driver), host_(std::move(host)), timeout_s_(timeout_s) {}

  Status attach(DeviceSpan memory, size_t largest_bytes) override;
  Status check(const CollectiveSpec& spec) const override {
    return host_->check(spec);
  }
  bool is_host_staged() const override { return true; }
  bool is_immediate() const override { return host_->is_immediate(); }
  Status enqueue(const CollectiveSpec& spec, uint64_t input, uint64_t output,
                 CUstream_st* stream) override;

 private:
  void check_within(uint64_t data, size_t size_bytes) const {
    REPRISE_CHECK(data >= memory_.base &&
                  data - memory_.base + size_bytes <= memory_.size_bytes);
  }
  Status let_go_of_staging(CUstream_st* stream);

  const Driver& driver_;
  std::unique_ptr<Communicator> host_;
  const double timeout_s_;
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

/// The stream's own copy out of the staging memory comes before what follows;
/// another stream's may still be reading.
Status HostStagedCommunicator::let_go_of_staging(CUstream_st* stream) {
  const std::optional<CUstream_st*> last = std::exchange(last_stream_, stream);
  if (!last || *last == stream) return {};
  return driver_.synchronize(*last, timeout_s_);
}

Status HostStagedCommunicator::enqueue(const CollectiveSpec& spec,
                                       uint64_t input, uint64_t output,
                                       CUstream_st* stream) {
  const bool in_place = input == output;
  const auto whole = static_cast<size_t>(spec.bytes);
  const size_t in =
      in_place ? whole : static_cast<size_t>(spec.input.size_bytes);
  const size_t out =
      in_place ? whole : static_cast<size_t>(spec.output.size_bytes);
  REPRISE_CHECK(touched_bytes(spec) <= staging_.bytes().size());
  check_within(input, in);
  check_within(output, out);
  std::byte* const from = staging_.bytes().data();
  std::byte* const to = in_place ? from : from + in;
  Status status = let_go_of_staging(stream);
  if (status) {
    status = driver_.check(driver_.copy_to_host_async(from, input, in, stream),
                           "cuMemcpyDtoHAsync");
  }
  if (status) status = driver_.synchronize(stream, timeout_s_);
  if (status) status = host_->run(spec, from, to);
  if (!status) return status;
  return driver_.check(driver_.copy_to_device_async(output, to, out, stream),
                       "cuMemcpyHtoDAsync");
}

}  // namespace

std::unique_ptr<DeviceCommunicator> make_host_staged_communicator(
    const Driver& driver, std::unique_ptr<Communicator> host,
    double timeout_s) {
  return std::make_unique<HostStagedCommunicator>(driver, std::move(host),
                                                  timeout_s);
}

}  // namespace reprise
