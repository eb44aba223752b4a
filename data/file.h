// Whole files in and out. Outputs appear under their name only when complete;
// inputs are files, never devices, and never more than fits into memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/result.h"

namespace reprise {

/// A file that is open for reading; the caller closes it.
struct OpenFile {
  int descriptor = -1;
  uint64_t size_bytes = 0;  ///< 0 of a pipe.
  bool is_directory = false;
  bool is_pipe = false;
};

/// What may be read: a pipe of a shell, as in <(COMMAND), always may.
enum class Readable {
  kFiles,     ///< Regular files.
  kAndFifos,  ///< Named pipes too, waiting for who writes to them.
};

/// Opens a file or a directory, without ever touching anything else. Errors:
/// kIo with the system's reason, or naming what it is instead (a device).
Result<OpenFile> open_to_read(const std::string& path,
                              Readable readable = Readable::kFiles);

/// Reads a whole file. Errors: kIo as open_to_read, and where it is larger than
/// half of the memory that is available.
Result<std::string> read_file(const std::string& path);

/// The same of a text, or of what `is_binary` recognizes by its first bytes.
/// Errors: as read_file; kParse at a text's first NUL, before the rest is read.
Result<std::string> read_text_file(const std::string& path,
                                   bool (*is_binary)(std::string_view head));
Result<std::string> read_text_file(const std::string& path);

/// What happens to a file that has the output's name already.
enum class Existing { kReplace, kKeep };

/// A file that is being written: without a name, where the file system can do
/// that, else under one that nobody can guess. Removed unless published.
class NewFile {
 public:
  /// `named`: it has its unfinished_path meanwhile, even where it need not.
  /// Devices and pipes are written in place. Errors: kIo, the system's reason.
  static Result<NewFile> create(const std::string& path, bool named = false);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// Open for reading and writing, but for what is written in place.
  int descriptor() const { return descriptor_; }
  /// Whether it is a device or a pipe.
  bool is_in_place() const { return in_place_; }
  /// Appends. Errors: kIo, the system's reason.
  Status write(std::string_view bytes);
  /// Its name until it is published; empty while it has none.
  const std::string& name() const { return name_; }
  /// Flushes it to disk and gives it the name of `path`. Of several writers who
  /// keep what exists, one succeeds. Errors: kIo, the system's reason;
  /// kInvalid, one exists.
  Status publish(Existing existing);

 private:
  NewFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  int link_into_place(Existing existing);  ///< 0 or the system's reason.

  std::string path_, name_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

/// The name that the first NewFile of `path` in this process has where it needs
/// one: not to be guessed by others.
std::string unfinished_path(const std::string& path);

/// Writes a NewFile of `bytes` and publishes it; a failure (disk full) leaves
/// an old `path` untouched. Errors: as NewFile, naming `path`.
Status write_file_atomically(const std::string& path, std::string_view bytes,
                             Existing existing = Existing::kReplace);

/// A whole file as bytes that the system reads when they are touched and may
/// drop again: memory is bounded whatever the file's size. The file must not be
/// cut while it is mapped.
class MappedFile {
 public:
  /// Errors: as open_to_read.
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
