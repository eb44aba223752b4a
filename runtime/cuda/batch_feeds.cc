// A stream waits for a parameter's copy before the first of its units that
// touches the buffer; its later ones come after that one anyway.
#include "runtime/cuda/batch_feeds.h"

#include <algorithm>
#include <set>
#include <utility>

namespace reprise {

Result<BatchFeeds> BatchFeeds::create(const Driver& driver,
                                      const Schedule& schedule,
                                      const DeviceProgram& program,
                                      const std::vector<int64_t>& fed) {
  BatchFeeds made(driver);
  made.before_.resize(schedule.units.size());
  for (const int64_t number : fed) {
    const Location location = program.parameter(number);
    Result<PinnedMemory> staging = PinnedMemory::allocate(
        driver, static_cast<size_t>(location.size_bytes));
    if (!staging) return pass(staging.error(), "staging of a batch");
    Result<DeviceEvent> copied = make_event(driver, /*timed=*/false);
    if (!copied) return pass(copied.error());
    made.find_first_uses(schedule, location);
    made.feeds_.push_back({.parameter = number,
                           .target = program.address_of(location),
                           .staging = std::move(*staging),
                           .copied = std::move(*copied)});
  }
  return made;
}

/// Of the feed that comes next: the first unit of each stream that touches it.
void BatchFeeds::find_first_uses(const Schedule& schedule,
                                 const Location& location) {
  const auto touches = [&](const Location& other) {
    return other.buffer == location.buffer;
  };
  std::set<Stream> waiting;
  for (size_t i = 0; i < schedule.units.size(); ++i) {
    const Unit& unit = schedule.units[i];
    const bool uses =
        std::any_of(unit.reads.begin(), unit.reads.end(), touches) ||
        std::any_of(unit.writes.begin(), unit.writes.end(), touches);
    if (uses && waiting.insert(unit.stream).second)
      before_[i].push_back(static_cast<uint32_t>(feeds_.size()));
  }
}

std::optional<std::span<std::byte>> BatchFeeds::staging(
    int64_t parameter) const {
  for (const Feed& feed : feeds_) {
    if (feed.parameter == parameter) return feed.staging.bytes();
  }
  return std::nullopt;
}

Status BatchFeeds::copy(const DeviceStream& stream) const {
  Status status;
  for (const Feed& feed : feeds_) {
    const std::span<const std::byte> bytes = feed.staging.bytes();
    status = driver_->check(
        driver_->copy_to_device_async(feed.target, bytes.data(), bytes.size(),
                                      stream.get()),
        "cuMemcpyHtoDAsync");
    if (status) status = driver_->record(feed.copied, stream);
    if (!status) return status;
  }
  return status;
}

Status BatchFeeds::wait_before(UnitId unit, const DeviceStream& stream) const {
  Status status;
  for (const uint32_t feed : before_[index_of(unit)]) {
    if (status) status = driver_->wait(stream, feeds_[feed].copied);
  }
  return status;
}

}  // namespace reprise
