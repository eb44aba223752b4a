// A TPU's profile has one line for all that ran beside operations. These do not
// wait for each other as what stands on a stream does: a lane for each kind,
// and more of them where its operations overlap, says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/formats/xplane/xplane_row.h"

namespace reprise {

/// Of one line.
class BesideLanes {
 public:
  /// The lane's stream; a new one is `add`ed by what sets its name apart:
  /// "all-gather", "all-gather 2".
  uint32_t stream_of(const XplaneRow& row,
                     const std::function<uint32_t(const std::string&)>& add);

 private:
  struct Lane {
    uint32_t stream = 0;
    int64_t end_ns = 0;
  };
  std::map<std::string, std::vector<Lane>, std::less<>> lanes_;  ///< By kind.
};

}  // namespace reprise
