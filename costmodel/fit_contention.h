// How much compute slows down beside communication, from units that ran both
// beside it and not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// One duration of one unit, or the mean of `weight` of them.
struct ContentionSample {
  double duration_ns = 0;
  double beside_ns = 0;  ///< Of it, beside a transfer in flight.
  double weight = 1;
};
/// Samples by structural key: those of one key would all take the same time
/// without communication.
using ContentionSamples = std::map<std::string, std::vector<ContentionSample>>;

/// Finds the slow-down s >= 1 under which the alone-times
///   duration - (1 - 1/s) beside
/// of each key scatter least (relative variance, keys weighted by their time).
/// Returns nothing when no key ran both ways often enough to tell.
std::optional<double> fit_slowdown(const ContentionSamples& samples);

/// Time alone of one sample under a slow-down.
inline double alone_ns(double duration_ns, double beside_ns, double slowdown) {
  return duration_ns - (1 - 1 / slowdown) * beside_ns;
}

}  // namespace reprise
