#include "data/io/gzip.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <vector>

#include "data/result.h"

namespace reprise {

std::string gzip(std::string_view bytes) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  std::vector<uint8_t> work(ISAL_DEF_LVL1_DEFAULT);
  std::vector<uint8_t> chunk(kChunkBytes);
  isal_zstream stream{};  // isal_deflate_init leaves the input fields alone.
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.level = 1;
  stream.level_buf = work.data();
  stream.level_buf_size = static_cast<uint32_t>(work.size());
  std::string packed;
  while (stream.internal_state.state != ZSTATE_END) {
    if (stream.avail_in == 0) {
      const size_t count = std::min(bytes.size(), kChunkBytes);
      // ISA-L reads, and never writes, its input.
      stream.next_in =
          reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uint32_t>(count);
      bytes.remove_prefix(count);
      stream.end_of_stream = bytes.empty() ? 1 : 0;
    }
    stream.next_out = chunk.data();
    stream.avail_out = static_cast<uint32_t>(chunk.size());
    REPRISE_CHECK(isal_deflate(&stream) == COMP_OK);
    packed.append(reinterpret_cast<const char*>(chunk.data()),
                  chunk.size() - stream.avail_out);
  }
  return packed;
}

}  // namespace reprise
