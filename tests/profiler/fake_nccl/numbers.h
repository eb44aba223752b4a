// Element types and reductions of the fake NCCL: real arithmetic, rank after
// rank, so that a wrong count, type or operation gives a wrong result.
#pragma once

#include <cstddef>

namespace fake_nccl {

/// Bytes of an element of an ncclDataType_t; 0 for none.
size_t element_bytes(int data_type);

/// ncclDataType_t's and ncclFunc_t's words, as NCCL's profiler gives them.
const char* data_type_word(int data_type);

/// into[i] = into[i] (operation) from[i]; sums of 16-bit types are rounded to
/// the type at every step. ncclSum 0, ncclProd 1, ncclMax 2, ncclMin 3; ncclAvg
/// 4 adds here and divides in `finish`.
void reduce(int data_type, int operation, void* into, const void* from,
            size_t count);
void finish(int data_type, int operation, void* data, size_t count, int ranks);

}  // namespace fake_nccl
