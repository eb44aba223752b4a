// Members of a tar, in one pass: ustar, pax (path, size) and GNU long names and
// big sizes.
#pragma once

#include <string>
#include <string_view>

#include "data/io/byte_source.h"

namespace reprise {

constexpr size_t kTarBlockBytes = 512;
/// Whether bytes start as a tar: a header block whose checksum is right.
bool is_tar(std::string_view head);

/// Visits each regular member as "archive:member", decompressed; sparse ones
/// as unreadable. Errors: kParse with the place; those of `visit`.
Status visit_tar(ByteSource& archive, const std::string& name,
                 const InputVisitor& visit);

}  // namespace reprise
