// The one block of memory that a schedule's buffers lie in.
#pragma once

#include <cstddef>
#include <span>

#include "data/result.h"

namespace reprise {

/// Zeroed, page-aligned memory, backed by huge pages where the system has them.
/// Every page is touched at creation: first touches inside a step cost up to
/// 20 times a rewrite under a hypervisor.
class Arena {
 public:
  /// Errors: kDevice when the system has not that much memory.
  static Result<Arena> create(size_t size_bytes);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }
  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  Arena(std::byte* data, size_t size_bytes)
      : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace reprise
