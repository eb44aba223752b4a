// The file is nameless (O_TMPFILE, or unlinked at once), so that nothing is
// left behind however the process ends. Each segment has a checksum, held when
// it is read back: a bad disk shows as an error, not as another trace.
#include "data/trace/segment_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "data/io/crc32.h"

namespace reprise {
namespace {

/// Small traces never touch the disk.
constexpr size_t kPendingBytes = size_t{2} << 20;

}  // namespace

SegmentStore::SegmentStore(std::string directory)
    : directory_(std::move(directory)) {}

SegmentStore::~SegmentStore() {
  if (file_ >= 0) ::close(file_);
}

void SegmentStore::append(std::span<const ColumnBytes> columns, size_t count) {
  if (!status_) return;
  Segment segment;
  segment.offset = file_bytes_ + pending_.size();
  segment.count = count;
  const size_t first = pending_.size();
  for (const ColumnBytes& column : columns) {
    segment.columns.push_back({column.encoding, column.bytes.size()});
    pending_ += column.bytes;
  }
  segment.size = pending_.size() - first;
  segment.crc = crc32(std::string_view(pending_).substr(first));
  segments_.push_back(std::move(segment));
  if (pending_.size() >= kPendingBytes) status_ = write_pending();
}

Status SegmentStore::open_file() {
  if (directory_.empty()) {
    std::error_code error;
    directory_ = std::filesystem::temp_directory_path(error).string();
    if (error) {
      return fail(ErrorKind::kIo, "no directory for temporary files: {}",
                  error.message());
    }
  }
  file_ = ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ >= 0) return {};
  // File systems without nameless files.
  std::string name = directory_ + "/reprise-spool-XXXXXX";
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) {
    return fail(ErrorKind::kIo, "{}: cannot make a temporary file: {}",
                directory_, std::strerror(errno));
  }
  ::unlink(name.c_str());
  return {};
}

Status SegmentStore::write_pending() {
  if (file_ < 0) {
    if (Status opened = open_file(); !opened) return opened;
  }
  std::string_view bytes = pending_;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(),
                                     static_cast<off_t>(file_bytes_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return fail(ErrorKind::kIo, "{}: cannot write a temporary file: {}",
                  directory_, std::strerror(errno));
    }
    file_bytes_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  pending_.clear();
  return {};
}

Status SegmentStore::read_file(uint64_t offset, std::span<char> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return fail(ErrorKind::kIo, "{}: cannot read a temporary file: {}",
                  directory_, got < 0 ? std::strerror(errno) : "cut short");
    }
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return {};
}

Result<std::vector<ColumnBytes>> SegmentStore::read(size_t place,
                                                    std::string& buffer) const {
  const Segment& segment = segments_[place];
  if (segment.offset >= file_bytes_) {
    buffer.assign(pending_, segment.offset - file_bytes_, segment.size);
  } else {
    buffer.resize(segment.size);
    if (Status read = read_file(segment.offset, buffer); !read)
      return pass(read.error());
  }
  if (crc32(buffer) != segment.crc) {
    return fail(ErrorKind::kIo,
                "{}: a temporary file does not hold what was written to it",
                directory_);
  }
  std::vector<ColumnBytes> columns;
  std::string_view rest = buffer;
  for (const Column& column : segment.columns) {
    columns.push_back({column.encoding, rest.substr(0, column.size)});
    rest.remove_prefix(column.size);
  }
  return columns;
}

}  // namespace reprise
