#include "profiler/process_checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little);

using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// tables[k][b]: what byte b does to the checksum when k zero bytes follow it
/// (slicing by 8: Kounavis and Berry, 2005).
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = rest >> 1 ^ (rest & 1U ? 0xedb88320U : 0U);
    }
    tables[0][byte] = rest;
  }
  for (size_t zeros = 1; zeros < 8; ++zeros) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t last = tables[zeros - 1][byte];
      tables[zeros][byte] = last >> 8 ^ tables[0][last & 0xffU];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

}  // namespace

uint32_t process_checksum(std::string_view bytes, uint32_t before) {
  uint32_t rest = ~before;
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= rest;
    rest = 0;
    for (size_t byte = 0; byte < 8; ++byte) {
      rest ^= kTables[7 - byte][word >> (8 * byte) & 0xffU];
    }
    bytes.remove_prefix(8);
  }
  for (const char byte : bytes) {
    rest = rest >> 8 ^ kTables[0][(rest ^ static_cast<uint8_t>(byte)) & 0xffU];
  }
  return ~rest;
}

}  // namespace reprise
