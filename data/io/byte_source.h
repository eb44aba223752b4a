// Bytes of an input, in order, decompressed on the way: memory does not grow
// with the file. gzip (one member or many, by ISA-L) and xz are recognized by
// their magic, never by a file's name.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/result.h"

namespace reprise {

/// A stream of bytes.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills at most `into` and returns how many bytes; 0 only at the end.
  /// Errors: kIo; kParse for damaged compression (what came before is good).
  virtual Result<size_t> read(std::span<char> into) = 0;
};

/// One file to read: a plain one, or a member of an archive.
struct InputFile {
  std::string name;              ///< For messages: "a.tar.gz:rank0.json".
  ByteSource* source = nullptr;  ///< Decompressed bytes, from the start.
  /// First bytes of `source` (up to 64 KiB), which `source` will still deliver.
  std::string head;
  /// The plain file itself, for readers that need random access; "" when the
  /// input is compressed or within an archive (readers then use as_local_file).
  std::string path;
  /// Not empty: a member of an archive without readable bytes, and why
  /// ("encrypted"); `source` is empty then.
  std::string unreadable;
};

/// Takes an input; an error stops the walk.
using InputVisitor = std::function<Status(InputFile&)>;

/// Visits the file, or each regular member of an archive (tar, tar in gzip or
/// xz, zip; macOS "._" members and directories are passed over), in the
/// archive's order. An archive in an archive is not opened. `position`
/// (optional) follows how much of the file was read, for progress bars.
/// Errors: kIo; kParse (a damaged archive: what, where); those of `visit`.
Status visit_inputs(const std::string& path, const InputVisitor& visit,
                    std::atomic<int64_t>* position = nullptr);

/// Bytes in memory as a source, for tests and members already read.
std::unique_ptr<ByteSource> memory_source(std::string bytes);

/// Reads all that is left. Errors: as read; kUnsupported past `limit_bytes`
/// (a decompression bomb, or a file that its reader must hold whole).
Result<std::string> read_all(ByteSource& source, int64_t limit_bytes);

/// A file on disk with the input's bytes: its own path, or a temporary copy
/// that is gone with the object.
class LocalFile {
 public:
  static Result<LocalFile> of(InputFile& input);
  ~LocalFile();
  LocalFile(LocalFile&& other) noexcept;
  LocalFile& operator=(LocalFile&&) = delete;
  const std::string& path() const { return path_; }

 private:
  LocalFile(std::string path, bool owned);
  std::string path_;
  bool owned_ = false;
};

}  // namespace reprise
