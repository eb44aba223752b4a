#include "data/formats/collective_points.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace reprise {

std::string collective_key(CollectiveKind kind, int64_t group_size,
                           int64_t bytes, std::optional<PrimitiveType> type) {
  return fmt::format("collective:{}:{}:{}:{}", name_of(kind), group_size, bytes,
                     name_of(type));
}

std::string collective_title(CollectiveKind kind, int64_t group_size,
                             int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B",   "KiB", "MiB",
                                                      "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{} {:.4g} {}, {} ranks", name_of(kind), amount,
                     kUnits[unit], group_size);
}

}  // namespace reprise
