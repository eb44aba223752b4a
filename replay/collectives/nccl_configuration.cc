#include "replay/collectives/nccl_configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/io/json_tree.h"

namespace reprise {
namespace {

/// How kernels' names and how the tuner's files spell it; longer words stand
/// before those that they contain.
using Spelling = std::pair<std::string_view, std::string_view>;
constexpr std::array<Spelling, 7> kAlgorithms = {
    {{"_NVLS_TREE", "nvls_tree"},
     {"_NVLS", "nvls"},
     {"_COLLNET_DIRECT", "collnet_direct"},
     {"_COLLNET_CHAIN", "collnet_chain"},
     {"_RING", "ring"},
     {"_TREE", "tree"},
     {"_PAT", "pat"}}};
constexpr std::array<Spelling, 3> kProtocols = {
    {{"_LL128", "ll128"}, {"_LL", "ll"}, {"_SIMPLE", "simple"}}};
constexpr int kMostChannels = 64;  ///< MAXCHANNELS of NCCL's device.h.

template <size_t size>
std::string word_in(std::string_view name,
                    const std::array<Spelling, size>& spellings) {
  for (const auto& [part, word] : spellings) {
    if (name.find(part) != std::string_view::npos) return std::string(word);
  }
  return {};
}

/// "NVLSTree", "nvls_tree" and "NVLS_TREE" are one word.
std::string plain(std::string_view text) {
  std::string word;
  for (const char c : text) {
    if (c != '_') {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return word;
}

template <size_t size>
std::string word_of(std::string_view text,
                    const std::array<Spelling, size>& spellings) {
  for (const auto& [part, word] : spellings) {
    if (plain(word) == plain(text)) return std::string(word);
  }
  return {};
}

int channels_in(std::string_view text) {
  int channels = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, channels);
  const bool sound = error == std::errc() && stop == end && channels > 0 &&
                     channels <= kMostChannels;
  return sound ? channels : -1;
}

/// What an event's attributes say fills what the kernel's name left open.
void take_attributes(std::string_view json, NcclConfiguration& configuration) {
  const auto told = parse_json_or_discard<nlohmann::json>(json);
  if (!told.is_object()) return;
  const auto text = [&](const char* key) {
    const auto found = told.find(key);
    if (found == told.end()) return std::string();
    return found->is_string() ? found->get<std::string>() : found->dump();
  };
  if (configuration.algorithm.empty()) {
    configuration.algorithm = word_of(text("algorithm"), kAlgorithms);
  }
  if (configuration.protocol.empty()) {
    configuration.protocol = word_of(text("protocol"), kProtocols);
  }
  configuration.channels = channels_in(text("channels"));
}

}  // namespace

std::string NcclConfiguration::text() const {
  std::string text = algorithm + "/" + protocol;
  if (channels > 0) {
    text += fmt::format(" on {} channel{}", channels, channels > 1 ? "s" : "");
  }
  return text;
}

NcclConfiguration nccl_configuration_of(std::string_view kernel) {
  if (!kernel.starts_with("nccl")) return {};
  return {.algorithm = word_in(kernel, kAlgorithms),
          .protocol = word_in(kernel, kProtocols)};
}

Result<NcclConfiguration> parse_nccl_configuration(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view rest = text.substr(std::min(slash + 1, text.size()));
  const size_t second = std::min(rest.find('/'), rest.size());
  NcclConfiguration found = {
      .algorithm = word_of(text.substr(0, slash), kAlgorithms),
      .protocol = word_of(rest.substr(0, second), kProtocols)};
  const bool counted = second < rest.size();
  if (counted) found.channels = channels_in(rest.substr(second + 1));
  if (found.known() && (!counted || found.channels > 0)) return found;
  return fail(ErrorKind::kInvalid,
              "'{}' is no choice of NCCL's: ALGORITHM/PROTOCOL[/CHANNELS] of "
              "ring, tree, nvls, nvls_tree, collnet_direct, collnet_chain, "
              "pat; simple, ll, ll128; 1 to {}",
              text, kMostChannels);
}

std::vector<NcclConfiguration> nccl_configurations(
    const TraceByRank& trace, const CollectiveMatching& matching) {
  std::vector<NcclConfiguration> found(matching.collectives.size());
  std::vector<std::pair<uint32_t, size_t>> events;
  for (size_t place = 0; place < found.size(); ++place) {
    const uint32_t event = matching.collectives[place].members.front().event;
    found[place] = nccl_configuration_of(trace.frame().text(trace.name(event)));
    events.emplace_back(event, place);
  }
  std::sort(events.begin(), events.end());
  auto next = events.begin();
  for (size_t part = 0; part < trace.size() && next != events.end(); ++part) {
    const uint32_t end = part + 1 < trace.size()
                             ? trace.first_event(part + 1)
                             : static_cast<uint32_t>(trace.event_count());
    if (next->first >= end) continue;
    const RankEvents own = trace.at(part);
    for (; next != events.end() && next->first < end; ++next) {
      const Event& event = own.trace.events[next->first - own.base];
      if (event.attributes < 0) continue;
      take_attributes(own.trace.strings[static_cast<size_t>(event.attributes)],
                      found[next->second]);
    }
  }
  return found;
}

}  // namespace reprise
