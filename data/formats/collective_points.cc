#include "data/formats/collective_points.h"

#include <fmt/format.h>

#include <array>

namespace reprise {

std::string collective_key(std::string_view op, int64_t group_size,
                           int64_t bytes, std::string_view hlo_type) {
  return fmt::format("collective:{}:{}:{}:{}", op, group_size, bytes, hlo_type);
}

std::string collective_title(std::string_view op, int64_t group_size,
                             int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B",   "KiB", "MiB",
                                                      "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{} {:.4g} {}, {} ranks", op, amount, kUnits[unit],
                     group_size);
}

}  // namespace reprise
