// Numbers of all ranks.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "data/result.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// Trivially copyable values of all ranks, `[rank][i]`.
template <typename T>
Result<std::vector<std::vector<T>>> gather_values(ProcessGroup& group,
                                                  const std::vector<T>& mine) {
  const Result<std::vector<std::string>> all = group.all_gather(
      {reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T)});
  if (!all) return pass(all.error());
  std::vector<std::vector<T>> values;
  for (const std::string& bytes : *all) {
    std::vector<T>& row = values.emplace_back(bytes.size() / sizeof(T));
    if (row.empty()) continue;  // Null has no bytes to copy.
    std::memcpy(row.data(), bytes.data(), row.size() * sizeof(T));
  }
  return values;
}

}  // namespace reprise
