// Runs a fuzz target without libFuzzer, as a ctest: every file of a corpus as
// it is, then a fixed number of its mutations, the same on every run.
//
//   NAME_fuzzer CORPUS_FOLDER MUTATIONS
//
// With clang, link the target with -fsanitize=fuzzer,address instead of this
// file.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "data/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
/// Not every target has it; called once, first.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* count,
                                                          char*** arguments);

namespace {

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                         bytes.size());
}

/// One to four edits: overwrite, remove, repeat or cut.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  for (uint64_t edits = 1 + random() % 4; edits > 0 && !bytes.empty();
       --edits) {
    const size_t at = random() % bytes.size();
    const size_t length =
        std::min<size_t>(1 + random() % 16, bytes.size() - at);
    switch (random() % 5) {
      case 0:
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(random() % bytes.size(), bytes.substr(at, length));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::mt19937_64 random(0);
  for (const std::string& path : paths) {
    const std::string bytes = reprise::read_file(path).value();
    run(bytes);
    for (int i = std::atoi(argv[2]); i > 0; --i) run(mutated(bytes, random));
  }
  std::printf("%zu files, %s mutations each\n", paths.size(), argv[2]);
  return paths.empty() ? 1 : 0;
}
