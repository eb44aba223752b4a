#include "profiler/process_shard_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "profiler/process_checksum.h"
#include "profiler/process_identity.h"

namespace reprise {
namespace {

/// Of one process: exec chains are short.
constexpr int kMaximumImages = 1000;
/// Above the numbers that shells and daemons name or close.
constexpr int kFirstDescriptor = 700;

template <typename T>
std::string_view bytes_of(const T& value, size_t size = sizeof(T)) {
  return {reinterpret_cast<const char*>(&value), size};
}

/// Moves a descriptor out of the host's way, where its limit allows that.
int moved_up(int descriptor) {
  if (descriptor < 0) return descriptor;
  const int high = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high < 0) return descriptor;
  ::close(descriptor);
  return high;
}

/// A write beyond the limit would send the host a signal that ends it.
bool has_size_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
         limit.rlim_cur != RLIM_INFINITY;
}

bool write_all(int file, std::string_view head, std::string_view body) {
  while (!head.empty() || !body.empty()) {
    iovec pieces[2] = {{const_cast<char*>(head.data()), head.size()},
                       {const_cast<char*>(body.data()), body.size()}};
    const ssize_t count = ::writev(file, pieces, 2);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    const auto written = static_cast<size_t>(count);
    const size_t of_head = written < head.size() ? written : head.size();
    head.remove_prefix(of_head);
    body.remove_prefix(written - of_head);
  }
  return true;
}

}  // namespace

bool ProcessShardFile::create(const std::string& base) {
  for (image_ = 1; image_ <= kMaximumImages; ++image_) {
    path_ = base;
    if (image_ > 1) path_.append(".").append(std::to_string(image_));
    path_ += ".shard";
    descriptor_ = moved_up(
        ::open(path_.c_str(),
               O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (descriptor_ >= 0) break;
    if (errno != EEXIST) return false;
  }
  struct stat made {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &made) != 0) return false;
  device_ = made.st_dev;
  inode_ = made.st_ino;
  return true;
}

bool ProcessShardFile::open(const std::string& directory,
                            const std::string& source) {
  if (has_size_limit()) return false;
  const std::string base = directory + "/" + shard_host_name() + "." +
                           std::to_string(::getpid()) + "." + source;
  if (!create(base)) return false;
  ProcessShardStart start{};
  std::memcpy(start.magic, kProcessShardMagic.data(), sizeof start.magic);
  if (!write_all(descriptor_, bytes_of(start), {})) {
    close();
    return false;
  }
  size_bytes_ = sizeof start;
  return append(ProcessSegment::kHeader, process_header_json(source, image_));
}

bool ProcessShardFile::holds_file() const {
  struct stat now {};
  return descriptor_ >= 0 && ::fstat(descriptor_, &now) == 0 &&
         now.st_dev == device_ && now.st_ino == inode_;
}

bool ProcessShardFile::reopen() {
  descriptor_ =
      moved_up(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (holds_file()) return true;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  return false;
}

bool ProcessShardFile::append(ProcessSegment kind, std::string_view payload) {
  if (descriptor_ < 0 || has_size_limit()) return false;
  if (!holds_file() && !reopen()) return false;
  ProcessSegmentHeader header{
      .kind = kind,
      .payload_bytes = static_cast<uint32_t>(payload.size()),
      .payload_crc = process_checksum(payload)};
  header.header_crc = process_checksum(
      bytes_of(header, offsetof(ProcessSegmentHeader, header_crc)));
  if (write_all(descriptor_, bytes_of(header), payload)) {
    size_bytes_ += static_cast<int64_t>(sizeof header + payload.size());
    return true;
  }
  // Best effort: a torn segment is recognised by its checksum as well.
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, size_bytes_);
  close();
  return false;
}

void ProcessShardFile::close() {
  if (holds_file()) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace reprise
