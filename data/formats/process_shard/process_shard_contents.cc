#include "data/formats/process_shard/process_shard_contents.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/io/crc32.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little,
              "shards are read as they lie");

using nlohmann::json;

constexpr ProcessSegmentHeader kAnySegment;
/// A writer drains some thousand records at a time; beyond this it is none.
constexpr uint32_t kLargestPayload = uint32_t{1} << 28;
/// Ids count the strings that a file holds, each of at least four bytes.
constexpr uint32_t kFewestStringBytes = 4;

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

int64_t number_of(const json& object, const char* key, int64_t fallback) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return fallback;
  const bool fits =
      !found->is_number_unsigned() ||
      found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  return fits ? found->get<int64_t>() : fallback;
}

bool is_sound(const ProcessSegmentHeader& header) {
  if (header.magic != kAnySegment.magic ||
      header.payload_bytes > kLargestPayload) {
    return false;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(&header),
                               offsetof(ProcessSegmentHeader, header_crc));
  return crc32(bytes) == header.header_crc;
}

}  // namespace

Result<ProcessShardContents> ProcessShardContents::open(
    const std::string& path) {
  ProcessShardContents contents;
  contents.path_ = path;
  contents.file_.reset(std::fopen(path.c_str(), "rbe"));
  if (!contents.file_ || ::fseeko(contents.file_.get(), 0, SEEK_END) != 0) {
    return fail(ErrorKind::kIo, "{}: cannot open: {}", path,
                std::strerror(errno));
  }
  contents.size_bytes_ = ::ftello(contents.file_.get());
  if (Status start = contents.check_start(); !start) return pass(start.error());
  if (Status walked = contents.walk(); !walked) return pass(walked.error());
  return contents;
}

std::string_view ProcessShardContents::text(uint32_t id) const {
  if (id >= strings_.size()) return {};
  return strings_[id];
}

bool ProcessShardContents::read_at(int64_t offset, std::span<char> into) const {
  return ::fseeko(file_.get(), offset, SEEK_SET) == 0 &&
         std::fread(into.data(), 1, into.size(), file_.get()) == into.size();
}

Status ProcessShardContents::check_start() {
  ProcessShardStart start;
  const std::span<char> bytes(reinterpret_cast<char*>(&start), sizeof start);
  if (!read_at(0, bytes) ||
      std::string_view(start.magic, sizeof start.magic) != kProcessShardMagic) {
    return fail(ErrorKind::kParse,
                "{}: not a process shard (it does not start with \"{}\")",
                path_, kProcessShardMagic);
  }
  if (start.version != kProcessShardVersion) {
    return fail(ErrorKind::kUnsupported,
                "{}: process shard version {}, this build reads version {}",
                path_, start.version, kProcessShardVersion);
  }
  return {};
}

bool ProcessShardContents::read_segment_header(
    int64_t offset, ProcessSegmentHeader& header) const {
  const std::span<char> bytes(reinterpret_cast<char*>(&header), sizeof header);
  return size_bytes_ - offset >= std::ssize(bytes) && read_at(offset, bytes) &&
         is_sound(header);
}

int64_t ProcessShardContents::find_segment(int64_t offset) const {
  constexpr int64_t kWindow = 1 << 16;
  std::string window;
  const std::string_view magic(
      reinterpret_cast<const char*>(&kAnySegment.magic),
      sizeof kAnySegment.magic);
  while (size_bytes_ - offset >= std::ssize(magic)) {
    window.resize(static_cast<size_t>(std::min(kWindow, size_bytes_ - offset)));
    if (!read_at(offset, window)) break;
    for (size_t at = window.find(magic); at != std::string::npos;
         at = window.find(magic, at + 1)) {
      ProcessSegmentHeader header;
      const int64_t found = offset + static_cast<int64_t>(at);
      if (read_segment_header(found, header)) return found;
    }
    if (std::ssize(window) < kWindow) break;
    offset += kWindow - std::ssize(magic) + 1;
  }
  return size_bytes_;
}

Status ProcessShardContents::walk() {
  int64_t offset = sizeof(ProcessShardStart);
  std::string payload;
  while (offset < size_bytes_) {
    ProcessSegmentHeader header;
    const int64_t body = offset + int64_t{sizeof header};
    const bool is_whole = read_segment_header(offset, header);
    if (is_whole && header.payload_bytes <= size_bytes_ - body) {
      payload.resize(header.payload_bytes);
      if (!read_at(body, payload)) {
        return fail(ErrorKind::kIo, "{}: cannot read", path_);
      }
      if (crc32(payload) != header.payload_crc ||
          !take(header.kind, payload, body)) {
        ++damage_["damaged segment"];
      }
      offset = body + header.payload_bytes;
      continue;
    }
    // Torn at the end, as a killed process leaves it, or damaged within.
    const int64_t next = find_segment(offset + 1);
    ++damage_[next == size_bytes_ ? "last segment cut short"
                                  : "damaged segment"];
    offset = next;
  }
  if (has_header_) return {};
  return fail(ErrorKind::kParse,
              "{}: the shard's header segment is missing or damaged", path_);
}

bool ProcessShardContents::take(ProcessSegment kind, std::string_view payload,
                                int64_t offset) {
  switch (kind) {
    case ProcessSegment::kHeader:
      return take_header(payload);
    case ProcessSegment::kStrings:
      return take_strings(payload);
    case ProcessSegment::kRecords: {
      const size_t records = payload.size() / sizeof(ProcessRecord);
      if (payload.size() % sizeof(ProcessRecord) != 0) return false;
      segments_.push_back({offset, records});
      record_count_ += static_cast<int64_t>(records);
      return true;
    }
    case ProcessSegment::kNotes:
      return take_notes(payload);
    case ProcessSegment::kEnd:
      return take_end(payload);
  }
  return false;
}

bool ProcessShardContents::take_header(std::string_view payload) {
  const json header = parse_json_or_discard<json>(payload);
  if (!header.is_object() || has_header_) return false;
  has_header_ = true;
  identity_.host = text_of(header, "host");
  identity_.boot_id = text_of(header, "boot_id");
  identity_.program = text_of(header, "program");
  identity_.source = text_of(header, "source");
  if (const auto found = header.find("arguments");
      found != header.end() && found->is_array()) {
    for (const json& argument : *found) {
      if (argument.is_string()) {
        identity_.arguments.push_back(argument.get<std::string>());
      }
    }
  }
  identity_.process = number_of(header, "process", -1);
  identity_.parent = number_of(header, "parent", -1);
  identity_.rank = number_of(header, "rank", -1);
  identity_.ranks = number_of(header, "ranks", -1);
  identity_.local_rank = number_of(header, "local_rank", -1);
  identity_.image = number_of(header, "image", 1);
  identity_.start_ns = number_of(header, "start_ns", 0);
  identity_.epoch_offset_ns = number_of(header, "epoch_offset_ns", 0);
  return true;
}

bool ProcessShardContents::take_strings(std::string_view payload) {
  const auto number = [&payload](uint32_t& value) {
    if (payload.size() < sizeof value) return false;
    std::memcpy(&value, payload.data(), sizeof value);
    payload.remove_prefix(sizeof value);
    return true;
  };
  uint32_t first = 0, count = 0;
  if (!number(first) || !number(count) || first == 0 ||
      count > payload.size() / kFewestStringBytes ||
      first > static_cast<uint64_t>(size_bytes_) / kFewestStringBytes) {
    return false;
  }
  // Those of a damaged segment in between stay empty.
  strings_.resize(std::max<size_t>(strings_.size(), size_t{first} + count));
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    if (!number(length) || length > payload.size()) return false;
    strings_[first + i] = payload.substr(0, length);
    payload.remove_prefix(length);
  }
  return payload.empty();
}

bool ProcessShardContents::take_notes(std::string_view payload) {
  const json notes = parse_json_or_discard<json>(payload);
  if (!notes.is_object()) return false;
  for (const auto& [name, text] : notes.items()) {
    if (text.is_string()) notes_[name] = text.get<std::string>();
  }
  return true;
}

bool ProcessShardContents::take_end(std::string_view payload) {
  const json end = parse_json_or_discard<json>(payload);
  if (!end.is_object()) return false;
  has_end_ = true;
  end_ns_ = number_of(end, "end_ns", 0);
  if (const auto found = end.find("lost");
      found != end.end() && found->is_object()) {
    for (const auto& [reason, count] : found->items()) {
      const int64_t lost = number_of(*found, reason.c_str(), 0);
      if (lost > 0) lost_[reason] = lost;
    }
  }
  return true;
}

Status ProcessShardContents::each_segment(const Visit& visit) const {
  std::vector<ProcessRecord> records;
  for (const RecordSegment& segment : segments_) {
    records.resize(segment.records);
    const std::span<char> bytes(reinterpret_cast<char*>(records.data()),
                                records.size() * sizeof(ProcessRecord));
    if (!bytes.empty() && !read_at(segment.offset, bytes)) {
      return fail(ErrorKind::kIo, "{}: changed while it was read", path_);
    }
    visit(records);
  }
  return {};
}

}  // namespace reprise
