// Measured collectives as cost points: their keys and titles.
#pragma once

#include <cstdint>
#include <string>

#include "data/collective/collective_names.h"

namespace reprise {

/// Key of a measured collective: "collective:all-reduce:8:1048576:f32". Bytes
/// as nccl-tests count them: of the larger of a rank's two buffers.
std::string collective_key(CollectiveKind kind, int64_t group_size,
                           int64_t bytes, std::optional<PrimitiveType> type);

/// The same for people: "all-reduce 1 MiB, 8 ranks".
std::string collective_title(CollectiveKind kind, int64_t group_size,
                             int64_t bytes);

}  // namespace reprise
