// What tar and zip share: how a member becomes an input.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/io/byte_source.h"

namespace reprise {

/// Visits one member: takes off a layer of compression and reads its head.
/// macOS "._" members and directories are passed over.
Status visit_member(const std::string& archive, std::string_view path,
                    std::unique_ptr<ByteSource> bytes,
                    const InputVisitor& visit);

/// Visits a member that cannot be read, with the reason and without bytes.
Status visit_unreadable(const std::string& archive, std::string_view path,
                        std::string reason, const InputVisitor& visit);

}  // namespace reprise
