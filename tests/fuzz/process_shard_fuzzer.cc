// Any bytes as a process shard, as they are and with the checksums of their
// segments put right, so that what lies behind those is reached too.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "data/formats/process_shard/process_shard_reader.h"
#include "data/io/crc32.h"
#include "data/trace/process_shard.h"
#include "tests/fuzz/check_import.h"

namespace reprise {
namespace {

void put_checksums_right(std::string& bytes) {
  size_t at = sizeof(ProcessShardStart);
  ProcessSegmentHeader header;
  while (bytes.size() >= sizeof header && at <= bytes.size() - sizeof header) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    const size_t body = at + sizeof header;
    if (header.payload_bytes > bytes.size() - body) return;
    header.magic = ProcessSegmentHeader{}.magic;
    header.payload_crc =
        crc32(std::string_view(bytes).substr(body, header.payload_bytes));
    header.header_crc =
        crc32({reinterpret_cast<const char*>(&header), sizeof header - 4});
    std::memcpy(bytes.data() + at, &header, sizeof header);
    at = body + header.payload_bytes;
  }
}

}  // namespace
}  // namespace reprise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const reprise::TraceReader& reader = reprise::process_shard_reader();
  reprise::check_import(reader, bytes);
  reprise::put_checksums_right(bytes);
  reprise::check_import(reader, std::move(bytes));
  return 0;
}
