#include "data/formats/xplane/xplane_host_steps.h"

#include <utility>

#include "data/formats/nvtx_ranges.h"

namespace reprise {
namespace {

/// A program marks its steps by a few names.
constexpr size_t kMostStepNames = 256;

}  // namespace

void HostSteps::add(std::string_view name, const StepMark& mark) {
  name = name.substr(0, name.find_last_not_of("0123456789") + 1);
  auto known = named_.find(name);
  if (known == named_.end()) {
    if (named_.size() == kMostStepNames) return;
    known = named_.try_emplace(std::string(name)).first;
  }
  known->second.try_emplace(mark.step, mark);
}

std::map<int32_t, StepMark> HostSteps::of_training() const {
  const std::map<int32_t, StepMark>* best = nullptr;
  std::pair<bool, double> most;  // Whether it trains, and how long it takes.
  for (const auto& [name, marks] : named_) {
    double time_ns = 0;
    for (const auto& [number, mark] : marks)
      time_ns += static_cast<double>(mark.time_ns());
    const std::pair weight(!names_evaluation(name), time_ns);
    if (best != nullptr && weight <= most) continue;
    best = &marks;
    most = weight;
  }
  return best == nullptr ? std::map<int32_t, StepMark>() : *best;
}

}  // namespace reprise
