// NCCL by dlopen: the functions that the communicator calls, with our own
// declarations of their types, so that no header of NCCL is needed.
// Source: nccl.h of 2.28.9; these have not changed since 2.14.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/schedule.h"

struct CUstream_st;

namespace reprise {

/// ncclResult_t.
inline constexpr int kNcclOk = 0;
inline constexpr int kNcclWorking = 7;  ///< ncclInProgress.

/// ncclUniqueId, which rank 0 makes and all ranks connect by.
struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

struct ncclComm;  // Opaque.

// X(member, symbol, parameters…): each returns an ncclResult_t.
#define REPRISE_NCCL_FUNCTIONS(X)                                              \
  X(get_version, ncclGetVersion, int*)                                         \
  X(get_unique_id, ncclGetUniqueId, NcclUniqueId*)                             \
  X(init_rank, ncclCommInitRank, ncclComm**, int, NcclUniqueId, int)           \
  X(destroy, ncclCommDestroy, ncclComm*)                                       \
  X(abort, ncclCommAbort, ncclComm*)                                           \
  X(get_asynchronous_error, ncclCommGetAsyncError, ncclComm*, int*)            \
  X(all_reduce, ncclAllReduce, const void*, void*, size_t, int, int,           \
    ncclComm*, CUstream_st*)                                                   \
  X(all_gather, ncclAllGather, const void*, void*, size_t, int, ncclComm*,     \
    CUstream_st*)                                                              \
  X(reduce_scatter, ncclReduceScatter, const void*, void*, size_t, int, int,   \
    ncclComm*, CUstream_st*)                                                   \
  X(broadcast, ncclBroadcast, const void*, void*, size_t, int, int, ncclComm*, \
    CUstream_st*)                                                              \
  X(send, ncclSend, const void*, size_t, int, int, ncclComm*, CUstream_st*)    \
  X(receive, ncclRecv, void*, size_t, int, int, ncclComm*, CUstream_st*)       \
  X(start_group, ncclGroupStart, )                                             \
  X(end_group, ncclGroupEnd, )

/// NCCL's functions, found once per process.
struct NcclLibrary {
#define REPRISE_NCCL_MEMBER(member, symbol, ...) int (*member)(__VA_ARGS__);
  REPRISE_NCCL_FUNCTIONS(REPRISE_NCCL_MEMBER)
#undef REPRISE_NCCL_MEMBER
  const char* (*get_error_string)(int result);
  const char* (*get_last_error)(ncclComm*);  ///< Null before 2.13.
  int version = 0;                           ///< 22809 for 2.28.9.

  /// Opens libnccl.so.2; later calls give the same table. Errors: kDevice.
  static Result<const NcclLibrary*> load();

  /// NCCL's words for a result, with its last message if it left one.
  std::string words(int result, ncclComm* communicator) const;
};

/// ncclDataType_t and ncclRedOp_t; nothing for a type that NCCL lacks.
std::optional<int> nccl_data_type(PrimitiveType type);
int nccl_operation(Reduction reduction);

}  // namespace reprise
