// Any bytes to one reader of traces: that whose kind, with "_" for "-", begins
// the name the program was called by (nccl_tests_fuzzer).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/formats/reader.h"
#include "tests/fuzz/check_import.h"

namespace reprise {
namespace {

const TraceReader* reader = nullptr;

const TraceReader* reader_called(const std::string& program) {
  for (const TraceReader* candidate : trace_readers()) {
    std::string kind(candidate->kind());
    std::replace(kind.begin(), kind.end(), '-', '_');
    if (program == kind + "_fuzzer") return candidate;
  }
  return nullptr;
}

}  // namespace
}  // namespace reprise

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** arguments) {
  const std::filesystem::path program = (*arguments)[0];
  reprise::reader = reprise::reader_called(program.filename().string());
  if (reprise::reader != nullptr) return 0;
  std::fprintf(stderr, "%s: call it KIND_fuzzer, by a link\n", program.c_str());
  std::_Exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reprise::check_import(*reprise::reader,
                        {reinterpret_cast<const char*>(data), size});
  return 0;
}
