// Whole files in and out. Outputs appear under their name only when complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/result.h"

namespace reprise {

/// A file that is open for reading; the caller closes it.
struct OpenFile {
  int descriptor = -1;
  uint64_t size_bytes = 0;  ///< 0 of a pipe or a device.
  bool is_directory = false;
};

/// Errors: kIo with the system's reason.
Result<OpenFile> open_to_read(const std::string& path);

/// Reads a whole file. Errors: kIo with the system's reason.
Result<std::string> read_file(const std::string& path);

/// Writes to `path.tmp.PID`, flushes it to disk, then renames it over `path`; a
/// failure (disk full) removes the temporary and leaves an old `path`
/// untouched. Errors: kIo with the system's reason.
Status write_file_atomically(const std::string& path, std::string_view bytes);

/// A whole file as bytes that the system reads when they are touched and may
/// drop again: memory is bounded whatever the file's size. The file must not be
/// cut while it is mapped.
class MappedFile {
 public:
  /// Errors: kIo with the system's reason.
  static Result<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

}  // namespace reprise
