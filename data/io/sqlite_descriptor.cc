// SQLite opens files by name only, and follows no link of /proc. So here is a
// file system of its kind (sqlite3_vfs) whose files are descriptors, told by
// their number; what else a file system gives (randomness, time) is that of the
// system's. https://www.sqlite.org/vfs.html
#include "data/io/sqlite_descriptor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace reprise {
namespace {

constexpr const char* kFileSystem = "reprise-descriptor";

/// SQLite keeps these bytes; the base stands first.
struct DescriptorFile {
  sqlite3_file base;
  int descriptor;
};

int descriptor_of(sqlite3_file* file) {
  return reinterpret_cast<DescriptorFile*>(file)->descriptor;
}

int close_file(sqlite3_file*) { return SQLITE_OK; }  // The caller's.

int read_file_at(sqlite3_file* file, void* bytes, int size,
                 sqlite3_int64 offset) {
  auto* const start = static_cast<char*>(bytes);
  const auto wanted = static_cast<size_t>(size);
  size_t done = 0;
  while (done < wanted) {
    const ssize_t got =
        ::pread(descriptor_of(file), start + done, wanted - done,
                offset + static_cast<sqlite3_int64>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SQLITE_IOERR_READ;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  if (done == wanted) return SQLITE_OK;
  std::memset(start + done, 0, wanted - done);
  return SQLITE_IOERR_SHORT_READ;
}

int write_file_at(sqlite3_file* file, const void* bytes, int size,
                  sqlite3_int64 offset) {
  const auto* const start = static_cast<const char*>(bytes);
  const auto wanted = static_cast<size_t>(size);
  for (size_t done = 0; done < wanted;) {
    const ssize_t written =
        ::pwrite(descriptor_of(file), start + done, wanted - done,
                 offset + static_cast<sqlite3_int64>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return errno == ENOSPC || written == 0 ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    done += static_cast<size_t>(written);
  }
  return SQLITE_OK;
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  return ::ftruncate(descriptor_of(file), size) == 0 ? SQLITE_OK
                                                     : SQLITE_IOERR_TRUNCATE;
}

int sync_file(sqlite3_file* file, int) {
  return ::fsync(descriptor_of(file)) == 0 ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  struct stat found {};
  if (::fstat(descriptor_of(file), &found) != 0) return SQLITE_IOERR_FSTAT;
  *size = found.st_size;
  return SQLITE_OK;
}

// Nobody else has the file.
int lock_file(sqlite3_file*, int) { return SQLITE_OK; }

int check_lock(sqlite3_file*, int* locked) {
  *locked = 0;
  return SQLITE_OK;
}

int control_file(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }

int sector_bytes(sqlite3_file*) {
  constexpr int kUsual = 4096;
  return kUsual;
}

int characteristics(sqlite3_file*) { return 0; }

const sqlite3_io_methods* io_methods() {
  static const sqlite3_io_methods methods = [] {
    sqlite3_io_methods made{};  // Of version 1: no shared memory, no mapping.
    made.iVersion = 1;
    made.xClose = close_file;
    made.xRead = read_file_at;
    made.xWrite = write_file_at;
    made.xTruncate = truncate_file;
    made.xSync = sync_file;
    made.xFileSize = size_of_file;
    made.xLock = lock_file;
    made.xUnlock = lock_file;
    made.xCheckReservedLock = check_lock;
    made.xFileControl = control_file;
    made.xSectorSize = sector_bytes;
    made.xDeviceCharacteristics = characteristics;
    return made;
  }();
  return &methods;
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags,
              int* opened) {
  if (name == nullptr) {  // SQLite's own, which it removes at once.
    sqlite3_vfs* const usual = sqlite3_vfs_find(nullptr);
    return usual->xOpen(usual, name, file, flags, opened);
  }
  file->pMethods = nullptr;
  int descriptor = -1;
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0 ||  // No journals.
      std::from_chars(name, name + std::strlen(name), descriptor).ec !=
          std::errc()) {
    return SQLITE_CANTOPEN;
  }
  reinterpret_cast<DescriptorFile*>(file)->descriptor = descriptor;
  file->pMethods = io_methods();
  if (opened != nullptr) *opened = flags;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs*, const char*, int) {
  return SQLITE_IOERR_DELETE_NOENT;
}

int access_file(sqlite3_vfs*, const char*, int, int* possible) {
  *possible = 0;  // There are no journals.
  return SQLITE_OK;
}

int full_name(sqlite3_vfs*, const char* name, int size, char* full) {
  const size_t bytes = std::strlen(name) + 1;
  if (bytes > static_cast<size_t>(size)) return SQLITE_CANTOPEN;
  std::memcpy(full, name, bytes);
  return SQLITE_OK;
}

/// Registers the file system once.
bool have_file_system() {
  static sqlite3_vfs file_system{};
  static const bool is_registered = [] {
    const sqlite3_vfs* const usual = sqlite3_vfs_find(nullptr);
    if (usual == nullptr) return false;
    file_system = *usual;
    file_system.szOsFile = std::max(file_system.szOsFile,
                                    static_cast<int>(sizeof(DescriptorFile)));
    file_system.zName = kFileSystem;
    file_system.pNext = nullptr;
    file_system.xOpen = open_file;
    file_system.xDelete = delete_file;
    file_system.xAccess = access_file;
    file_system.xFullPathname = full_name;
    return sqlite3_vfs_register(&file_system, 0) == SQLITE_OK;
  }();
  return is_registered;
}

}  // namespace

Result<Database> open_database_in(int descriptor) {
  if (!have_file_system())
    return fail(ErrorKind::kIo, "SQLite: no file system");
  return open_database(std::to_string(descriptor), SQLITE_OPEN_READWRITE,
                       kFileSystem);
}

}  // namespace reprise
