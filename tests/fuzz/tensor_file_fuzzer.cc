// Any bytes as a file of arrays: safetensors or .npz.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/element.h"
#include "data/io/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  static const int file = ::memfd_create("fuzzed", MFD_CLOEXEC);
  REPRISE_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  REPRISE_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const Result<TensorFile> opened =
      TensorFile::open("/proc/self/fd/" + std::to_string(file));
  if (!opened) {
    REPRISE_CHECK(!opened.error().message.empty());
    return 0;
  }
  for (const TensorEntry& tensor : opened->tensors()) {
    REPRISE_CHECK(opened->find(tensor.name) == &tensor);
    uint64_t bytes = static_cast<uint64_t>(tensor.element_bytes);
    for (const int64_t extent : tensor.dimensions)
      bytes *= static_cast<uint64_t>(extent);
    REPRISE_CHECK(tensor.bytes.size() == bytes);
    // Every byte can be read.
    unsigned sum = 0;
    for (const char c : tensor.bytes) sum += static_cast<unsigned char>(c);
    REPRISE_CHECK(sum <= 255 * tensor.bytes.size());
  }
  return 0;
}
