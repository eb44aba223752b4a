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
  Status enqueue(const CollectiveSpec& spec,
                 std::span<const ArrayAddresses> arrays,
                 CUstream_st* stream) override;

 private:
  void check_within(uint64_t data, size_t size_bytes) const {
    REPRISE_CHECK(data >= memory_.base &&
                  data - memory_.base + size_bytes <= memory_.size_bytes);
  }
  struct StagedArray {
    std::byte *from = nullptr, *to = nullptr;
    size_t in = 0, out = 0;  ///< Bytes.
  };
  std::vector<StagedArray> stage(const CollectiveSpec& spec,
                                 std::span<const ArrayAddresses> arrays) const;
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

/// The operands and results of all arrays, one behind the other.
std::vector<HostStagedCommunicator::StagedArray> HostStagedCommunicator::stage(
    const CollectiveSpec& spec, std::span<const ArrayAddresses> arrays) const {
  std::vector<StagedArray> staged;
  std::byte* free = staging_.bytes().data();
  for (size_t a = 0; a < arrays.size(); ++a) {
    const auto& [input, output] = spec.arrays[a];
    const bool in_place = arrays[a].input == arrays[a].output;
    StagedArray& array = staged.emplace_back();
    array.in = static_cast<size_t>(input.size_bytes);
    array.out = static_cast<size_t>(output.size_bytes);
    check_within(arrays[a].input, array.in);
    check_within(arrays[a].output, array.out);
    array.from = free;
    array.to = in_place ? free : free + array.in;
    free = array.to + array.out;
  }
  REPRISE_CHECK(free <= staging_.bytes().data() + staging_.bytes().size());
  return staged;
}

Status HostStagedCommunicator::enqueue(const CollectiveSpec& spec,
                                       std::span<const ArrayAddresses> arrays,
                                       CUstream_st* stream) {
  std::vector<StagedArray> staged = stage(spec, arrays);
  Status status = let_go_of_staging(stream);
  for (size_t a = 0; a < arrays.size() && status; ++a) {
    status = driver_.check(
        driver_.copy_to_host_async(staged[a].from, arrays[a].input,
                                   staged[a].in, stream),
        "cuMemcpyDtoHAsync");
  }
  if (status) status = driver_.synchronize(stream, timeout_s_);
  std::vector<ArrayBytes> bytes;
  bytes.reserve(staged.size());
  for (const StagedArray& array : staged)
    bytes.push_back({array.from, array.to});
  if (status) status = host_->run(spec, bytes, 0);
  for (size_t a = 0; a < arrays.size() && status; ++a) {
    status = driver_.check(
        driver_.copy_to_device_async(arrays[a].output, staged[a].to,
                                     staged[a].out, stream),
        "cuMemcpyHtoDAsync");
  }
  return status;
}

}  // namespace

std::unique_ptr<DeviceCommunicator> make_host_staged_communicator(
    const Driver& driver, std::unique_ptr<Communicator> host,
    double timeout_s) {
  return std::make_unique<HostStagedCommunicator>(driver, std::move(host),
                                                  timeout_s);
}

}  // namespace reprise
