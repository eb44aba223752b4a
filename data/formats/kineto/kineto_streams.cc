#include "data/formats/kineto/kineto_streams.h"

#include <fmt/format.h>

#include <limits>

#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

constexpr size_t kMostThreadNames = 100'000;
constexpr size_t kLongestThreadName = 256;
constexpr int64_t kLargestDevice = 1 << 20;

/// The id as text, the same whether it is quoted or not.
std::string id_text(std::string_view token) {
  return token.empty() || token[0] != '"' ? std::string(token)
                                          : json_unescaped(token);
}

/// The number in "stream 7", or a plain one; -1 if there is none.
int64_t number_in(std::string_view token) {
  if (const auto number = parse_integer(token)) return *number;
  const size_t first = token.find_first_of("0123456789");
  if (first == token.npos) return -1;
  const size_t last = token.find_first_not_of("0123456789", first);
  return parse_integer(token.substr(first, last - first)).value_or(-1);
}

}  // namespace

KinetoStreams::KinetoStreams(TraceSpool& spool, uint32_t rank)
    : spool_(spool), rank_(rank) {}

uint32_t KinetoStreams::host(const ChromeEvent& event) {
  const auto last = [](std::string_view text) {
    return text.size() < 2 ? 0U
                           : static_cast<unsigned>(text.end()[-2] * 3) +
                                 static_cast<unsigned>(text.back());
  };
  Recent& recent =
      recent_[(last(event.thread) + last(event.process)) % recent_.size()];
  if (!recent.set || recent.thread != event.thread ||
      recent.process != event.process) {
    recent = {std::string(event.process), std::string(event.thread),
              find_host(event.process, event.thread), true};
  }
  return recent.stream;
}

uint32_t KinetoStreams::find_host(std::string_view process,
                                  std::string_view thread) {
  ThreadKey key{id_text(process), id_text(thread)};
  const auto [place, added] = hosts_.try_emplace(std::move(key), 0);
  if (!added) return place->second;
  StreamInfo info;
  info.rank = rank_;
  info.kind = StreamKind::kHostThread;
  info.process = parse_integer(place->first.first).value_or(0);
  info.number = parse_integer(place->first.second).value_or(-1);
  info.name = info.number >= 0 ? fmt::format("thread {}", info.number)
                               : place->first.second;
  if (first_process_ == 0) first_process_ = info.process;
  return place->second = spool_.add_stream(std::move(info));
}

uint32_t KinetoStreams::device(const ChromeEvent& event) {
  const DeviceKey key{
      number_in(event.device.empty() ? event.process : event.device),
      number_in(event.stream.empty() ? event.thread : event.stream)};
  if (key != last_device_) {
    last_device_stream_ = find_device(key);
    last_device_ = key;
  }
  return last_device_stream_;
}

uint32_t KinetoStreams::find_device(DeviceKey key) {
  constexpr int64_t kInvalidStream = std::numeric_limits<uint32_t>::max();
  if (key.first < 0 || key.first > kLargestDevice) key.first = -1;
  if (key.second < 0 || key.second == kInvalidStream) key.second = -1;
  const auto [place, added] = devices_.try_emplace(key, 0);
  if (!added) return place->second;
  StreamInfo info;
  info.rank = rank_;
  info.kind = StreamKind::kDeviceStream;
  info.device = static_cast<int32_t>(key.first);
  info.number = key.second;
  info.name =
      key.second >= 0 ? fmt::format("stream {}", key.second) : "all streams";
  if (first_device_ < 0) first_device_ = info.device;
  return place->second = spool_.add_stream(std::move(info));
}

void KinetoStreams::name_thread(const ChromeEvent& row) {
  JsonScanner arguments(row.arguments);
  std::string name;
  while (arguments.next()) {
    if (arguments.key() == "name") name = json_unescaped(arguments.value());
  }
  while (!name.empty() && name.back() == ' ') name.pop_back();
  ThreadKey key{id_text(row.process), id_text(row.thread)};
  if (name.empty() || name.size() > kLongestThreadName) return;
  if (names_.size() >= kMostThreadNames && !names_.contains(key)) return;
  names_[std::move(key)] = std::move(name);
}

void KinetoStreams::finish() {
  for (auto& [key, name] : names_) {
    if (const auto thread = hosts_.find(key); thread != hosts_.end()) {
      spool_.stream(thread->second).name = name;
    }
    const DeviceKey device{number_in(key.first), number_in(key.second)};
    if (const auto stream = devices_.find(device); stream != devices_.end()) {
      spool_.stream(stream->second).name = name;
    }
  }
}

}  // namespace reprise
