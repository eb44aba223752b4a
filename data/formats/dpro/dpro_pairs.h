// Timelines of dPRO for BytePS, in which begins and ends are both named and
// need not nest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/formats/horovod/horovod_events.h"
#include "data/formats/reader.h"

namespace reprise {

/// Matches begins and ends by row and name and hands on what ended.
class DproPairs {
 public:
  struct Row {
    std::string name;  ///< "worker_0 -> server_1".
    std::string thread;
  };
  using Take = std::function<void(const Row&, std::string_view name,
                                  const TimelineSpan&)>;
  explicit DproPairs(FileReport& report) : report_(report) {}
  /// Errors: as read_timeline.
  Status read(ByteSource& source, const Take& take);

 private:
  FileReport& report_;
};

/// The number at the end of "traces_3" or "worker_3"; nothing without one.
std::optional<int64_t> number_at_end(std::string_view name);

}  // namespace reprise
