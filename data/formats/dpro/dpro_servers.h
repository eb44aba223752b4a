// What dPRO records of BytePS's parameter servers: messages between workers and
// servers (comm_timeline.json) and the servers' own work
// (server_timeline.json). Begins and ends are both named and need not nest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/dpro/dpro_operations.h"
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

/// A partition of tensors, pushed to its server and pulled back summed.
struct DproExchange {
  int32_t step = -1;
  std::vector<uint32_t> tensors;  ///< Ascending.
  int64_t first = -1, last = -1;  ///< External ids of push and pull.
};

/// The messages of one worker as events of its rank.
class DproMessages {
 public:
  /// `worker` is the number in "worker_3"; a server's rank is its number and
  /// `first_server`. External ids count from `next_id` on.
  DproMessages(TraceSpool& spool, FileReport& report, uint32_t rank,
               int64_t worker, uint32_t first_server,
               const DproOperations& operations, int64_t& next_id);
  /// Errors: as read_timeline.
  Status read(ByteSource& source);
  /// Ties pushes to their pulls and returns what was exchanged.
  std::vector<DproExchange> finish();

 private:
  struct Message {
    int32_t step = -1;
    std::string tensor;  ///< "BytePSPushPull.1+2~PART0".
    bool pulls = false;
    int64_t start_ns = 0, id = -1;
  };
  void take(const DproPairs::Row& row, std::string_view name,
            const TimelineSpan& span);

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  int64_t worker_;
  uint32_t first_server_;
  const DproOperations& operations_;
  int64_t& next_id_;
  std::map<std::string, uint32_t> streams_;  ///< By row.
  std::vector<Message> messages_;
};

/// Reads the servers' own work into a spool of their own, a rank each, numbered
/// from `first_server` on. Errors: as read_timeline.
Status read_dpro_servers(ByteSource& source, uint32_t first_server,
                         TraceSpool& spool, FileReport& report);

/// The number at the end of "traces_3" or "worker_3"; nothing without one.
std::optional<int64_t> number_at_end(std::string_view name);

}  // namespace reprise
