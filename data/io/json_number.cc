#include <fmt/format.h>

#include <cmath>

#include "data/io/json_text.h"

namespace reprise {

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace reprise
