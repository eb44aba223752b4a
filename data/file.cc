// Reading: what a path is, is looked at before it is opened where opening alone
// can wait or act (pipes, devices), and again on the descriptor.
#include "data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "data/memory_limit.h"

namespace reprise {
namespace {

const char* kind_of(mode_t mode) {
  return S_ISCHR(mode)    ? "a device"
         : S_ISBLK(mode)  ? "a disk"
         : S_ISFIFO(mode) ? "a named pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "no file";
}

// A shell's, as in <(COMMAND): it has a writer, or is at its end.
bool is_shell_pipe(int descriptor) {
  struct statfs system {};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

tl::unexpected<Error> cannot_open(const std::string& path, int reason) {
  return fail(ErrorKind::kIo, "{}: cannot open: {}", path,
              std::strerror(reason));
}

/// Whether what begins like this may hold NULs.
using IsBinary = bool (*)(std::string_view head);

bool is_never(std::string_view) { return false; }
bool is_always(std::string_view) { return true; }

tl::unexpected<Error> too_large(const std::string& path, uint64_t most) {
  return fail(ErrorKind::kIo,
              "{}: is larger than half of the memory that is available ({} "
              "bytes)",
              path, 2 * most);
}

Status append_all(const OpenFile& file, const std::string& path,
                  IsBinary is_binary, std::string& bytes) {
  if (file.is_directory)
    return fail(ErrorKind::kIo, "{}: cannot read: it is a directory", path);
  const uint64_t most = memory_limit_bytes() / 2;
  bool is_text = false;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.descriptor, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorKind::kIo, "{}: cannot read: {}", path,
                  std::strerror(errno));
    }
    if (got == 0) return {};
    const std::string_view read(chunk, static_cast<size_t>(got));
    if (bytes.empty()) is_text = !is_binary(read);
    if (is_text && read.find('\0') != std::string_view::npos) {
      return fail(ErrorKind::kParse, "{}: no text: it has a NUL at byte {}",
                  path, bytes.size() + read.find('\0'));
    }
    if (bytes.empty() && file.size_bytes <= most)
      bytes.reserve(file.size_bytes);
    if (std::max(file.size_bytes, bytes.size() + read.size()) > most)
      return too_large(path, most);
    bytes.append(read);
  }
}

Result<std::string> read_whole(const std::string& path, IsBinary is_binary) {
  const Result<OpenFile> file = open_to_read(path);
  if (!file) return pass(file.error());
  std::string bytes;
  const Status read = append_all(*file, path, is_binary, bytes);
  ::close(file->descriptor);
  if (!read) return pass(read.error());
  return bytes;
}

}  // namespace

Result<OpenFile> open_to_read(const std::string& path, Readable readable) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return cannot_open(path, errno);
  const bool waits = S_ISFIFO(info.st_mode) && readable == Readable::kAndFifos;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) &&
      !S_ISFIFO(info.st_mode)) {
    return fail(ErrorKind::kIo, "{}: is {}, expected a file", path,
                kind_of(info.st_mode));
  }
  const int descriptor = ::open(
      path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (waits ? 0 : O_NONBLOCK));
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    const int reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    return cannot_open(path, reason);
  }
  const bool is_pipe =
      S_ISFIFO(info.st_mode) && (waits || is_shell_pipe(descriptor));
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !is_pipe) {
    ::close(descriptor);
    return fail(ErrorKind::kIo, "{}: is {}, expected a file", path,
                kind_of(info.st_mode));
  }
  ::fcntl(descriptor, F_SETFL, 0);
  return OpenFile{
      .descriptor = descriptor,
      .size_bytes = info.st_size > 0 ? static_cast<uint64_t>(info.st_size) : 0,
      .is_directory = S_ISDIR(info.st_mode),
      .is_pipe = is_pipe};
}

Result<std::string> read_file(const std::string& path) {
  return read_whole(path, is_always);
}

Result<std::string> read_text_file(const std::string& path) {
  return read_whole(path, is_never);
}

Result<std::string> read_text_file(const std::string& path,
                                   bool (*is_binary)(std::string_view head)) {
  return read_whole(path, is_binary);
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
