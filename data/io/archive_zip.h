// Members of a zip by its central directory: stored and deflated ones, zip64,
// each checked by its CRC.
#pragma once

#include <string>
#include <string_view>

#include "data/io/byte_source.h"

namespace reprise {

/// Whether bytes start as a zip.
bool is_zip(std::string_view head);

/// Visits each regular member as "archive:member", decompressed; encrypted
/// ones, methods other than deflate, and members that lie over each other (a
/// bomb) as unreadable. `path` is a regular file, `name` is for messages.
/// Errors: kIo; kParse (no or a damaged directory); those of `visit`.
Status visit_zip(const std::string& path, const std::string& name,
                 const InputVisitor& visit);

}  // namespace reprise
