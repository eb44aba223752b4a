#include "tests/profiler/process_shard_contents.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "data/io/crc32.h"

namespace reprise {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

template <typename T>
T take(std::string_view* bytes) {
  require(bytes->size() >= sizeof(T), "cut");
  T value;
  std::memcpy(&value, bytes->data(), sizeof value);
  bytes->remove_prefix(sizeof value);
  return value;
}

void read_strings(std::string_view payload, StrictShardContents* into) {
  const auto first = take<uint32_t>(&payload);
  const auto count = take<uint32_t>(&payload);
  require(first == into->names.size(), "string ids with a gap");
  for (uint32_t i = 0; i < count; ++i) {
    const auto length = take<uint32_t>(&payload);
    require(length <= payload.size(), "string cut");
    into->names.emplace_back(payload.substr(0, length));
    payload.remove_prefix(length);
  }
  require(payload.empty(), "bytes after the last string");
}

void read_records(std::string_view payload, StrictShardContents* into) {
  while (!payload.empty()) {
    const auto record = take<ProcessRecord>(&payload);
    require(
        record.name < into->names.size() && record.info < into->names.size(),
        "string named before it is written");
    into->records.push_back(record);
  }
}

void read_segment(ProcessSegment kind, std::string_view payload,
                  StrictShardContents* into) {
  require((kind == ProcessSegment::kHeader) == (into->segments == 0),
          "header not first");
  require(into->end.is_null(), "segment after the end");
  ++into->segments;
  if (kind == ProcessSegment::kHeader) {
    into->header = nlohmann::json::parse(payload);
  } else if (kind == ProcessSegment::kStrings) {
    read_strings(payload, into);
  } else if (kind == ProcessSegment::kRecords) {
    read_records(payload, into);
  } else if (kind == ProcessSegment::kNotes) {
    const auto notes = nlohmann::json::parse(payload);
    for (const auto& [name, text] : notes.items()) {
      into->notes[name] = text.get<std::string>();
    }
  } else {
    require(kind == ProcessSegment::kEnd, "unknown segment");
    into->end = nlohmann::json::parse(payload);
  }
}

}  // namespace

nlohmann::json StrictShardContents::info(const ProcessRecord& record) const {
  return record.info == 0 ? nlohmann::json::object()
                          : nlohmann::json::parse(names.at(record.info));
}

std::vector<ProcessRecord> StrictShardContents::of(RecordKind kind) const {
  std::vector<ProcessRecord> found;
  for (const ProcessRecord& record : records) {
    if (record.kind == kind) found.push_back(record);
  }
  return found;
}

uint64_t StrictShardContents::lost(const std::string& reason) const {
  return end.at("lost").value(reason, uint64_t{0});
}

StrictShardContents read_process_shard_strictly(
    const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = bytes;
  const auto start = take<ProcessShardStart>(&rest);
  require(std::string_view(start.magic, 8) == kProcessShardMagic &&
              start.version == kProcessShardVersion,
          "no process shard");
  StrictShardContents contents;
  while (!rest.empty()) {
    const std::string_view head = rest;
    const auto header = take<ProcessSegmentHeader>(&rest);
    require(header.magic == ProcessSegmentHeader{}.magic &&
                header.header_crc == crc32(head.substr(0, 16)),
            "segment header damaged");
    require(header.payload_bytes <= rest.size(), "segment cut");
    const std::string_view payload = rest.substr(0, header.payload_bytes);
    require(header.payload_crc == crc32(payload), "payload damaged");
    read_segment(header.kind, payload, &contents);
    rest.remove_prefix(payload.size());
  }
  return contents;
}

std::map<std::string, StrictShardContents> read_shard_directory(
    const std::filesystem::path& directory) {
  std::map<std::string, StrictShardContents> shards;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".shard") continue;
    shards[entry.path().filename().string()] =
        read_process_shard_strictly(entry.path());
  }
  return shards;
}

}  // namespace reprise
