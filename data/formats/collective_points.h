// Measured collectives as cost points, beside the words for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/trace/collective_words.h"

namespace reprise {

/// Key of a measured collective: "collective:all-reduce:8:1048576:f32". Bytes
/// as nccl-tests count them: of the larger of a rank's two buffers.
std::string collective_key(std::string_view op, int64_t group_size,
                           int64_t bytes, std::string_view hlo_type);

/// The same for people: "all-reduce 1 MiB, 8 ranks".
std::string collective_title(std::string_view op, int64_t group_size,
                             int64_t bytes);

}  // namespace reprise
