#include <fmt/format.h>

#include <cmath>

#include "data/trace/json_text.h"

namespace reprise {

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace reprise
