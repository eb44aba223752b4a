#include "data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace reprise {
namespace {

Status write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(ErrorKind::kIo, "{}", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS &&
      errno != ENOTSUP) {
    return fail(ErrorKind::kIo, "{}", std::strerror(errno));
  }
  return {};
}

}  // namespace

Result<OpenFile> open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    const int reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    return fail(ErrorKind::kIo, "{}: cannot open: {}", path,
                std::strerror(reason));
  }
  return OpenFile{
      .descriptor = descriptor,
      .size_bytes = info.st_size > 0 ? static_cast<uint64_t>(info.st_size) : 0,
      .is_directory = S_ISDIR(info.st_mode)};
}

Result<std::string> read_file(const std::string& path) {
  const Result<OpenFile> file = open_to_read(path);
  if (!file) return pass(file.error());
  const int descriptor = file->descriptor;
  std::string bytes;
  if (!file->is_directory) bytes.reserve(file->size_bytes);
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = ::read(descriptor, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int reason = errno;
      ::close(descriptor);
      return fail(ErrorKind::kIo, "{}: cannot read: {}", path,
                  std::strerror(reason));
    }
    if (got == 0) break;
    bytes.append(chunk, static_cast<size_t>(got));
  }
  ::close(descriptor);
  return bytes;
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  struct stat target {};
  // A device or a pipe cannot be replaced by a rename: write into it.
  const bool in_place =
      ::stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode);
  // Of its own even where threads write one path: ranks that fill one cache.
  static std::atomic<uint64_t> files{0};
  const std::string temporary =
      in_place ? path : fmt::format("{}.tmp.{}.{}", path, ::getpid(), files++);
  const int descriptor =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return fail(ErrorKind::kIo, "{}: cannot write: {}", path,
                std::strerror(errno));
  }
  Status written = write_all(descriptor, bytes);
  if (::close(descriptor) != 0 && written) {
    written = fail(ErrorKind::kIo, "{}", std::strerror(errno));
  }
  if (written && !in_place && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = fail(ErrorKind::kIo, "{}", std::strerror(errno));
  }
  if (!written) {
    if (!in_place) ::unlink(temporary.c_str());
    return pass(written.error(), path + ": cannot write");
  }
  return {};
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Result<OpenFile> file = open_to_read(path);
  if (!file) return pass(file.error());
  const size_t size = file->size_bytes;
  void* const start = size == 0 ? nullptr
                                : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE,
                                         file->descriptor, 0);
  const int reason = errno;
  ::close(file->descriptor);
  if (start == MAP_FAILED) {
    return fail(ErrorKind::kIo, "{}: cannot map: {}", path,
                std::strerror(reason));
  }
  return MappedFile({static_cast<const char*>(start), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace reprise
