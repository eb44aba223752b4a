// Our own declarations of NCCL against its header, where there is one.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>

#include "runtime/cuda/nccl_library.h"
#include "tests/runtime/cuda/called_alike.h"

namespace reprise {

template <>
struct IsPassedAlike<NcclUniqueId, ncclUniqueId> : std::true_type {};

namespace {

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(kNcclOk == ncclSuccess && kNcclWorking == ncclInProgress);
// The interposer reads the name there, and knows a config by its magic.
#if NCCL_VERSION_CODE >= 22700
static_assert(offsetof(ncclConfig_t, commName) == 48);
#endif
static_assert(offsetof(ncclConfig_t, magic) == 8);
static_assert(offsetof(ncclConfig_t, version) == 12);

#define REPRISE_NCCL_CHECK(member, symbol, ...)              \
  static_assert(IsCalledAlike<decltype(NcclLibrary::member), \
                              decltype(&::symbol)>::value,   \
                #symbol);
REPRISE_NCCL_FUNCTIONS(REPRISE_NCCL_CHECK)
#undef REPRISE_NCCL_CHECK

TEST(NcclHeader, HasOurTypesAndOperations) {
  EXPECT_EQ(nccl_data_type(PrimitiveType::kS8), ncclInt8);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kU8), ncclUint8);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kS32), ncclInt32);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kU32), ncclUint32);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kS64), ncclInt64);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kU64), ncclUint64);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kF16), ncclFloat16);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kF32), ncclFloat32);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kF64), ncclFloat64);
  EXPECT_EQ(nccl_data_type(PrimitiveType::kBF16), ncclBfloat16);
  EXPECT_FALSE(nccl_data_type(PrimitiveType::kS16));
  EXPECT_EQ(nccl_operation(Reduction::kSum), ncclSum);
  EXPECT_EQ(nccl_operation(Reduction::kProduct), ncclProd);
  EXPECT_EQ(nccl_operation(Reduction::kMax), ncclMax);
  EXPECT_EQ(nccl_operation(Reduction::kMin), ncclMin);
}

}  // namespace
}  // namespace reprise
