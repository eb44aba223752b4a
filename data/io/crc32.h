// CRC-32 (IEEE, as gzip's) of trace segments, by ISA-L.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise {

/// Returns the CRC-32 of `bytes`, or, given the CRC of what came before, of
/// both together.
uint32_t crc32(std::string_view bytes, uint32_t before = 0);

}  // namespace reprise
