// Process shards as tests write them: the layout of data/trace/process_shard.h
// put together by hand, apart from the writer that is tested elsewhere.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/io/crc32.h"
#include "data/trace/process_shard.h"

namespace reprise {

class ShardBuilder {
 public:
  /// `header`: JSON.
  explicit ShardBuilder(const std::string& header) {
    ProcessShardStart start{};
    std::memcpy(start.magic, kProcessShardMagic.data(), sizeof start.magic);
    bytes_.assign(reinterpret_cast<const char*>(&start), sizeof start);
    segment(ProcessSegment::kHeader, header);
  }

  /// The id of a text, in a strings segment of its own where it is new.
  uint32_t text(const std::string& text) {
    if (text.empty()) return 0;
    const auto [place, is_new] =
        ids_.try_emplace(text, static_cast<uint32_t>(ids_.size() + 1));
    if (!is_new) return place->second;
    std::string payload;
    for (const uint32_t number :
         {place->second, uint32_t{1}, static_cast<uint32_t>(text.size())}) {
      payload.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    segment(ProcessSegment::kStrings, payload + text);
    return place->second;
  }

  /// Adds a record with its texts; written by `flush` and `bytes`.
  ShardBuilder& add(ProcessRecord record, const std::string& name = {},
                    const std::string& info = {}) {
    record.name = text(name);
    record.info = text(info);
    pending_.append(reinterpret_cast<const char*>(&record), sizeof record);
    return *this;
  }
  void flush() {
    if (!pending_.empty()) {
      segment(ProcessSegment::kRecords, std::exchange(pending_, {}));
    }
  }
  void segment(ProcessSegment kind, const std::string& payload) {
    ProcessSegmentHeader header{
        .kind = kind,
        .payload_bytes = static_cast<uint32_t>(payload.size()),
        .payload_crc = crc32(payload)};
    header.header_crc =
        crc32({reinterpret_cast<const char*>(&header), sizeof header - 4});
    bytes_.append(reinterpret_cast<const char*>(&header), sizeof header);
    bytes_ += payload;
  }
  void end(const std::string& json = R"({"end_ns": 0, "lost": {}})") {
    flush();
    segment(ProcessSegment::kEnd, json);
  }
  const std::string& bytes() {
    flush();
    return bytes_;
  }

 private:
  std::string bytes_, pending_;
  std::map<std::string, uint32_t> ids_;
};

}  // namespace reprise
