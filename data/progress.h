// How far long work is, told upwards: who works calls back now and then, and
// who stands above shows it or does not.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace reprise {

struct WorkProgress {
  std::string what;       ///< "reading a.json": the work, as it is.
  double share = -1;      ///< Of all of it, 0 to 1; below 0: not known.
  double count = 0;       ///< Done so far, in `unit`s.
  std::string_view unit;  ///< "B" or a plural; empty: nothing is counted.
};

/// Called from one thread at a time, as often as it is cheap.
using ProgressWatcher = std::function<void(const WorkProgress&)>;

}  // namespace reprise
