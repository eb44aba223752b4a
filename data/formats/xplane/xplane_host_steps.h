// Steps that a program marks on its host's threads (JAX's StepTraceAnnotation):
// a range of any name that states a step's number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "data/trace/trace.h"

namespace reprise {

/// Marks by step, of each range's name ("train") without a number at its end.
class HostSteps {
 public:
  void add(std::string_view name, const StepMark& mark);

  /// Those of the name that takes the most time; of one of evaluation only
  /// where there is no other. Empty without marks.
  std::map<int32_t, StepMark> of_training() const;

 private:
  std::map<std::string, std::map<int32_t, StepMark>, std::less<>> named_;
};

}  // namespace reprise
