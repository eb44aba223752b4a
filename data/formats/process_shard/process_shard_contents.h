// One process shard (data/trace/process_shard.h) as it lies on disk: who wrote
// it, its strings, and its records, which are read again for each walk, so that
// memory does not grow with them. Nothing in the file is trusted: damaged
// segments are counted and passed over.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "data/trace/process_shard.h"

namespace reprise {

/// The header of a shard: who recorded it. -1 and "" where it does not say.
struct ProcessIdentity {
  std::string host, boot_id, program, source;
  std::vector<std::string> arguments;
  int64_t process = -1, parent = -1;
  int64_t rank = -1, ranks = -1, local_rank = -1;
  int64_t image = 1;  ///< 2 and more after an exec in the same process.
  int64_t start_ns = 0, epoch_offset_ns = 0;
};

class ProcessShardContents {
 public:
  /// Walks the file once. Errors: kIo; kParse (no shard, or no header segment
  /// that is whole); kUnsupported (newer version).
  static Result<ProcessShardContents> open(const std::string& path);

  const ProcessIdentity& identity() const { return identity_; }
  /// The string of an id; "" for one that is not in the file.
  std::string_view text(uint32_t id) const;
  size_t string_count() const { return strings_.size(); }
  /// What the process said of itself: "cupti" -> "version 130001".
  const std::map<std::string, std::string>& notes() const { return notes_; }
  /// What it could not record: "ring full" -> how many.
  const std::map<std::string, int64_t>& lost() const { return lost_; }
  bool has_end() const { return has_end_; }
  int64_t end_ns() const { return end_ns_; }
  /// What the file lost: "damaged segment" -> how many.
  const std::map<std::string, int64_t>& damage() const { return damage_; }
  int64_t bytes() const { return size_bytes_; }
  int64_t record_count() const { return record_count_; }

  /// Visits all records in the order of the file. Errors: kIo.
  using Visit = std::function<void(std::span<const ProcessRecord>)>;
  Status each_segment(const Visit& visit) const;

 private:
  struct CloseFile {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  struct RecordSegment {
    int64_t offset = 0;
    size_t records = 0;
  };

  ProcessShardContents() = default;
  Status check_start();
  Status walk();
  /// A whole segment header at `offset`, if one is there.
  bool read_segment_header(int64_t offset, ProcessSegmentHeader& header) const;
  /// The offset of the next whole segment header from `offset` on; the file's
  /// end without one.
  int64_t find_segment(int64_t offset) const;
  bool read_at(int64_t offset, std::span<char> into) const;
  /// False when the payload says nothing that can be read.
  bool take(ProcessSegment kind, std::string_view payload, int64_t offset);
  bool take_header(std::string_view payload);
  bool take_strings(std::string_view payload);
  bool take_notes(std::string_view payload);
  bool take_end(std::string_view payload);

  std::string path_;
  std::unique_ptr<FILE, CloseFile> file_;
  int64_t size_bytes_ = 0;
  ProcessIdentity identity_;
  bool has_header_ = false, has_end_ = false;
  int64_t end_ns_ = 0, record_count_ = 0;
  std::vector<std::string> strings_{""};
  std::map<std::string, std::string> notes_;
  std::map<std::string, int64_t> lost_, damage_;
  std::vector<RecordSegment> segments_;
};

}  // namespace reprise
