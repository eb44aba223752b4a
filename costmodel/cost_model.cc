// Prices by lookup: a unit by its structural key, else by the roofline of its
// kind; a collective by its points, straight lines between them on logarithmic
// axes (protocols change slope with size, so a line through all would be wrong
// everywhere), and by latency and bandwidth beyond the last one.
#include "costmodel/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace reprise {
namespace {

/// Of the largest: those of a permute may differ.
size_t group_size(const CollectiveSpec& collective) {
  size_t most = 0;
  for (const std::vector<int64_t>& group : collective.groups)
    most = std::max(most, group.size());
  return most;
}

/// How keys of collectives end in which each rank is alone.
constexpr std::string_view kAlone = "/1";

// Time of an amount at a rate; nothing is known of a rate of zero.
double wire_ns(double amount, double amount_per_s) {
  if (amount_per_s <= 0) return 0;
  return amount / amount_per_s * kNanosecondsPerSecond;
}

// Between two points: what they ask beyond the formula, on a straight line over
// log-log axes. A straight line between the times themselves would pay the
// latency more than once, up to twice the time where points lie far apart. The
// result is convex on these axes, so the lower bound also keeps it ascending.
double interpolate(const std::pair<double, double>& low,
                   const std::pair<double, double>& high, double bytes,
                   const CollectivePrice& price) {
  const auto formula_ns = [&price](double size) {
    constexpr double kPositive = 1e-3;
    return std::max(kPositive, price.latency_ns +
                                   wire_ns(size, price.bandwidth_bytes_per_s));
  };
  const double span = std::log(high.first) - std::log(low.first);
  if (span <= 0) return low.second;
  const double weight = (std::log(bytes) - std::log(low.first)) / span;
  const double time_ns =
      formula_ns(bytes) *
      std::pow(low.second / formula_ns(low.first), 1 - weight) *
      std::pow(high.second / formula_ns(high.first), weight);
  return std::max(time_ns, std::min(low.second, high.second));
}

bool is_within(const std::vector<std::pair<double, double>>& points,
               int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return !points.empty() && points.front().first <= size &&
         size <= points.back().first;
}

/// What is said of collectives inside loops and branches; empty without any.
std::string inner_communication(const Schedule& schedule) {
  const Unit* first = nullptr;
  int64_t bytes = 0, others = -1;
  for (const Unit& unit : schedule.units) {
    if (!unit.routine.communicates) continue;
    if (first == nullptr) first = &unit;
    bytes += unit.routine.communicated_bytes;
    ++others;
  }
  if (first == nullptr) return {};
  const std::string more =
      others > 0 ? fmt::format(" and {} more", others) : std::string();
  return fmt::format(
      "{}{}: ranks meet inside ({} bytes a step at least); that is part of the "
      "unit's own time, which no bucket, link or late rank changes here",
      first->name, more, bytes);
}

}  // namespace

std::string collective_key(const CollectiveSpec& collective) {
  return fmt::format("{}/{}/{}", name_of(collective.kind),
                     primitive_type_name(collective.type),
                     group_size(collective));
}

double contention_of(const Contention& contention, const Unit& unit) {
  switch (unit.kind) {
    case UnitKind::kLibrary:
      return contention.library;
    case UnitKind::kCollective:
      return contention.collective;
    case UnitKind::kKernel:
    case UnitKind::kRoutine:
    case UnitKind::kCopy:
      break;
  }
  return contention.kernel;
}

double CollectivePrice::price_ns(double bytes) const {
  const double formula = latency_ns + wire_ns(bytes, bandwidth_bytes_per_s);
  if (points.empty() || bytes <= 0) return formula;
  const auto& first = points.front();
  const auto& last = points.back();
  if (bytes <= first.first) {
    // The formula's own slope from the first point down, never below zero.
    const double below =
        first.second - wire_ns(first.first - bytes, bandwidth_bytes_per_s);
    return std::max(std::min(formula, first.second), below);
  }
  if (bytes >= last.first)
    return last.second + wire_ns(bytes - last.first, bandwidth_bytes_per_s);
  const auto above = std::upper_bound(
      points.begin(), points.end(), bytes,
      [](double value, const std::pair<double, double>& point) {
        return value < point.first;
      });
  return interpolate(*(above - 1), *above, bytes, *this);
}

double CollectivePrice::floor_ns(double bytes) const {
  if (burst_bytes <= 0 || peak_bandwidth_bytes_per_s <= 0)
    return price_ns(bytes);
  return std::min(price_ns(bytes),
                  latency_ns + wire_ns(bytes, peak_bandwidth_bytes_per_s));
}

double Roofline::price_ns(double flops, double bytes) const {
  return overhead_ns +
         std::max(wire_ns(flops, flops_per_s), wire_ns(bytes, bytes_per_s));
}

UnitPrice CostModel::price(const Unit& unit) const {
  if (const auto found = units.find(unit.key); found != units.end()) {
    return found->second;
  }
  const bool by_library =
      unit.kind == UnitKind::kLibrary && library.flops_per_s > 0;
  const Roofline roofline = by_library
                                ? library
                                : Roofline{.flops_per_s = flops_per_s,
                                           .bytes_per_s = bytes_per_s,
                                           .overhead_ns = unit_overhead_ns,
                                           .residual = roofline_residual};
  double alone = roofline.price_ns(unit.flops, unit.bytes);
  for (const InstructionId op : unit.ops) {
    const auto slow = slow_ops_ns.find(index_of(op));
    if (slow != slow_ops_ns.end()) alone += slow->second;
  }
  return {.alone_ns = alone,
          .uncertainty_ns = alone * roofline.residual,
          .source = PriceSource::kModelled};
}

const CollectivePrice* CostModel::find_collective(const Unit& unit) const {
  const std::string key = collective_key(unit.collective);
  if (const auto found = collectives.find(key); found != collectives.end())
    return &found->second;
  if (group_size(unit.collective) == 1) return nullptr;  // It sends nothing.
  const std::string_view kind = name_of(unit.collective.kind);
  const CollectivePrice* any = nullptr;
  for (const auto& [name, price] : collectives) {
    if (name.ends_with(kAlone)) continue;  // A copy, and no price of a link.
    if (std::string_view(name).substr(0, kind.size()) == kind) return &price;
    if (any == nullptr) any = &price;
  }
  return any;
}

PriceSource CostModel::collective_source(const Unit& unit) const {
  const auto own = collectives.find(collective_key(unit.collective));
  if (own == collectives.end() ||
      !is_within(own->second.points, unit.collective.bytes))
    return PriceSource::kModelled;
  return own->second.source;
}

std::vector<std::string> modelled_collectives(const Schedule& schedule,
                                              const CostModel& costs) {
  std::map<std::string, std::string> reasons;
  for (const Unit& unit : schedule.units) {
    if (unit.kind != UnitKind::kCollective ||
        costs.collective_source(unit) != PriceSource::kModelled)
      continue;
    std::string key = collective_key(unit.collective);
    const CollectivePrice* const price = costs.find_collective(unit);
    std::string& reason = reasons[key];
    if (price == nullptr) {
      reason = fmt::format("no {} was recorded: {} is free",
                           group_size(unit.collective) == 1
                               ? "collective of one rank alone"
                               : "collective",
                           key);
    } else if (!costs.collectives.contains(key)) {
      const auto used = std::find_if(
          costs.collectives.begin(), costs.collectives.end(),
          [price](const auto& entry) { return &entry.second == price; });
      reason = fmt::format("{} was not recorded: modelled by the price of {}",
                           key, used->first);
    } else if (!price->points.empty()) {
      reason = fmt::format(
          "{} was recorded from {:.0f} to {:.0f} bytes: beyond, modelled by "
          "latency and bandwidth",
          key, price->points.front().first, price->points.back().first);
    } else {
      reason = fmt::format("{} is modelled by latency and bandwidth", key);
    }
  }
  std::vector<std::string> sentences;
  sentences.reserve(reasons.size() + 1);
  for (auto& [key, reason] : reasons) sentences.push_back(std::move(reason));
  std::string inner = inner_communication(schedule);
  if (!inner.empty()) sentences.push_back(std::move(inner));
  return sentences;
}

std::vector<std::string> assumed_prices(const Schedule& schedule,
                                        const CostModel& costs) {
  std::vector<std::string> sentences;
  size_t modelled = 0, transfers = 0;
  for (const Unit& unit : schedule.units) {
    const bool is_collective = unit.kind == UnitKind::kCollective;
    transfers += is_collective;
    modelled += unit.stream == Stream::kCompute &&
                costs.price(unit).source == PriceSource::kModelled;
  }
  if (modelled > 0) {
    sentences.push_back(fmt::format(
        "{} never measured: modelled by a roofline that is {:.0f} % off in the "
        "mean",
        modelled == 1 ? "1 unit was" : fmt::format("{} units were", modelled),
        100 * costs.roofline_residual));
  }
  if (transfers == 0 || schedule.ranks < 2) return sentences;
  const Contention& contention = costs.contention;
  if (contention.compute_is_assumed || contention.collective_is_assumed) {
    sentences.push_back(fmt::format(
        "no run had {} beside {}: that {} then takes {:.2f} times as long is "
        "assumed, from what TCP costs a core",
        contention.compute_is_assumed ? "compute" : "transfers",
        contention.compute_is_assumed ? "transfers" : "compute",
        contention.compute_is_assumed ? "compute" : "a transfer",
        contention.compute_is_assumed ? contention.kernel
                                      : contention.collective));
  }
  return sentences;
}

}  // namespace reprise
