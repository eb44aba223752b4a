// How much compute slows down beside communication, from units that ran both
// beside it and not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// One run of one unit.
struct ContentionSample {
  double duration_ns = 0;
  double beside_ns = 0;  ///< Of it, beside a transfer in flight.
};

/// All runs of the units of one structural key.
struct ContentionKey {
  double alone_ns = 0;  ///< Known time alone; 0: from the runs beside nothing.
  std::vector<ContentionSample> samples = {};
};

/// Finds the slow-down s >= 1 under which all runs together take as long as
/// their times alone:  sum(duration) = sum(alone) + (1 - 1/s) sum(beside).
/// Totals, because a single run tells nothing: a unit that a transfer pushes
/// off its core is beside that transfer for as long as it is pushed off. The
/// less time was spent beside transfers, the more the result is drawn to
/// `expected`. Returns nothing when no key ran beside transfers, or none has a
/// time alone.
std::optional<double> fit_slowdown(
    const std::map<std::string, ContentionKey>& keys, double expected);

/// Time alone of one sample under a slow-down.
inline double alone_ns(double duration_ns, double beside_ns, double slowdown) {
  return duration_ns - (1 - 1 / slowdown) * beside_ns;
}

}  // namespace reprise
