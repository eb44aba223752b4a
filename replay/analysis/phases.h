// Which part of a training step launched a piece of device work: told by the
// ranges that frameworks and users set on the launching thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "data/trace/intervals.h"
#include "data/trace/trace.h"
#include "replay/analysis/device_work.h"

namespace reprise {

enum class Phase : uint8_t {
  kForward,
  kBackward,       ///< Autograd's functions; ranges named so.
  kOptimizer,      ///< "Optimizer.step#…"; ranges named so.
  kData,           ///< Data loaders.
  kCommunication,  ///< Any collective, whoever launched it.
  kOther,          ///< No range, or no recorded launch.
};
std::string_view name_of(Phase phase);

/// The ranges of one rank. Where a rank has backward ranges, what lies in no
/// range is forward: frameworks mark the others.
class Phases {
 public:
  Phases(const Trace& trace, uint32_t rank);
  Phase of(const DeviceEvent& event) const;

 private:
  static constexpr size_t kMarked = 4;  ///< Forward … data.
  const Trace& trace_;
  /// [stream][phase]
  std::map<uint32_t, std::array<IntervalSet, kMarked>> ranges_;
  bool has_backward_ = false;
};

}  // namespace reprise
