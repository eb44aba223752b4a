// What `reprise doctor` looks at: each check says what it found on this
// machine and, where that is not enough, what to do.
#pragma once

#include <string>
#include <vector>

namespace reprise {

/// Jobs, as bits.
enum Purpose : unsigned {
  kForTrain = 1,
  kForCuda = 2,  ///< Training with --device cuda.
  kForProfile = 4,
  kForView = 8,
};

struct Check {
  std::string name;
  unsigned purposes = 0;  ///< Jobs that it matters to.
  bool ok = false;
  std::string found;
  std::string fix;
  bool needed = true;  ///< False: the jobs do without, with a loss.
};

/// "train", "profile, cuda": the words of --for and --device.
std::string words_of(unsigned purposes);

/// Programs, cores, cache, browser.
std::vector<Check> machine_checks();
/// The driver, its devices, and NVIDIA's libraries, each opened for a moment:
/// a machine without them is ordinary. Where there is a driver, CUPTI has to
/// record as it would in a process that is profiled.
std::vector<Check> cuda_checks();
/// Our own libraries, what may be traced here, and who else would trace.
/// Devices and what the driver says of itself are looked for below `root`.
std::vector<Check> tracing_checks(const std::string& root = "");

}  // namespace reprise
