// The private, content-addressed directory of compiled kernels.
//
// DIRECTORY/kernels/ENVIRONMENT/HASH.so    a library, HASH the SHA-256 of its
// bytes DIRECTORY/kernels/ENVIRONMENT/HASH.keys  the keys of its kernels, one a
// line
//
// Files are written under a temporary name and renamed, the keys last, so
// readers and several writers never see half of one. What a killed writer left
// is removed by a later one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/result.h"

namespace reprise {

class CompileCache {
 public:
  /// Opens or makes the directory for one environment (compiler, flags, CPU,
  /// prelude). Errors: kDevice when it cannot be made or others may write to
  /// it.
  static Result<CompileCache> open(const std::string& directory,
                                   const std::string& environment);

  /// Hash of the library that holds a kernel, or null.
  const std::string* find(const std::string& key) const;
  /// Removes the libraries of these kernels that are missing or changed, so
  /// that `find` knows nothing of them.
  void remove_damaged(const std::vector<std::string>& keys);
  /// Takes a compiled library into the cache and removes `library_file`.
  /// Errors: kDevice.
  Status add(const std::string& library_file,
             const std::vector<std::string>& keys);
  /// Path of a library, its content checked. Errors: kDevice when missing or
  /// changed.
  Result<std::string> checked_path(const std::string& hash) const;
  /// A name in the cache's directory that nobody else uses.
  std::string temporary_name(const std::string& suffix) const;

 private:
  void read_keys(const std::string& hash);
  void remove(const std::string& hash);

  std::string directory_;
  std::map<std::string, std::string> libraries_;  ///< Key -> hash.
};

/// $XDG_CACHE_HOME/reprise, else $HOME/.cache/reprise; where that is not the
/// user's own or cannot be written, a directory of the user in /tmp.
std::string default_cache_directory();

}  // namespace reprise
