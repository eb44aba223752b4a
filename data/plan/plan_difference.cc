#include "data/plan/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace reprise {
namespace {

/// The first place in which the lists differ, told by `tell` of a place.
template <typename Item, typename Tell>
std::string difference_of(const std::vector<Item>& planned,
                          const std::vector<Item>& ran, std::string_view what,
                          Tell tell) {
  const size_t both = std::min(planned.size(), ran.size());
  for (size_t i = 0; i < both; ++i) {
    if (planned[i] == ran[i]) continue;
    return fmt::format("{} {}: {} was planned, {} ran", what, i,
                       tell(planned[i]), tell(ran[i]));
  }
  if (planned.size() == ran.size()) return {};
  return fmt::format("{} {}: {} were planned, {} ran", what, both,
                     planned.size(), ran.size());
}

std::string listed(const std::string& unit,
                   const std::vector<std::string>& members) {
  const std::string first = members.empty() ? "nothing" : members.front();
  return fmt::format("{} of {}{}", unit, first,
                     members.size() > 1
                         ? fmt::format(" and {} more", members.size() - 1)
                         : std::string());
}

}  // namespace

std::string plan_difference(const Plan& planned, const Plan& ran) {
  if (planned.program_fingerprint != ran.program_fingerprint) {
    return "another program ran";
  }
  if (planned.ranks != ran.ranks) {
    return fmt::format("{} ranks were planned, {} ran", planned.ranks,
                       ran.ranks);
  }
  std::string found = difference_of(
      planned.fusion, ran.fusion, "fusion group",
      [](const FusionGroup& group) { return listed(group.unit, group.ops); });
  if (found.empty()) {
    found = difference_of(planned.buckets, ran.buckets, "bucket",
                          [](const Bucket& bucket) {
                            return listed(bucket.unit, bucket.collectives);
                          });
  }
  if (found.empty()) {
    found = difference_of(planned.order, ran.order, "place in the order",
                          [](const std::string& unit) { return unit; });
  }
  return found;
}

}  // namespace reprise
