// xz by liblzma, as a stream.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/io/byte_source.h"

namespace reprise {

constexpr size_t kXzMagicBytes = 6;
/// Whether bytes start as an xz stream.
bool is_xz(std::string_view head);

/// All streams of an xz file one after another, each checked; padding or
/// garbage behind the last one is passed over. Errors of read: kParse
/// (damaged, truncated, a dictionary that takes over 256 MB), after what came
/// before it.
std::unique_ptr<ByteSource> xz_source(std::unique_ptr<ByteSource> packed,
                                      std::string name);

}  // namespace reprise
