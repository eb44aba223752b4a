// Devices that are the host's own CPU (JAX on CPU): their work stands on the
// host's threads, any thread's on any device's behalf, and says by an ordinal
// whose it is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/formats/xplane/xplane_proto.h"

namespace reprise {

class CpuDevices {
 public:
  CpuDevices() = default;
  /// Those that ran HLO operations on threads of these planes. **Cost** linear
  /// in the planes' events.
  explicit CpuDevices(const std::vector<std::string_view>& hosts);

  bool empty() const { return ordinals_.empty(); }
  size_t size() const { return ordinals_.size(); }
  /// [event of the line] Its device's place among them, by ordinal. What tells
  /// none has that of what it holds first (an executor around its operations),
  /// else of what came before it on the thread (an operation's end), else 0.
  std::vector<uint32_t> places(const Xplane& plane,
                               const XplaneLine& line) const;

 private:
  uint32_t place_of(int64_t ordinal) const;

  std::vector<int64_t> ordinals_;  // Ascending.
};

}  // namespace reprise
