// Repeated timings of the same thing, gathered to one Measurement each.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/trace/trace_spool.h"

namespace reprise {

class MeasuredTimes {
 public:
  /// What was timed; fields as in Measurement.
  struct Subject {
    std::string key, unit, context;
    auto operator<=>(const Subject&) const = default;
  };

  void add(const Subject& subject, int64_t time_ns);
  /// Medians and inter-quartile ranges, in the order of first appearance.
  void add_to(TraceSpool& spool);

 private:
  std::map<Subject, size_t> places_;
  std::vector<const Subject*> subjects_;
  std::vector<std::vector<int64_t>> times_;
};

}  // namespace reprise
