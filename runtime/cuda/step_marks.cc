// A stream writes the number of its units that have ended. A write is not free
// on a device, so that a step shorter than its marks are worth keeps few.
#include "runtime/cuda/step_marks.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace reprise {
namespace {

/// What a mark is taken to cost on its stream, and what all together may cost.
/// An assumption, not a measurement: a write waits for what came before it, as
/// a launch does.
constexpr int64_t kMarkNs = 2'000;
constexpr int64_t kStepsShare = 100;
/// Marks of the computing units that the shortest step keeps.
constexpr int64_t kLeastMarks = 4;

}  // namespace

Result<StepMarks> StepMarks::create(const Driver& driver,
                                    const StreamSequences& walks,
                                    bool communicates) {
  StepMarks marks(driver, walks);
  Result<PinnedMemory> words =
      PinnedMemory::allocate(driver, 2 * sizeof(uint32_t));
  if (!words) return pass(words.error());
  marks.words_ = std::move(*words);
  marks.compute_.assign(walks.compute.units.size(), true);
  if (communicates)
    marks.communication_.assign(walks.communication.units.size(), true);
  marks.reset();
  return marks;
}

void StepMarks::thin_out(int64_t step_ns) {
  const auto units = static_cast<int64_t>(compute_.size());
  const int64_t affordable =
      std::max(step_ns / kStepsShare / kMarkNs -
                   static_cast<int64_t>(communication_.size()),
               kLeastMarks);
  const int64_t period = (units + affordable - 1) / affordable;
  for (int64_t i = 0; i < units; ++i)
    compute_[static_cast<size_t>(i)] =
        (i + 1) % std::max(period, int64_t{1}) == 0;
}

void StepMarks::reset() {
  for (size_t which = 0; which < 2; ++which) {
    auto* word = reinterpret_cast<uint32_t*>(words_.bytes().data()) + which;
    std::atomic_ref(*word).store(0, std::memory_order_relaxed);
  }
}

void StepMarks::ended(Stream which, uint32_t place, const CudaStream& stream) {
  const std::vector<bool>& marked =
      which == Stream::kCompute ? compute_ : communication_;
  std::atomic_ref works(works_);
  if (!marked[place] || !works.load(std::memory_order_relaxed)) return;
  // Page-locked memory has the same address for the device.
  // Source: CUDA driver API, "Unified Addressing".
  auto* word = reinterpret_cast<uint32_t*>(words_.bytes().data()) +
               static_cast<size_t>(which);
  if (driver_->stream_write_value(
          stream.get(), reinterpret_cast<CUdeviceptr>(word), place + 1,
          CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS) {
    works.store(false, std::memory_order_relaxed);
  }
}

std::string StepMarks::describe(const Schedule& schedule, Stream which) const {
  const std::vector<bool>& marked =
      which == Stream::kCompute ? compute_ : communication_;
  auto* word = reinterpret_cast<uint32_t*>(words_.bytes().data()) +
               static_cast<size_t>(which);
  const size_t first = std::atomic_ref(*word).load(std::memory_order_relaxed);
  if (first >= marked.size()) return {};
  const auto next = std::find(marked.begin() + static_cast<int64_t>(first),
                              marked.end(), true);
  const size_t last =
      std::min(static_cast<size_t>(next - marked.begin()), marked.size() - 1);
  const auto name = [&](size_t place) -> const std::string& {
    return schedule.units[index_of(walk(which).units[place])].name;
  };
  const char* what = which == Stream::kCompute ? "compute" : "communication";
  return first == last ? fmt::format("{} has come to '{}'", what, name(first))
                       : fmt::format("{} is between '{}' and '{}'", what,
                                     name(first), name(last));
}

std::string StepMarks::describe(const Schedule& schedule) const {
  if (!std::atomic_ref(works_).load(std::memory_order_relaxed)) return {};
  std::string text = describe(schedule, Stream::kCompute);
  const std::string other = describe(schedule, Stream::kCommunication);
  if (!text.empty() && !other.empty()) text += ", ";
  return text + other;
}

}  // namespace reprise
