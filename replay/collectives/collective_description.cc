#include "replay/collectives/collective_description.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "data/collective/collective_names.h"
#include "replay/collectives/collective_name.h"

namespace reprise {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
// A launch looks no further out than this: ranges of one call nest three deep.
constexpr size_t kMostNested = 16;
constexpr int64_t kMostElements = int64_t{1} << 52;

bool is_host_range(const Trace& trace, const Event& event) {
  const bool kind = event.kind == EventKind::kHostOp ||
                    event.kind == EventKind::kAnnotation ||
                    event.kind == EventKind::kCollective;
  return kind && event.stream < trace.streams.size() &&
         trace.streams[event.stream].kind == StreamKind::kHostThread;
}

bool is_description(const Trace& trace, const Event& event) {
  if (!is_host_range(trace, event)) return false;
  const CollectiveInfo* info = info_of(trace, event);
  return info || describes_collective(trace.text(event.name));
}

// More than its operation.
bool tells_of_call(const Trace& trace, const Event& event) {
  const CollectiveInfo* info = info_of(trace, event);
  return info && (info->input_elements >= 0 || !info->communicator.empty());
}

// Elements of the largest argument in `"input_dims": [[4, 2048], [[8], [8]],
// …]` (a list of tensors counts as their sum); 0 when there is none.
int64_t largest_elements(std::string_view json) {
  constexpr std::string_view kKeys[] = {"\"input_dims\"", "\"Input Dims\""};
  size_t at = std::string_view::npos;
  for (const std::string_view key : kKeys) {
    if (at != std::string_view::npos) break;
    at = json.find(key);
    if (at != std::string_view::npos) at += key.size();
  }
  int64_t largest = 0, argument = 0, product = 0, depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c >= '0' && c <= '9') {
      int64_t dimension = 0;
      const auto [end, error] = std::from_chars(
          json.data() + at, json.data() + json.size(), dimension);
      const int64_t before = std::max<int64_t>(product, 1);
      if (error != std::errc() || dimension > kMostElements / before) return 0;
      product = before * dimension;
      at = static_cast<size_t>(end - json.data());
      continue;
    }
    ++at;
    if (c == '[') {
      ++depth;
      product = 0;
    } else if (c == ']') {
      argument = std::min(argument + product, kMostElements);
      product = 0;
      if (--depth == 1) {
        largest = std::max(largest, argument);
        argument = 0;
      }
      if (depth <= 0) break;
    } else if (c == '-' || c == '{' || c == '}') {
      break;
    }
  }
  return largest;
}

// Bytes of an element of the first type in `"input_type": ["float", …]`.
int64_t first_type_bytes(std::string_view json) {
  constexpr std::string_view kKeys[] = {"\"input_type\"", "\"Input type\"",
                                        "\"input_types\""};
  for (const std::string_view key : kKeys) {
    const size_t at = json.find(key);
    if (at == std::string_view::npos) continue;
    std::string_view rest = json.substr(at + key.size());
    const size_t start = rest.find_first_not_of(" :[\"");
    if (start == std::string_view::npos) return 0;
    rest.remove_prefix(start);
    const std::string_view type = rest.substr(0, rest.find('"'));
    const std::optional<PrimitiveType> named = element_type_named(type);
    return element_bytes(named ? named : primitive_type_from_name(type));
  }
  return 0;
}

}  // namespace

const CollectiveInfo* info_of(const Trace& trace, const Event& event) {
  const bool refers = event.kind == EventKind::kCollective ||
                      event.kind == EventKind::kHostOp ||
                      event.kind == EventKind::kAnnotation;
  if (!refers || event.detail < 0 ||
      static_cast<size_t>(event.detail) >= trace.collectives.size()) {
    return nullptr;
  }
  return &trace.collectives[static_cast<size_t>(event.detail)];
}

bool is_posted_message(const Trace& trace, const Event& event) {
  if (event.kind != EventKind::kCollective) return false;
  const CollectiveInfo* info = info_of(trace, event);
  return info != nullptr && is_message(info->kind) &&
         trace.streams[event.stream].kind == StreamKind::kHostThread;
}

int64_t recorded_bytes(const CollectiveInfo& info) {
  const int64_t elements = std::max(info.input_elements, info.output_elements);
  if (elements <= 0 || elements > kMostElements) return 0;
  return elements * element_bytes(info.type);
}

int64_t dimension_bytes(const Trace& trace, const Event& event) {
  if (event.attributes < 0 ||
      static_cast<size_t>(event.attributes) >= trace.strings.size()) {
    return 0;
  }
  const std::string& json =
      trace.strings[static_cast<size_t>(event.attributes)];
  return largest_elements(json) * first_type_bytes(json);
}

CollectiveDescriptions::CollectiveDescriptions(const RankEvents& events,
                                               std::span<const uint32_t> device)
    : trace_(events.trace),
      first_(events.first),
      last_(events.last),
      launch_stream_(device.size(), kNone),
      tied_(device.size()),
      used_(last_ - first_) {
  for (const uint32_t event : device) {
    launch_ns_.push_back(trace_.events[event].enqueue_ns);
  }
  if (device.empty()) return;
  find_launches(device);
  for (uint32_t i = first_; i < last_; ++i) {
    if (is_description(trace_, trace_.events[i])) ranges_.push_back(i);
  }
  tie_by_containment();
  tie_by_record();
  tie_by_external_id(device);
  tie_by_order(device);
}

std::span<const uint32_t> CollectiveDescriptions::of(size_t i) const {
  return tied_[i];
}

std::optional<uint32_t> CollectiveDescriptions::launch_stream(size_t i) const {
  if (launch_stream_[i] == kNone) return std::nullopt;
  return launch_stream_[i];
}

bool CollectiveDescriptions::used(uint32_t event) const {
  return used_[event - first_];
}

void CollectiveDescriptions::find_launches(std::span<const uint32_t> device) {
  // Correlation of each collective; a graph's launch has many.
  std::vector<std::pair<int64_t, size_t>> wanted;
  for (size_t i = 0; i < device.size(); ++i) {
    const Event& event = trace_.events[device[i]];
    if (event.correlation >= 0) wanted.emplace_back(event.correlation, i);
  }
  std::sort(wanted.begin(), wanted.end());
  for (uint32_t index = first_; index < last_; ++index) {
    const Event& event = trace_.events[index];
    if (event.kind != EventKind::kRuntime || event.correlation < 0) continue;
    auto at = std::lower_bound(wanted.begin(), wanted.end(),
                               std::pair(event.correlation, size_t{0}));
    for (; at != wanted.end() && at->first == event.correlation; ++at) {
      const size_t i = at->second;
      if (launch_stream_[i] != kNone) continue;
      launch_stream_[i] = event.stream;
      launch_ns_[i] = event.start_ns;
    }
  }
}

void CollectiveDescriptions::tie_by_containment() {
  struct Launch {
    uint32_t stream;
    int64_t at_ns;
    size_t i;
    auto operator<=>(const Launch&) const = default;
  };
  std::vector<Launch> launches;
  for (size_t i = 0; i < launch_stream_.size(); ++i) {
    if (launch_stream_[i] == kNone) continue;
    launches.push_back({launch_stream_[i], launch_ns_[i], i});
  }
  std::sort(launches.begin(), launches.end());
  const auto outer_first = [&](uint32_t a, uint32_t b) {
    const Event &x = trace_.events[a], &y = trace_.events[b];
    return std::tie(x.stream, x.start_ns, y.end_ns, a) <
           std::tie(y.stream, y.start_ns, x.end_ns, b);
  };
  std::vector<uint32_t> ranges = ranges_;
  std::sort(ranges.begin(), ranges.end(), outer_first);
  std::vector<uint32_t> open;
  size_t next = 0;
  for (const Launch& launch : launches) {
    for (; next < ranges.size(); ++next) {
      const Event& range = trace_.events[ranges[next]];
      if (std::tie(range.stream, range.start_ns) >
          std::tie(launch.stream, launch.at_ns)) {
        break;
      }
      // Ended ranges at the top never matter again.
      while (!open.empty() &&
             (trace_.events[open.back()].stream != range.stream ||
              trace_.events[open.back()].end_ns < range.start_ns)) {
        open.pop_back();
      }
      open.push_back(ranges[next]);
    }
    const size_t depth = std::min(open.size(), kMostNested);
    for (size_t k = 0; k < depth; ++k) {
      const uint32_t range = open[open.size() - 1 - k];
      const Event& event = trace_.events[range];
      if (event.stream != launch.stream || event.end_ns < launch.at_ns) {
        continue;
      }
      tied_[launch.i].push_back(range);
      used_[range - first_] = true;
    }
  }
}

// Within the operator c10d's other backends (XCCL) end the record of a call
// before they launch its kernels: it is the only one between the operator's
// start and the launch.
void CollectiveDescriptions::tie_by_record() {
  std::vector<std::tuple<uint32_t, int64_t, uint32_t>> records;
  for (const uint32_t index : ranges_) {
    const Event& event = trace_.events[index];
    if (tells_of_call(trace_, event))
      records.emplace_back(event.stream, event.start_ns, index);
  }
  std::sort(records.begin(), records.end());
  const auto told = [&](uint32_t range) {
    return tells_of_call(trace_, trace_.events[range]);
  };
  for (size_t i = 0; i < tied_.size(); ++i) {
    std::vector<uint32_t>& ranges = tied_[i];
    if (ranges.empty() || std::any_of(ranges.begin(), ranges.end(), told))
      continue;
    const Event& call = trace_.events[ranges.front()];
    const auto first =
        std::lower_bound(records.begin(), records.end(),
                         std::tuple(call.stream, call.start_ns, uint32_t{0}));
    const auto last =
        std::lower_bound(first, records.end(),
                         std::tuple(call.stream, launch_ns_[i], uint32_t{0}));
    if (last - first != 1) continue;
    const uint32_t record = std::get<2>(*first);
    if (trace_.events[record].end_ns > launch_ns_[i]) continue;
    ranges.push_back(record);
    used_[record - first_] = true;
  }
}

// For work whose launch is unknown or lies in no range. Where an external id is
// but the correlation again (until 2023), it says nothing.
void CollectiveDescriptions::tie_by_external_id(
    std::span<const uint32_t> device) {
  std::map<int64_t, size_t> untied;
  std::vector<std::vector<size_t>> sharing;
  for (size_t i = 0; i < device.size(); ++i) {
    const Event& event = trace_.events[device[i]];
    if (!tied_[i].empty() || event.external_id < 0 ||
        event.external_id == event.correlation) {
      continue;
    }
    const auto [at, is_new] =
        untied.try_emplace(event.external_id, sharing.size());
    if (is_new) sharing.emplace_back();
    sharing[at->second].push_back(i);
  }
  if (untied.empty()) return;
  for (const uint32_t index : ranges_) {
    const Event& event = trace_.events[index];
    if (event.external_id < 0) continue;
    const auto found = untied.find(event.external_id);
    if (found == untied.end()) continue;
    for (const size_t i : sharing[found->second]) {
      if (!tied_[i].empty()) continue;
      tied_[i].push_back(index);
      used_[index - first_] = true;
    }
  }
}

// The rest: where a rank has as many calls of one operation as unused
// descriptions of it, they belong together in order.
void CollectiveDescriptions::tie_by_order(std::span<const uint32_t> device) {
  std::map<CollectiveKind, std::vector<size_t>> untied;
  for (size_t i = 0; i < device.size(); ++i) {
    const Event& event = trace_.events[device[i]];
    const CollectiveInfo* info = info_of(trace_, event);
    if (!tied_[i].empty() || launch_stream_[i] != kNone ||
        (info && info->input_elements >= 0)) {
      continue;
    }
    const CollectiveKind kind = info && info->kind != CollectiveKind::kUnknown
                                    ? info->kind
                                    : collective_named(trace_.text(event.name));
    if (kind != CollectiveKind::kUnknown) untied[kind].push_back(i);
  }
  if (untied.empty()) return;
  std::map<CollectiveKind, std::vector<uint32_t>> unused;
  for (const uint32_t i : ranges_) {
    const CollectiveInfo* info = info_of(trace_, trace_.events[i]);
    if (info && info->kind != CollectiveKind::kUnknown && !used(i))
      unused[info->kind].push_back(i);
  }
  for (const auto& [kind, calls] : untied) {
    const auto found = unused.find(kind);
    if (found == unused.end() || found->second.size() != calls.size()) continue;
    for (size_t k = 0; k < calls.size(); ++k) {
      tied_[calls[k]].push_back(found->second[k]);
      used_[found->second[k] - first_] = true;
    }
  }
}

}  // namespace reprise
