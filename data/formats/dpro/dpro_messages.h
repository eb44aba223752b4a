// What dPRO records of the messages between BytePS's workers and their servers
// (comm_timeline.json).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/dpro/dpro_operations.h"
#include "data/formats/dpro/dpro_pairs.h"
#include "data/formats/dpro/dpro_tensors.h"
#include "data/formats/reader.h"

namespace reprise {

/// Servers of higher numbers are damage.
constexpr int64_t kMostDproServers = 1 << 16;

/// A partition of tensors, pushed to its server and pulled back summed.
struct DproExchange {
  int32_t step = -1;
  std::vector<uint32_t> tensors;  ///< Ascending.
  int64_t first = -1, last = -1;  ///< External ids of push and pull.
};

/// A push to a server, or what it answers to a pull.
struct DproMessage {
  uint32_t worker = 0;  ///< Its rank.
  int64_t server = -1;  ///< The number in "server_1", -1: none is named.
  uint32_t stream = 0;  ///< Of the worker's spool.
  std::string name;     ///< "BytePSPushPull.1+2~PART0.PUSH".
  std::string part;     ///< Without ".PUSH".
  bool pulls = false;   ///< From the server.
  TimelineSpan span;
  int32_t step = -1;         ///< Place in the worker's steps.
  int32_t step_number = -1;  ///< As the steps are called.
  int64_t bytes = 0;         ///< 0: unknown.
  int64_t id = -1;           ///< External id on the worker.
};

/// The messages of one worker as events of its rank.
class DproMessages {
 public:
  /// `worker` is the number in "worker_3"; a server's rank is its number and
  /// `first_server`. External ids count from `next_id` on.
  DproMessages(TraceSpool& spool, FileReport& report, uint32_t rank,
               int64_t worker, uint32_t first_server,
               const DproOperations& operations, const DproTensors& tensors,
               int64_t& next_id);
  /// Errors: as read_timeline.
  Status read(ByteSource& source);
  /// Adds the messages, ties pushes to their pulls and returns what was
  /// exchanged.
  std::vector<DproExchange> finish();
  /// By part and start. Requires: finished.
  const std::vector<DproMessage>& messages() const { return messages_; }

 private:
  void take(const DproPairs::Row& row, std::string_view name,
            const TimelineSpan& span);
  std::vector<DproExchange> exchanges() const;

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  int64_t worker_;
  uint32_t first_server_;
  const DproOperations& operations_;
  const DproTensors& tensors_;
  int64_t& next_id_;
  std::map<std::string, uint32_t> streams_;  ///< By row.
  std::vector<DproMessage> messages_;
};

/// What of a timeline's name says which part of which tensors it is about:
/// "BytePSPushPull.1+2~PART0" of "BytePSPushPull.1+2~PART0.SUM".
std::string_view dpro_part_of(std::string_view name);

/// A message as an event on `stream` of `rank`, whose other side is `peer`.
Event dpro_message_event(TraceSpool& spool, const DproMessage& message,
                         uint32_t rank, uint32_t stream, int64_t peer,
                         CollectiveKind kind);

/// Something that took its turn.
struct DproTurn {
  int64_t peer = -1;  ///< Where it went or came from.
  TimelineSpan span;
  int64_t id = -1;  ///< External id.
};

/// Where a node did them one at a time, each waits for the one before; where
/// it did not, but those of each peer were, each for the one of its peer.
void add_turns(TraceSpool& spool, uint32_t rank, std::vector<DproTurn> turns);

}  // namespace reprise
