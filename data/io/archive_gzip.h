// gzip and raw deflate by ISA-L, as streams: memory is a fixed buffer, time is
// linear in what comes out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/io/byte_source.h"

namespace reprise {

constexpr size_t kGzipMagicBytes = 3;
/// Whether bytes start as a gzip member (1f 8b, deflate).
bool is_gzip(std::string_view head);

/// All members of a gzip file one after another, each checked by its CRC;
/// padding or garbage behind the last one is passed over.
/// Errors of read: kParse (damaged, truncated), after what came before it.
std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> packed,
                                        std::string name);

/// One raw deflate stream without a checksum (a member of a zip).
std::unique_ptr<ByteSource> deflate_source(std::unique_ptr<ByteSource> packed,
                                           std::string name);

}  // namespace reprise
