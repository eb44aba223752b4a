// Any bytes to one reader of traces. REPRISE_READER and REPRISE_READER_HEADER
// name it.
#include <cstddef>
#include <cstdint>

#include REPRISE_READER_HEADER
#include "tests/fuzz/check_import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reprise::check_import(reprise::REPRISE_READER(),
                        {reinterpret_cast<const char*>(data), size});
  return 0;
}
