#include "data/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace reprise {
namespace {

std::string percentage(double percent) {
  return fmt::format("{:.{}f} %", percent,
                     percent > 0 && percent < 9.95 ? 1 : 0);
}

}  // namespace

std::string duration_text(double nanoseconds) {
  const double magnitude = std::fabs(nanoseconds);
  const auto scaled = [](double value, const char* unit) {
    const int decimals = std::fabs(value) < 10    ? 2
                         : std::fabs(value) < 100 ? 1
                                                  : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (magnitude >= 1e9) return scaled(nanoseconds / 1e9, "s");
  if (magnitude >= 1e6) return scaled(nanoseconds / 1e6, "ms");
  if (magnitude >= 1e3) return scaled(nanoseconds / 1e3, "us");
  return fmt::format("{:.0f} ns", nanoseconds);
}

std::string time_text(int64_t time_ns) {
  return duration_text(static_cast<double>(time_ns));
}

std::string share_text(double share) { return percentage(100 * share); }

std::string share_text(int64_t part, int64_t whole) {
  if (whole <= 0) return "-";
  return percentage(100 * static_cast<double>(part) /
                    static_cast<double>(whole));
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.1f} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

std::string percent_text(double ratio) {
  return fmt::format("{:+.1f} %", ratio * 100);
}

}  // namespace reprise
