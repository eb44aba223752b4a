// Which NCCL a command will most likely load, told by the names of files: none
// is opened.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// The first NCCL whose profiler asks a plugin for a table that ours has.
inline constexpr int kFirstNcclWithPlugin = 22700;

struct FoundNccl {
  int version = 0;           ///< As ncclGetVersion has it: 22602 is 2.26.2.
  std::string path;          ///< By which it was told.
  std::string text() const;  ///< "2.26.2".
};

/// Of the Python environments that the command's words and the environment
/// name, whose wheels bring NCCL along; else as the loader would find it.
std::optional<FoundNccl> find_nccl(const std::vector<std::string>& command);

}  // namespace reprise
