#include "replay/analysis/phases.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

std::optional<Phase> phase_of(std::string_view name) {
  if (name.starts_with("autograd::engine")) return Phase::kBackward;
  std::string lower(name.substr(0, 200));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  const auto has = [&](const char* word) {
    return lower.find(word) != std::string::npos;
  };
  // An aten operator's name says what it computes ("aten::relu_backward").
  if (lower.find("::") != std::string::npos) return std::nullopt;
  if (has("optimizer")) return Phase::kOptimizer;
  if (has("backward")) return Phase::kBackward;
  if (has("dataloader")) return Phase::kData;
  if (has("forward")) return Phase::kForward;
  return std::nullopt;
}

/// Phases of names, each looked at once.
class PhaseOfName {
 public:
  explicit PhaseOfName(const Trace& trace)
      : trace_(trace), known_(trace.strings.size(), kUnseen) {}
  std::optional<Phase> of(StringId name) {
    uint8_t& known = known_[index_of(name)];
    if (known == kUnseen) {
      const std::optional<Phase> phase = phase_of(trace_.text(name));
      known = phase ? static_cast<uint8_t>(*phase) : kNone;
    }
    if (known == kNone) return std::nullopt;
    return static_cast<Phase>(known);
  }

 private:
  static constexpr uint8_t kUnseen = 255, kNone = 254;
  const Trace& trace_;
  std::vector<uint8_t> known_;
};

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 6> kNames = {
      "forward", "backward", "optimizer", "data", "communication", "other"};
  return kNames[static_cast<size_t>(phase)];
}

Phases::Phases(const Trace& trace, uint32_t rank) : trace_(trace) {
  std::map<uint32_t, std::array<std::vector<Interval>, kMarked>> ranges;
  PhaseOfName names(trace);
  const auto [first, last] = events_of_rank(trace, rank);
  for (size_t i = first; i < last; ++i) {
    const Event& event = trace.events[i];
    if (event.kind != EventKind::kAnnotation &&
        event.kind != EventKind::kHostOp) {
      continue;
    }
    const std::optional<Phase> phase = names.of(event.name);
    if (!phase) continue;
    has_backward_ |= phase == Phase::kBackward;
    ranges[event.stream][static_cast<size_t>(*phase)].push_back(
        {event.start_ns, event.end_ns});
  }
  for (auto& [stream, phases] : ranges) {
    for (size_t phase = 0; phase < kMarked; ++phase) {
      ranges_[stream][phase] = IntervalSet(std::move(phases[phase]));
    }
  }
}

Phase Phases::of(const DeviceEvent& event) const {
  if (event.work == WorkClass::kCommunication) return Phase::kCommunication;
  const bool on_host =
      trace_.streams[event.stream].kind == StreamKind::kHostThread;
  if (!on_host && event.launch == DeviceEvent::kNoEvent) return Phase::kOther;
  const uint32_t stream =
      on_host ? event.stream : trace_.events[event.launch].stream;
  const int64_t at = on_host ? event.start_ns : event.launch_ns;
  const auto found = ranges_.find(stream);
  if (found != ranges_.end()) {
    // A narrower phase comes before the one it may lie in.
    for (const Phase phase :
         {Phase::kOptimizer, Phase::kBackward, Phase::kData, Phase::kForward}) {
      const IntervalSet& set = found->second[static_cast<size_t>(phase)];
      if (set.length_within_ns(at, at + 1) > 0) return phase;
    }
  }
  return has_backward_ ? Phase::kForward : Phase::kOther;
}

}  // namespace reprise
