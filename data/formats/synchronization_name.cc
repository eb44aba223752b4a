#include "data/formats/synchronization_name.h"

#include <algorithm>
#include <array>

namespace reprise {
namespace {

/// In the order of SynchronizationKind, which is that of CUPTI's numbers.
constexpr std::array<std::string_view, 5> kNames = {
    "Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
static_assert(kNames.size() ==
              static_cast<size_t>(kLastSynchronizationKind) + 1);

}  // namespace

std::string_view synchronization_name(SynchronizationKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

SynchronizationKind synchronization_of_name(std::string_view name) {
  return synchronization_of_cupti(
      std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
}

SynchronizationKind synchronization_of_cupti(int64_t type) {
  const bool known = type >= 0 && type < static_cast<int64_t>(kNames.size());
  return static_cast<SynchronizationKind>(known ? type : 0);
}

}  // namespace reprise
