// CRC-32 (IEEE, as data/io/crc32.h) without a library: what is loaded into
// strangers' processes may need libc alone.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise {

/// Returns the CRC-32 of `bytes`, or, given the CRC of what came before, of
/// both together.
uint32_t process_checksum(std::string_view bytes, uint32_t before = 0);

}  // namespace reprise
