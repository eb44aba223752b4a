// The cache trusts nothing that another user may have written: the directory
// must be the user's own and closed to others, and a library is loaded only
// while its bytes have the hash that names it. Writers never lock: files appear
// by rename, and equal content has equal names.
#include "runtime/kernels/compile_cache.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "data/file.h"
#include "data/sha256.h"

namespace reprise {
namespace {

/// No compiler runs that long: a temporary file of this age has no writer.
constexpr time_t kAbandonedSeconds = 3600;

/// Makes a directory and its parents; those that exist stay as they are.
void make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), 0755);
  }
}

Status make_private(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorKind::kDevice, "{}: cannot make the kernel cache: {}",
                path, std::strerror(errno));
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return fail(ErrorKind::kDevice, "{}: the kernel cache is not a directory",
                path);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return fail(ErrorKind::kDevice,
                "{}: the kernel cache must belong to its user alone (chmod "
                "700, or another "
                "cache directory)",
                path);
  }
  return {};
}

/// Of `directory`: whoever may rename in it may exchange the cache below it.
Status check_owner(const std::string& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return {};  // Said by the next.
  const bool is_open =
      (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
  if ((info.st_uid == ::geteuid() || info.st_uid == 0) && !is_open) return {};
  return fail(ErrorKind::kDevice,
              "{}: others may replace the kernel cache in it (chmod o-w, or "
              "another cache directory)",
              directory);
}

std::string private_directory_in_tmp() {
  std::string path = fmt::format("/tmp/reprise-cache-{}", ::geteuid());
  ::mkdir(path.c_str(), 0700);
  return path;
}

bool ends_with(const std::string& text, const char* suffix) {
  const size_t length = std::strlen(suffix);
  return text.size() >= length &&
         text.compare(text.size() - length, length, suffix) == 0;
}

bool is_temporary(const std::string& name) {
  return (name.starts_with(".") && name != "." && name != "..") ||
         name.find(".tmp.") != std::string::npos;
}

void remove_if_abandoned(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_mtime + kAbandonedSeconds < std::time(nullptr)) {
    ::unlink(path.c_str());
  }
}

}  // namespace

std::string default_cache_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string directory;
  if (cache != nullptr && cache[0] == '/') {
    directory = std::string(cache) + "/reprise";
  } else if (home != nullptr && home[0] == '/') {
    directory = std::string(home) + "/.cache/reprise";
  } else {
    return private_directory_in_tmp();
  }
  make_directories(directory + "/");
  // Of another user it is after sudo, and read-only in some containers.
  struct stat info {};
  const bool is_ours = ::stat(directory.c_str(), &info) == 0 &&
                       info.st_uid == ::geteuid() &&
                       ::access(directory.c_str(), W_OK | X_OK) == 0;
  return is_ours ? directory : private_directory_in_tmp();
}

Result<CompileCache> CompileCache::open(const std::string& directory,
                                        const std::string& environment) {
  CompileCache cache;
  const std::string root = directory + "/kernels";
  make_directories(root);
  if (const Status ours = check_owner(directory); !ours)
    return pass(ours.error());
  if (const Status made = make_private(root); !made) return pass(made.error());
  cache.directory_ = root + "/" + environment.substr(0, 16);
  if (const Status made = make_private(cache.directory_); !made)
    return pass(made.error());
  DIR* listing = ::opendir(cache.directory_.c_str());
  if (listing == nullptr) {
    return fail(ErrorKind::kDevice, "{}: cannot read the kernel cache",
                cache.directory_);
  }
  std::vector<std::string> hashes;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (is_temporary(name)) {
      remove_if_abandoned(cache.directory_ + "/" + name);
    } else if (ends_with(name, ".keys")) {
      hashes.push_back(name.substr(0, name.size() - 5));
    }
  }
  ::closedir(listing);
  std::sort(hashes.begin(), hashes.end());
  for (const std::string& hash : hashes) cache.read_keys(hash);
  return cache;
}

void CompileCache::read_keys(const std::string& hash) {
  const Result<std::string> text = read_file(directory_ + "/" + hash + ".keys");
  if (!text) return;
  for (size_t start = 0; start + 65 <= text->size(); start += 65) {
    libraries_.emplace(text->substr(start, 64), hash);
  }
}

const std::string* CompileCache::find(const std::string& key) const {
  const auto found = libraries_.find(key);
  return found == libraries_.end() ? nullptr : &found->second;
}

void CompileCache::remove_damaged(const std::vector<std::string>& keys) {
  std::map<std::string, bool> sound;
  for (const std::string& key : keys) {
    const std::string* found = find(key);
    if (found == nullptr) continue;
    const std::string hash = *found;
    const auto [place, is_new] = sound.try_emplace(hash, true);
    if (is_new) place->second = checked_path(hash).has_value();
    if (!place->second) remove(hash);
  }
}

void CompileCache::remove(const std::string& hash) {
  // The keys first: without them nobody looks for the library.
  ::unlink((directory_ + "/" + hash + ".keys").c_str());
  ::unlink((directory_ + "/" + hash + ".so").c_str());
  std::erase_if(libraries_,
                [&](const auto& entry) { return entry.second == hash; });
}

Status CompileCache::add(const std::string& library_file,
                         const std::vector<std::string>& keys) {
  const Result<std::string> bytes = read_file(library_file);
  if (!bytes) return fail(ErrorKind::kDevice, "{}", bytes.error().message);
  const std::string hash = sha256_hex(*bytes);
  const std::string path = directory_ + "/" + hash;
  if (::rename(library_file.c_str(), (path + ".so").c_str()) != 0) {
    return fail(ErrorKind::kDevice, "{}: cannot keep a compiled kernel: {}",
                path, std::strerror(errno));
  }
  std::string text;
  for (const std::string& key : keys) text += key + "\n";
  if (const Status written = write_file_atomically(path + ".keys", text);
      !written) {
    ::unlink((path + ".so").c_str());
    return fail(ErrorKind::kDevice, "{}", written.error().message);
  }
  for (const std::string& key : keys) libraries_[key] = hash;
  return {};
}

Result<std::string> CompileCache::checked_path(const std::string& hash) const {
  const std::string path = directory_ + "/" + hash + ".so";
  const Result<std::string> bytes = read_file(path);
  if (!bytes) return fail(ErrorKind::kDevice, "{}", bytes.error().message);
  if (sha256_hex(*bytes) != hash) {
    return fail(ErrorKind::kDevice,
                "{}: its content is not what was compiled; remove it", path);
  }
  return path;
}

std::string CompileCache::temporary_name(const std::string& suffix) const {
  static std::atomic<int> next{0};
  return fmt::format("{}/.{}.{}{}", directory_, ::getpid(), next++, suffix);
}

}  // namespace reprise
