#include "data/formats/xplane/xplane_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace reprise {
namespace {

int64_t number_in(std::string_view text, int64_t fallback) {
  int64_t number = fallback;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

int32_t xplane_ordinal(std::string_view device) {
  const size_t at = device.find(':');
  if (at == device.npos) return -1;
  return static_cast<int32_t>(
      std::clamp<int64_t>(number_in(device.substr(at + 1), -1), -1, 1 << 20));
}

std::string_view xplane_chip(std::string_view device) {
  return device.substr(0, device.find(' '));
}

int64_t xplane_stream(std::string_view line) {
  const size_t at = line.find('#');
  return at == line.npos ? -1 : number_in(line.substr(at + 1), -1);
}

int32_t xplane_step(std::string_view name) {
  int32_t step = -1;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data(), end, step);
  return error == std::errc() && last == end && step >= 0 ? step : -1;
}

bool is_python_call(std::string_view name) { return name.starts_with('$'); }

bool is_python_wait(std::string_view name) {
  return is_python_call(name) &&
         (name.ends_with(" block_until_ready") || name.ends_with(" _value"));
}

bool is_hlo_container(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  for (const std::string_view word : {"while", "conditional", "call"}) {
    if (!name.starts_with(word)) continue;
    if (name.size() == word.size()) return true;
    const char next = name[word.size()];
    if (next == '.' || next == ' ') return true;
  }
  return false;
}

std::string xplane_device_label(const Xplane& plane, std::string_view chip) {
  std::string label(chip);
  for (const std::string_view bytes : plane.stats) {
    const XplaneStatValue value = plane.stat(bytes);
    const bool tells = value.stat == XplaneStat::kVendor ||
                       value.stat == XplaneStat::kDeviceType;
    if (tells && !value.text.empty())
      label = fmt::format("{} {}", value.text, label);
  }
  return label;
}

}  // namespace reprise
