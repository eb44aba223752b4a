// A segment is a header (magic, kind, length, checksums of payload and header)
// and its payload. A damaged payload loses that segment alone; a damaged header
// ends the reading, as the end of a killed writer does. The host's byte order
// is little-endian, so structs are written as they lie.
#include "profiler/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/file.h"
#include "data/io/crc32.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little,
              "shards are written as they lie");

using ShardJson = nlohmann::json;

constexpr std::string_view kMagic = "RPRSHARD";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kSegmentMagic = 0x47455352;  // "RSEG"
enum SegmentKind : uint32_t { kHeader = 1, kEvents = 2, kSteps = 3, kEnd = 4 };

struct SegmentHeader {
  uint32_t magic = kSegmentMagic;
  uint32_t kind = 0;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  uint32_t header_crc = 0;  ///< Of the four fields above.
};
struct ShardStep {
  int32_t step = 0;
  uint32_t warmup = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};
static_assert(sizeof(SegmentHeader) == 20 && sizeof(ShardStep) == 24);

template <typename T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <typename T>
T value_at(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

uint32_t crc_of(const SegmentHeader& header) {
  return crc32(bytes_of(std::span(&header, 1))
                   .substr(0, offsetof(SegmentHeader, header_crc)));
}

/// Writes it all or gives the system's reason.
std::string write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

ShardWriter::~ShardWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status ShardWriter::open(const std::string& path, const RankInfo& rank,
                         const std::vector<std::string>& streams) {
  path_ = path;
  descriptor_ =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    return fail(ErrorKind::kIo, "{}: cannot write: {}", path,
                std::strerror(errno));
  }
  std::string start(kMagic);
  const uint32_t version[2] = {kVersion, 0};
  start += bytes_of(std::span<const uint32_t>(version));
  if (failure_ = write_all(descriptor_, start); !failure_.empty()) {
    return fail(ErrorKind::kIo, "{}: cannot write: {}", path, failure_);
  }
  size_bytes_ = static_cast<int64_t>(start.size());
  return append(kHeader, json_text(ShardJson{{"rank", rank.rank},
                                             {"host", rank.host},
                                             {"process", rank.process},
                                             {"device", rank.device},
                                             {"streams", streams}}));
}

Status ShardWriter::append(uint32_t kind, const std::string& payload) {
  if (failure_.empty()) {
    SegmentHeader header{.kind = kind,
                         .payload_bytes = static_cast<uint32_t>(payload.size()),
                         .payload_crc = crc32(payload)};
    header.header_crc = crc_of(header);
    failure_ = write_all(descriptor_,
                         bytes_of(std::span<const SegmentHeader>(&header, 1)));
    if (failure_.empty()) failure_ = write_all(descriptor_, payload);
    if (failure_.empty()) {
      size_bytes_ += static_cast<int64_t>(sizeof(header) + payload.size());
      return {};
    }
    // Best effort: a torn segment is recognised by its checksum as well.
    [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, size_bytes_);
  }
  return fail(ErrorKind::kIo, "{}: cannot write: {}", path_, failure_);
}

Status ShardWriter::append_events(uint32_t stream,
                                  std::span<const ShardEvent> first,
                                  std::span<const ShardEvent> second) {
  const uint32_t head[2] = {
      stream, static_cast<uint32_t>(first.size() + second.size())};
  std::string payload(bytes_of(std::span<const uint32_t>(head)));
  payload.reserve(payload.size() + first.size_bytes() + second.size_bytes());
  payload += bytes_of(first);
  payload += bytes_of(second);
  return append(kEvents, payload);
}

Status ShardWriter::append_steps(std::span<const StepMark> steps) {
  std::string payload;
  for (const StepMark& mark : steps) {
    const ShardStep step{.step = mark.step,
                         .warmup = mark.warmup ? 1U : 0U,
                         .start_ns = mark.start_ns,
                         .end_ns = mark.end_ns};
    payload += bytes_of(std::span<const ShardStep>(&step, 1));
  }
  return append(kSteps, payload);
}

Status ShardWriter::close(const RankInfo& rank,
                          const std::vector<uint64_t>& lost_events) {
  Status appended = append(
      kEnd, json_text(ShardJson{{"clock_offset_ns", rank.clock_offset_ns},
                                {"clock_drift_ppm", rank.clock_drift_ppm},
                                {"clock_reference_ns", rank.clock_reference_ns},
                                {"clock_residual_ns", rank.clock_residual_ns},
                                {"lost_events", lost_events}}));
  if (descriptor_ < 0) return appended;
  if (::close(descriptor_) != 0 && appended) {
    appended = fail(ErrorKind::kIo, "{}: cannot write: {}", path_,
                    std::strerror(errno));
  }
  descriptor_ = -1;
  return appended;
}

namespace {

/// One segment of the file, whole.
struct Segment {
  uint32_t kind = 0;
  std::string_view payload;
  bool is_sound = false;  ///< The payload's checksum holds.
  size_t end = 0;         ///< Byte after it.
};

/// Walks the segments of one file; every read is bounds-checked.
class ShardReader {
 public:
  ShardReader(std::string path, std::string bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  Result<Shard> read();

 private:
  Status check_start() const;
  /// The segment at `offset_`, if all of it is there.
  std::optional<Segment> whole_segment() const;
  /// Reads the segment at `offset_` and moves on; false at the end of what can
  /// be read.
  bool next();
  Status read_header(std::string_view payload);
  bool read_payload(const Segment& segment);
  bool read_events(std::string_view payload);
  bool read_steps(std::string_view payload);
  bool read_end(std::string_view payload);
  void warn(const std::string& what) {
    shard_.warnings.push_back(
        fmt::format("rank {}: {}", shard_.rank.rank, what));
  }

  std::string path_;
  std::string bytes_;
  size_t offset_ = 0;
  bool ended_ = false;
  Shard shard_;
};

Status ShardReader::check_start() const {
  constexpr size_t kStartBytes = kMagic.size() + 2 * sizeof(uint32_t);
  if (bytes_.size() < kStartBytes || !bytes_.starts_with(kMagic)) {
    return fail(ErrorKind::kParse,
                "{}: not a shard (it does not start with \"{}\")", path_,
                kMagic);
  }
  if (const auto version = value_at<uint32_t>(bytes_, kMagic.size());
      version != kVersion) {
    return fail(ErrorKind::kUnsupported,
                "{}: shard version {}, this build reads version {}", path_,
                version, kVersion);
  }
  return {};
}

Status ShardReader::read_header(std::string_view payload) {
  const ShardJson value = parse_json_or_discard(payload);
  const auto is = [&](const char* key, auto check) {
    return value.is_object() && value.contains(key) && check(value[key]);
  };
  const auto is_integer = [](const ShardJson& field) {
    return field.is_number_integer();
  };
  const auto is_text = [](const ShardJson& field) { return field.is_string(); };
  const auto is_texts = [&](const ShardJson& field) {
    return field.is_array() && std::all_of(field.begin(), field.end(), is_text);
  };
  if (!is("rank", is_integer) || !is("process", is_integer) ||
      !is("host", is_text) || !is("device", is_text) ||
      !is("streams", is_texts)) {
    return fail(ErrorKind::kParse, "{}: malformed shard header", path_);
  }
  shard_.rank.rank = value["rank"].get<uint32_t>();
  shard_.rank.process = value["process"].get<int64_t>();
  shard_.rank.host = value["host"].get<std::string>();
  shard_.rank.device = value["device"].get<std::string>();
  shard_.streams = value["streams"].get<std::vector<std::string>>();
  return {};
}

bool ShardReader::read_events(std::string_view payload) {
  constexpr size_t kHeadBytes = 2 * sizeof(uint32_t);
  if (payload.size() < kHeadBytes) return false;
  const auto stream = value_at<uint32_t>(payload, 0);
  const auto count = value_at<uint32_t>(payload, sizeof(uint32_t));
  payload.remove_prefix(kHeadBytes);
  if (stream >= shard_.streams.size() ||
      payload.size() != size_t{count} * sizeof(ShardEvent)) {
    return false;
  }
  StreamEvents& run = shard_.runs.emplace_back();
  run.stream = stream;
  run.events.resize(count);
  if (count > 0) std::memcpy(run.events.data(), payload.data(), payload.size());
  return true;
}

bool ShardReader::read_steps(std::string_view payload) {
  if (payload.size() % sizeof(ShardStep) != 0) return false;
  for (size_t at = 0; at < payload.size(); at += sizeof(ShardStep)) {
    const auto step = value_at<ShardStep>(payload, at);
    shard_.steps.push_back({.rank = shard_.rank.rank,
                            .step = step.step,
                            .start_ns = step.start_ns,
                            .end_ns = step.end_ns,
                            .warmup = step.warmup != 0});
  }
  return true;
}

bool ShardReader::read_end(std::string_view payload) {
  const ShardJson value = parse_json_or_discard(payload);
  if (!value.is_object()) return false;
  const auto integer = [&](const char* key) {
    return value.contains(key) && value[key].is_number_integer()
               ? value[key].get<int64_t>()
               : 0;
  };
  shard_.rank.clock_offset_ns = integer("clock_offset_ns");
  shard_.rank.clock_reference_ns = integer("clock_reference_ns");
  shard_.rank.clock_residual_ns = integer("clock_residual_ns");
  if (value.contains("clock_drift_ppm") &&
      value["clock_drift_ppm"].is_number()) {
    shard_.rank.clock_drift_ppm = value["clock_drift_ppm"].get<double>();
  }
  if (value.contains("lost_events") && value["lost_events"].is_array()) {
    const ShardJson& lost = value["lost_events"];
    for (size_t stream = 0;
         stream < std::min(lost.size(), shard_.streams.size()); ++stream) {
      if (!lost[stream].is_number_integer() || lost[stream] == 0) continue;
      warn(fmt::format(
          "{} events of stream {} lost, the recorder's ring was full",
          lost[stream].get<int64_t>(), shard_.streams[stream]));
    }
  }
  ended_ = true;
  return true;
}

bool ShardReader::read_payload(const Segment& segment) {
  switch (segment.kind) {
    case kEvents:
      return read_events(segment.payload);
    case kSteps:
      return read_steps(segment.payload);
    case kEnd:
      return read_end(segment.payload);
    default:
      return false;
  }
}

std::optional<Segment> ShardReader::whole_segment() const {
  std::string_view rest = bytes_;
  rest.remove_prefix(offset_);
  constexpr size_t kHeaderBytes = sizeof(SegmentHeader);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const auto header = value_at<SegmentHeader>(rest, 0);
  if (header.magic != kSegmentMagic || crc_of(header) != header.header_crc ||
      header.payload_bytes > rest.size() - kHeaderBytes) {
    return std::nullopt;
  }
  const std::string_view payload =
      rest.substr(kHeaderBytes, header.payload_bytes);
  return Segment{.kind = header.kind,
                 .payload = payload,
                 .is_sound = crc32(payload) == header.payload_crc,
                 .end = offset_ + kHeaderBytes + payload.size()};
}

bool ShardReader::next() {
  if (offset_ == bytes_.size()) return false;
  const std::optional<Segment> segment = whole_segment();
  if (!segment) {
    warn(fmt::format("last segment lost ({} bytes at byte {} of {})",
                     bytes_.size() - offset_, offset_, path_));
    return false;
  }
  if (!segment->is_sound || !read_payload(*segment)) {
    warn(fmt::format("damaged segment left out (byte {} of {})", offset_,
                     path_));
  }
  offset_ = segment->end;
  return true;
}

Result<Shard> ShardReader::read() {
  if (Status start = check_start(); !start) return pass(start.error());
  offset_ = kMagic.size() + 2 * sizeof(uint32_t);
  const std::optional<Segment> first = whole_segment();
  if (!first || !first->is_sound || first->kind != kHeader) {
    return fail(ErrorKind::kParse, "{}: the shard's header segment is damaged",
                path_);
  }
  if (Status read = read_header(first->payload); !read)
    return pass(read.error());
  offset_ = first->end;
  while (next()) {
  }
  if (!ended_)
    warn("the writer ended early; clock and last events are missing");
  return std::move(shard_);
}

}  // namespace

Result<Shard> read_shard(const std::string& path) {
  Result<std::string> bytes = read_file(path);
  if (!bytes) return pass(bytes.error());
  return parse_shard(std::move(*bytes), path);
}

Result<Shard> parse_shard(std::string bytes, const std::string& file) {
  return ShardReader(file, std::move(bytes)).read();
}

}  // namespace reprise
