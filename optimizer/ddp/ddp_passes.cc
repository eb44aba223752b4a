#include "optimizer/ddp/ddp_passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/integers.h"

namespace reprise {
namespace {

bool any_step_carries(const DdpRecording& recording, int64_t bytes) {
  return std::any_of(recording.steps.begin(), recording.steps.end(),
                     [bytes](const DdpStep& step) {
                       int64_t sum = 0;
                       for (const DdpTransfer& each : step.transfers)
                         sum = saturating_add(sum, each.bytes);
                       return sum == bytes;
                     });
}

void keep_last(size_t count, DdpRecording& recording) {
  const auto drop = [count](auto& list) {
    list.erase(list.begin(), list.end() - static_cast<ptrdiff_t>(count));
  };
  drop(recording.gradients);
  for (size_t g = 0; g < count; ++g)
    recording.gradients[g].name = fmt::format("gradient.{}", g);
  for (DdpStep& step : recording.steps) {
    for (std::vector<int64_t>& ready : step.ready_ns) drop(ready);
  }
}

}  // namespace

bool keep_last_pass(DdpRecording& recording) {
  const std::vector<DdpGradient>& all = recording.gradients;
  const auto same = [](const DdpGradient& a, const DdpGradient& b) {
    return a.type == b.type && a.shape == b.shape;
  };
  for (size_t passes = 2; passes <= all.size(); ++passes) {
    if (all.size() % passes != 0) continue;
    const auto length = static_cast<ptrdiff_t>(all.size() / passes);
    int64_t bytes = 0;
    for (ptrdiff_t g = 0; g < length; ++g)
      bytes = saturating_add(bytes, all[static_cast<size_t>(g)].bytes);
    if (!std::equal(all.begin() + length, all.end(), all.begin(), same) ||
        !any_step_carries(recording, bytes))
      continue;
    recording.notes.push_back(fmt::format(
        "each step has {} backward passes, and its all-reduces carry the "
        "gradients of the last one: gradients accumulate (no_sync)",
        passes));
    keep_last(static_cast<size_t>(length), recording);
    return true;
  }
  return false;
}

}  // namespace reprise
