#include "cli/shard_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

namespace reprise {

namespace fs = std::filesystem;

Status check_trace_place(const std::string& output) {
  if (output == "-") {
    return fail(ErrorKind::kInvalid,
                "a trace is a file, not a stream: give -o a file's name");
  }
  std::error_code error;
  if (fs::is_directory(output, error)) {
    return fail(ErrorKind::kInvalid, "{}: is a directory", output);
  }
  const fs::path folder = fs::absolute(output, error).parent_path();
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorKind::kIo, "{}: there is no directory {}", output,
                folder.string());
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return fail(ErrorKind::kIo, "{}: cannot write in {}: {}", output,
                folder.string(), std::strerror(errno));
  }
  return {};
}

ShardDirectory::~ShardDirectory() {
  std::error_code ignored;
  if (!path_.empty() && !stays_) fs::remove_all(path_, ignored);
}

Status ShardDirectory::make(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (::mkdir(absolute.c_str(), 0700) != 0 &&
      (errno != EEXIST || !fs::is_directory(absolute, error))) {
    return fail(ErrorKind::kIo, "{}: cannot make a directory for shards: {}",
                path, std::strerror(errno));
  }
  if (!fs::is_empty(absolute, error)) {
    return fail(ErrorKind::kInvalid,
                "{}: shards need a directory of their own, and this one is "
                "not empty",
                path);
  }
  path_ = absolute.lexically_normal().string();
  return {};
}

bool ShardDirectory::is_full() const {
  constexpr uintmax_t kLeastRoomBytes = 64 << 10;
  std::error_code error;
  const fs::space_info space = fs::space(path_, error);
  return !error && space.available < kLeastRoomBytes;
}

}  // namespace reprise
