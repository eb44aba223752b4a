// Cuts a JSON trace (an object with "traceEvents", or a bare array of events)
// into pieces on its way in: the other members of the object one by one, and
// the events in blocks of whole ones, ready for a fast parser. A reader that
// cannot parse a block asks for its events one by one, which loses only what
// is bad. Memory stays bounded whatever the file, and nothing recurses.
//
// A block ends where the writer's own text between two events stands. That is a
// guess (a name could hold this text), proved by the block's parsing as an
// array to its last byte; the cutter itself trusts only states it tracked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/byte_source.h"
#include "data/result.h"

namespace reprise {

struct JsonEventOptions {
  bool blocks = true;  ///< Otherwise events come one by one.
  size_t block_bytes = size_t{1} << 18;
};

class JsonEventStream {
 public:
  /// Readable bytes after a block, as simdjson demands.
  static constexpr size_t kPadding = 64;
  /// Events and members beyond it are dropped and counted.
  static constexpr size_t kLargestEvent = size_t{16} << 20;

  enum class Piece : uint8_t {
    kMember,  ///< key() and text(): a member beside the events.
    kBlock,   ///< text(): a JSON array of events.
    kEvent,   ///< text(): one event, `{` to `}`; it may have defects inside.
    kEnd,
  };

  explicit JsonEventStream(ByteSource& source, JsonEventOptions options = {});

  /// Moves to the next piece; what the last one pointed at is gone. Errors:
  /// kIo of the source. Damaged compression ends the file and is counted.
  Result<Piece> next();
  std::string_view key() const { return key_; }
  std::string_view text() const { return text_; }
  /// After kBlock: the events from `offset` of its text on (that of one's '{')
  /// come again, one by one.
  void split_block(size_t offset);

  /// Whether the file is an array of events without an object around it.
  bool bare_array() const { return bare_array_; }
  /// Whether an array of events began at all.
  bool has_events() const { return has_events_; }
  int64_t bytes_read() const { return bytes_read_; }
  /// As in FileReport.
  const std::map<std::string, int64_t>& dropped() const { return dropped_; }
  const std::map<std::string, int64_t>& repaired() const { return repaired_; }

 private:
  enum class Mode : uint8_t { kStart, kMembers, kEvents, kDone };

  std::string_view rest() const {
    return {buffer_.data() + begin_, end_ - begin_};
  }
  Status fill(size_t wanted);
  Result<size_t> text_after(size_t from);
  Result<size_t> find_end(size_t from);
  void restore_block();

  Status start();
  Result<bool> next_member();
  Result<bool> take_member(size_t value);
  Result<bool> next_events();
  Result<bool> close();
  Result<bool> closes_events(size_t bracket);
  Status skip_stray_text();
  Result<bool> events_go_on();
  bool take_block();
  Result<bool> take_event();
  void deliver_event(size_t size);
  void learn_border(size_t end);
  Status skip_value();
  Status skip_to_border();

  ByteSource& source_;
  JsonEventOptions options_;
  Mode mode_ = Mode::kStart;
  Piece piece_ = Piece::kEnd;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  ///< Bytes of the buffer not yet delivered.
  bool source_ended_ = false;
  size_t singles_until_ = 0;  ///< Before this place no blocks.
  size_t block_end_ = 0;      ///< Of the last block; 0: nothing is patched.
  char patched_[3] = {};      ///< What the file has around the block.
  bool after_comma_ = false, after_event_ = false;
  std::string border_;  ///< "}" … "{" as this writer parts two events.
  std::string key_;
  std::string_view text_;
  bool bare_array_ = false, has_events_ = false;
  int64_t bytes_read_ = 0;
  std::map<std::string, int64_t> dropped_, repaired_;
};

}  // namespace reprise
