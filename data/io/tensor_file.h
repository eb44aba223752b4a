// Named arrays in a file: safetensors, and numpy's .npz. What the file is, its
// bytes say, not its name. Everything in it is distrusted: sizes are checked
// against the file before memory is taken, and nothing in it is run (no
// pickle).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"
#include "data/primitive_type.h"
#include "data/result.h"

namespace reprise {

/// One array, as its file describes it.
struct TensorEntry {
  std::string name;
  /// None for raw bytes: numpy writes types that are not its own, bf16 among
  /// them, as V2.
  std::optional<PrimitiveType> type;
  int64_t element_bytes = 0;
  std::vector<int64_t> dimensions;
  std::string_view bytes;  ///< Row-major, little endian; the file holds them.

  /// As the file can say it: "bf16[3,4]", "2 bytes an element[3,4]".
  std::string text() const;
};

// Complex arrays are read as pairs of their parts, c64[3] as f32[3,2], and
// written where an entry's type is complex.

/// A file of arrays, opened: mapped, or inflated into memory.
class TensorFile {
 public:
  /// Errors: kIo; kParse where it is neither, or damaged (a header beyond its
  /// limits, holes, overlaps, sizes that contradict shapes, names that stand
  /// twice); kUnsupported for element types, big endian and objects.
  static Result<TensorFile> open(const std::string& path);

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Null where there is none.
  const TensorEntry* find(std::string_view name) const;
  /// The texts beside the arrays, `__metadata__`.
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }
  const std::string& path() const { return path_; }

 private:
  friend struct TensorFileParts;
  TensorFile() = default;

  std::string path_;
  std::unique_ptr<MappedFile> mapped_;
  std::vector<std::unique_ptr<std::string>> inflated_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

/// Writes them in this order, as .npz where the name ends so, else as
/// safetensors. Types that numpy lacks become V2 there. Errors: as
/// write_file_atomically; kUnsupported for types that the format lacks.
Status write_tensor_file(const std::string& path,
                         const std::vector<TensorEntry>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         Existing existing = Existing::kReplace);

}  // namespace reprise
