#include "data/formats/kineto/kineto_halves.h"

#include <fmt/format.h>

#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Open at a time; calls of Python are nested some hundreds deep.
constexpr size_t kMostOpen = 10'000;
/// Longer arguments are left out.
constexpr size_t kLongestArguments = 4096;

constexpr std::string_view ChromeEvent::*kFields[] = {
    &ChromeEvent::category,    &ChromeEvent::name,
    &ChromeEvent::process,     &ChromeEvent::thread,
    &ChromeEvent::start,       &ChromeEvent::external_id,
    &ChromeEvent::correlation, &ChromeEvent::device,
    &ChromeEvent::stream,      &ChromeEvent::bytes,
    &ChromeEvent::graph_node,  &ChromeEvent::arguments};

/// The arguments alone, of a text that may go on behind them.
std::string_view only_arguments(std::string_view text) {
  uint8_t defects = 0;
  const size_t end =
      text.empty() ? 0 : end_of_json_value(text, 0, true, defects);
  return end <= kLongestArguments ? text.substr(0, end) : std::string_view();
}

}  // namespace

bool KinetoHalves::begin(const ChromeEvent& event) {
  if (open_ >= kMostOpen) return false;
  ChromeEvent source = event;
  source.arguments = only_arguments(event.arguments);
  Kept kept;
  kept.event.phase = 'X';
  size_t size = 0;
  for (const auto field : kFields) size += (source.*field).size();
  kept.text.reserve(size);
  for (const auto field : kFields) {
    const std::string_view value = source.*field;
    const size_t at = kept.text.size();
    kept.text.insert(kept.text.end(), value.begin(), value.end());
    kept.event.*field = {kept.text.data() + at, value.size()};
  }
  begun_[{std::string(event.process), std::string(event.thread)}].push_back(
      std::move(kept));
  ++open_;
  return true;
}

const ChromeEvent* KinetoHalves::end(const ChromeEvent& event) {
  const auto thread =
      begun_.find({std::string(event.process), std::string(event.thread)});
  if (thread == begun_.end()) return nullptr;
  ended_ = std::move(thread->second.back());
  thread->second.pop_back();
  if (thread->second.empty()) begun_.erase(thread);
  --open_;
  const auto start = parse_microseconds(ended_.event.start);
  const auto end = parse_microseconds(event.start);
  duration_.clear();
  if (start && end) {
    const int64_t time_ns = *end - *start;
    duration_ = fmt::format("{}{}.{:03}", time_ns < 0 ? "-" : "",
                            std::abs(time_ns) / 1000, std::abs(time_ns) % 1000);
  }
  ended_.event.duration = duration_;
  return &ended_.event;
}

}  // namespace reprise
