// Resolves the prices of a schedule, and the order of its streams.
#include "replay/graph/priced_schedule.h"

#include <algorithm>

namespace reprise {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

void price_unit(PricedSchedule& priced, size_t place, const CostModel& costs) {
  const Unit& unit = priced.schedule->units[place];
  priced.slowdown[place] = std::max(1.0, contention_of(costs.contention, unit));
  if (unit.stream == Stream::kCompute) {
    // Ranks meet again, and then the slowest counts.
    priced.slowdown[place] *= std::max(1.0, costs.contention.slowest);
    const UnitPrice price = costs.price(unit);
    priced.duration_ns[place] = price.alone_ns;
    priced.source[place] = price.source;
    return;
  }
  const CollectivePrice* price = costs.find_collective(unit);
  if (price == nullptr) return;
  const double bytes = static_cast<double>(unit.collective.bytes);
  priced.duration_ns[place] = price->price_ns(bytes);
  priced.floor_ns[place] = price->floor_ns(bytes);
  priced.latency_ns[place] = price->latency_ns;
  priced.preempted_ns[place] = price->preempted_ns;
  priced.source[place] = costs.collective_source(unit);
  if (price->bandwidth_bytes_per_s <= 0) return;
  const double wire_ns_per_byte =
      kNanosecondsPerSecond / price->bandwidth_bytes_per_s;
  priced.wire_ns[place] = bytes * wire_ns_per_byte;
  priced.burst_ns =
      std::max(priced.burst_ns, price->burst_bytes * wire_ns_per_byte);
}

}  // namespace

Result<StreamOrder> stream_order(const Schedule& schedule,
                                 std::span<const UnitId> order) {
  const std::vector<Unit>& units = schedule.units;
  constexpr uint32_t kUnplaced = UINT32_MAX;
  StreamOrder result;
  std::vector<uint32_t> place(units.size(), kUnplaced);  // Within its stream.
  std::vector<uint32_t> position(units.size(), kUnplaced);
  for (const UnitId id : order) {
    const uint32_t unit = index_of(id);
    if (unit >= units.size() || place[unit] != kUnplaced) {
      return fail(ErrorKind::kInvalid,
                  "order: unit {} is unknown or listed twice", unit);
    }
    auto& stream = units[unit].stream == Stream::kCompute
                       ? result.compute
                       : result.communication;
    position[unit] = static_cast<uint32_t>(result.compute.size() +
                                           result.communication.size());
    place[unit] = static_cast<uint32_t>(stream.size());
    stream.push_back(unit);
  }
  if (order.size() != units.size()) {
    return fail(ErrorKind::kInvalid, "order: lists {} of {} units",
                order.size(), units.size());
  }
  result.compute_needs.assign(result.compute.size(), 0);
  result.communication_needs.assign(result.communication.size(), 0);
  for (const Dependency& dependency : schedule.dependencies) {
    if (dependency.steps > 0)
      continue;  // The barrier at the step's end satisfies it.
    const uint32_t before = index_of(dependency.before);
    const uint32_t after = index_of(dependency.after);
    if (position[before] >= position[after]) {
      return fail(ErrorKind::kInvalid,
                  "order: {} stands before {}, which it depends on",
                  units[after].name, units[before].name);
    }
    if (units[before].stream == units[after].stream) continue;
    auto& needs = units[after].stream == Stream::kCompute
                      ? result.compute_needs
                      : result.communication_needs;
    needs[place[after]] = std::max(needs[place[after]], place[before] + 1);
  }
  return result;
}

PricedSchedule price_schedule(const Schedule& schedule,
                              const CostModel& costs) {
  const size_t count = schedule.units.size();
  PricedSchedule priced;
  priced.schedule = &schedule;
  priced.duration_ns.assign(count, 0);
  priced.slowdown.assign(count, 1);
  priced.wire_ns.assign(count, 0);
  priced.floor_ns.assign(count, 0);
  priced.latency_ns.assign(count, 0);
  priced.preempted_ns.assign(count, 0);
  priced.source.assign(count, PriceSource::kModelled);
  priced.rank_factor.assign(
      static_cast<size_t>(std::max<int64_t>(1, schedule.ranks)), 1);
  priced.dispatch_ns = costs.dispatch_ns;
  priced.feed_ns = costs.feed_ns;
  priced.compute_wake_ns = costs.compute_wake_ns;
  priced.communication_wake_ns = costs.communication_wake_ns;
  priced.communication_gap_ns = costs.communication_gap_ns;
  priced.jitter_sqrt_ns = costs.jitter_sqrt_ns;
  priced.meeting_ns = costs.meeting_ns;
  priced.unexplained_ns = costs.unexplained_ns;
  priced.step_overhead_ns = costs.step_overhead_ns;
  for (size_t place = 0; place < count; ++place)
    price_unit(priced, place, costs);
  std::vector<UnitId> order;
  for (uint32_t place = 0; place < count; ++place)
    order.push_back(UnitId{place});
  Result<StreamOrder> streams = stream_order(schedule, order);
  REPRISE_CHECK(streams.has_value());
  priced.order = *std::move(streams);
  return priced;
}

}  // namespace reprise
