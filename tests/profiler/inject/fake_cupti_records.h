// Records of the fake CUPTI as they lie in its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/profiler/inject/fake_cupti.h"

namespace reprise::fake {

inline constexpr uint32_t kCuptiVersion = FAKE_CUPTI_VERSION;

/// Of a CUpti_ActivityKind; 0 for one that the fake does not know.
size_t record_size(uint32_t kind);
/// In the layout of the fake's version.
std::vector<uint8_t> raw_record(const Activity& activity);

}  // namespace reprise::fake
