#include "optimizer/ddp/ddp_passes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

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

/// Forwards of DDP that start in [from_ns, to_ns).
ptrdiff_t forwards_between(const DdpRankStep& step, int64_t from_ns,
                           int64_t to_ns) {
  const auto& starts = step.forwards_ns;
  return std::lower_bound(starts.begin(), starts.end(), to_ns) -
         std::lower_bound(starts.begin(), starts.end(), from_ns);
}

/// Which of the step's last `gradients` ones begin a backward pass: the first,
/// and each that a forward of DDP goes before.
std::vector<size_t> backward_passes(const DdpRankStep& step, size_t gradients) {
  const auto& all = step.accumulations;
  std::vector<size_t> passes;
  for (size_t g = all.size() - gradients; g < all.size(); ++g) {
    const size_t kept = g - (all.size() - gradients);
    const bool begins =
        kept == 0 || forwards_between(step, all[g - 1].end_ns, all[g].end_ns);
    if (begins) passes.push_back(kept);
  }
  return passes;
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

bool keep_last_pass(size_t forwards, DdpRecording& recording) {
  const std::vector<DdpGradient>& all = recording.gradients;
  const auto same = [](const DdpGradient& a, const DdpGradient& b) {
    return a.type == b.type && a.shape == b.shape;
  };
  const size_t most =
      forwards > 0 ? std::min(forwards, all.size()) : all.size();
  for (size_t passes = 2; passes <= most; ++passes) {
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

Status check_single_pass(const DdpRankStep& step, DdpRecording& recording) {
  const std::vector<DdpGradient>& all = recording.gradients;
  std::vector<size_t> passes = backward_passes(step, all.size());
  if (passes.size() > 1) {
    passes.push_back(all.size());
    std::vector<std::string> told;
    for (size_t p = 0; p + 1 < passes.size(); ++p) {
      int64_t bytes = 0;
      for (size_t g = passes[p]; g < passes[p + 1]; ++g)
        bytes = saturating_add(bytes, all[g].bytes);
      told.push_back(std::to_string(bytes));
    }
    return fail(ErrorKind::kUnsupported,
                "each step has {} backward passes with a forward of DDP before "
                "each, and all-reduces the gradients of each ({} bytes): of "
                "two models (a GAN), or of one without no_sync(). No bucket "
                "holds gradients of two passes, and a plan is for one: record "
                "each model by itself, all its passes but the last under "
                "no_sync()",
                told.size(), fmt::join(told, " and "));
  }
  const size_t dropped = step.accumulations.size() - all.size();
  const int64_t before_ns =
      dropped > 0 ? step.accumulations[dropped - 1].end_ns : step.start_ns;
  const auto forwards =
      forwards_between(step, before_ns, step.accumulations[dropped].end_ns);
  if (forwards > 1) {
    recording.notes.push_back(fmt::format(
        "each step runs DDP's forward {} times before its backward pass, whose "
        "gradients are planned as one model's: where they are of several "
        "models, record each by itself",
        forwards));
  }
  return {};
}

}  // namespace reprise
