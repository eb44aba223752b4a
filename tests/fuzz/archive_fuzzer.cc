// Any bytes as a file: plain, gzip, xz, tar or zip, in one another.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/import/content_words.h"
#include "data/io/byte_source.h"

namespace {

using namespace reprise;

/// Reads it to its end, but no more than that of a bomb.
Status drain(InputFile& input) {
  constexpr size_t kEnough = size_t{4} << 20;
  std::vector<char> buffer(4096);
  REPRISE_CHECK(!input.name.empty());
  REPRISE_CHECK(!input.unreadable.empty() || !words_for_content(input).empty());
  std::string start;
  for (size_t total = 0; total < kEnough;) {
    const Result<size_t> got = input.source->read(buffer);
    if (!got) {
      REPRISE_CHECK(!got.error().message.empty());
      return {};
    }
    if (*got == 0) break;
    REPRISE_CHECK(*got <= buffer.size());
    total += *got;
    if (start.size() < input.head.size()) start.append(buffer.data(), *got);
  }
  // The head comes again.
  REPRISE_CHECK(start.starts_with(input.head) || input.head.size() > kEnough);
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A zip is read at random, so it has to be a file; one in memory.
  static const int file = ::memfd_create("fuzzed", MFD_CLOEXEC);
  REPRISE_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  REPRISE_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  size_t members = 0;
  const Status visited = visit_inputs("/proc/self/fd/" + std::to_string(file),
                                      [&](InputFile& input) -> Status {
                                        ++members;
                                        return drain(input);
                                      });
  if (!visited) REPRISE_CHECK(!visited.error().message.empty());
  return 0;
}
