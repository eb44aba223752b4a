// What an import is to read: paths become units of work, one a thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/reader.h"
#include "data/result.h"

namespace reprise {

/// A file (which may be an archive), or a directory that one reader takes.
struct ImportUnit {
  std::string path;
  int64_t bytes = 0;                        ///< On disk.
  const DirectoryReader* reader = nullptr;  ///< Of a directory.
  DirectoryListing listing;                 ///< Of a directory.
  /// A file beside it that says the same and more; "": none, it is read.
  std::string view_of = {};
};

/// Returns the units in the order of `paths`, a directory's sorted (numbers in
/// names count as numbers); a file that comes twice is read once, hidden files
/// and `output` are passed over. Of what a profiler of XLA writes for a host
/// (JAX, TensorFlow) the xplane.pb is read, not the views made from it. Errors:
/// kIo (a path that is not there), kInvalid (several profiling sessions of one
/// host).
Result<std::vector<ImportUnit>> find_units(
    std::span<const std::string> paths,
    std::span<const DirectoryReader* const> readers, const std::string& output);

/// Order of names with their numbers as numbers: "rank2" before "rank10".
bool natural_less(std::string_view a, std::string_view b);

}  // namespace reprise
