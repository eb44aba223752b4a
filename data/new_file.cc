// Writing: an unnamed file (O_TMPFILE) that a link gives its name, so that a
// killed process leaves nothing and nobody can put a symbolic link in the way;
// else an exclusive one of a random name, renamed. linkat(2), renameat2(2).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "data/file.h"

namespace reprise {
namespace {

constexpr mode_t kOutputMode = 0644;

uint64_t random_number() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) !=
      static_cast<ssize_t>(sizeof number)) {
    number = static_cast<uint64_t>(::getpid());  // Exclusive all the same.
  }
  return number;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

tl::unexpected<Error> system_error(int reason) {
  return fail(ErrorKind::kIo, "{}", std::strerror(reason));
}

// A device or a pipe cannot be replaced by another file.
bool is_written_in_place(const std::string& path) {
  struct stat target {};
  return ::stat(path.c_str(), &target) == 0 &&
         (!S_ISREG(target.st_mode) || path.starts_with("/dev/"));
}

int open_exclusively(const std::string& name) {
  return ::open(name.c_str(),
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                kOutputMode);
}

// Atomic also where the file system lacks RENAME_NOREPLACE: a link never
// replaces.
bool rename_unless_there(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                  RENAME_NOREPLACE) == 0) {
    return true;
  }
  if (errno != EINVAL && errno != ENOSYS) return false;
  return ::link(from.c_str(), to.c_str()) == 0 && ::unlink(from.c_str()) == 0;
}

bool link_descriptor(int descriptor, const std::string& to) {
  return ::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", descriptor).c_str(),
                  AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

}  // namespace

std::string unfinished_path(const std::string& path) {
  static const uint64_t of_this_process = random_number();
  return fmt::format("{}.tmp.{:016x}", path, of_this_process);
}

Result<NewFile> NewFile::create(const std::string& path, bool named) {
  if (is_written_in_place(path)) {
    NewFile file(path, ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    file.in_place_ = true;
    if (file.descriptor_ < 0) return system_error(errno);
    return file;
  }
  if (!named && ::access("/proc/self/fd", X_OK) == 0) {
    NewFile file(path, ::open(folder_of(path).c_str(),
                              O_TMPFILE | O_RDWR | O_CLOEXEC, kOutputMode));
    if (file.descriptor_ >= 0) return file;
  }
  // Of its own even where threads write one path: ranks that fill one cache.
  static std::atomic<uint64_t> others{0};
  std::string name = unfinished_path(path);
  NewFile file(path, open_exclusively(name));
  if (file.descriptor_ < 0 && errno == EEXIST && !named) {
    name += fmt::format(".{}", others++);
    file.descriptor_ = open_exclusively(name);
  }
  if (file.descriptor_ < 0) return system_error(errno);
  file.name_ = std::move(name);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      name_(std::exchange(other.name_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      in_place_(other.in_place_) {}

NewFile::~NewFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

int NewFile::link_into_place(Existing existing) {
  if (name_.empty()) {
    if (link_descriptor(descriptor_, path_)) return 0;
    if (errno != EEXIST || existing == Existing::kKeep) return errno;
    std::string name = fmt::format("{}.tmp.{:016x}", path_, random_number());
    if (!link_descriptor(descriptor_, name)) return errno;
    name_ = std::move(name);
  }
  const bool placed = existing == Existing::kKeep
                          ? rename_unless_there(name_, path_)
                          : ::rename(name_.c_str(), path_.c_str()) == 0;
  if (!placed) return errno;
  name_.clear();
  return 0;
}

Status NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status NewFile::publish(Existing existing) {
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS &&
      errno != ENOTSUP) {
    return system_error(errno);
  }
  const int reason = in_place_ ? 0 : link_into_place(existing);
  if (reason == EEXIST) {
    return fail(ErrorKind::kInvalid,
                "exists already; use --force to replace it");
  }
  if (reason != 0) return system_error(reason);
  if (::close(std::exchange(descriptor_, -1)) != 0) return system_error(errno);
  return {};
}

Status write_file_atomically(const std::string& path, std::string_view bytes,
                             Existing existing) {
  const std::string what = path + ": cannot write";
  Result<NewFile> file = NewFile::create(path);
  if (!file) return pass(file.error(), what);
  if (Status written = file->write(bytes); !written)
    return pass(written.error(), what);
  if (Status published = file->publish(existing); !published)
    return pass(published.error(), what);
  return {};
}

}  // namespace reprise
