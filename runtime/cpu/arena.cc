#include "runtime/cpu/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace reprise {

Result<Arena> Arena::create(size_t size_bytes) {
  const size_t size = std::max<size_t>(size_bytes, 64);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorKind::kDevice, "no memory for an arena of {} bytes: {}",
                size, std::strerror(errno));
  }
  ::madvise(memory, size, MADV_HUGEPAGE);
  std::memset(memory, 0, size);
  return Arena(static_cast<std::byte*>(memory), size);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

}  // namespace reprise
