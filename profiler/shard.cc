#include "profiler/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/file.h"
#include "data/trace/crc32.h"

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little,
              "shards are written as they lie");

using nlohmann::json;

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

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
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
  return append(kHeader, dump({{"rank", rank.rank},
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
      size_bytes_ += static_cast<int64_t>(sizeof header + payload.size());
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
  Status appended =
      append(kEnd, dump({{"clock_offset_ns", rank.clock_offset_ns},
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

}  // namespace reprise
