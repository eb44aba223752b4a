#include "data/collective/collective_names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace reprise {
namespace {

TEST(CollectiveNames, TellTheOperationInEveryDialect) {
  const std::pair<const char*, const char*> kNames[] = {
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all-reduce"},
      {"ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long)",
       "all-reduce"},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       "all-gather"},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(…)", "reduce-scatter"},
      {"ncclAllReduceTreeLLKernel_sum_f32(ncclColl)", "all-reduce"},
      {"ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", "broadcast"},
      {"ncclDevKernel_Reduce_Sum_f32_RING_LL(…)", "reduce"},
      {"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16", "all-reduce"},
      {"void ncclKernel_AllGather(…)", "all-gather"},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", ""},
      {"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", ""},
      {"nccl:all_to_all", "all-to-all"},
      {"nccl:_all_gather_base", "all-gather"},
      {"c10d::alltoall_base_", "all-to-all"},
      {"c10d::_reduce_scatter_base_", "reduce-scatter"},
      {"gloo:all_reduce", "all-reduce"},
      {"ncclAllReduce", "all-reduce"},
      {"all-gather-start.17", "all-gather"},
      {"MPI_Bcast", "broadcast"}};
  for (const auto& [name, op] : kNames) {
    EXPECT_EQ(name_of(collective_named(name)), op) << name;
  }
}

TEST(CollectiveNames, AWordThatDoesNotTellIsAWordAllTheSame) {
  EXPECT_TRUE(names_any_collective("ncclKernel_SendRecv_RING_SIMPLE"));
  EXPECT_FALSE(names_any_collective("gemm"));
  // What comes first names the operation, not what stands earlier in the list.
  EXPECT_EQ(collective_named("Broadcast_then_AllReduce"),
            CollectiveKind::kBroadcast);
  // Beyond 256 bytes nothing is looked at.
  std::string far = std::string(250, 'x').append("reduce");
  EXPECT_EQ(collective_named(far), CollectiveKind::kReduce);
  EXPECT_FALSE(names_any_collective(far.insert(0, "x")));
}

TEST(CollectiveNames, TypesOfLibrariesAreTypesOfHlo) {
  const std::pair<const char*, const char*> kNames[] = {
      {"ncclFloat32", "f32"},
      {"float", "f32"},
      {"Tensor(float)", "f32"},
      {"half", "f16"},
      {"c10::Half", "f16"},
      {"c10::BFloat16", "bf16"},
      {"long int", "s64"},
      {"bool", "pred"},
      {"signed char", "s8"},
      {"unsigned char", "u8"},
      {"f8e4m3", "f8e4m3fn"},
      {"string", ""},
      {"", ""}};
  for (const auto& [name, type] : kNames) {
    EXPECT_EQ(name_of(element_type_named(name)), type) << name;
  }
}

TEST(CollectiveNames, TellKernelsThatMeetThroughEachOthersMemory) {
  const std::pair<const char*, const char*> kKernels[] = {
      {"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::"
       "BFloat16, 16, 2>(c10::BFloat16**, unsigned long)",
       "all-reduce"},
      {"void (anonymous namespace)::multimem_all_gather_kernel<16>(char*)",
       "all-gather"},
      {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(int)",
       "all-reduce"},
      {"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_"
       "oneshot_lamport<1, __nv_bfloat16, 8>(int)",
       "all-reduce"},
      {"void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 2>(int)",
       "all-reduce"},
      {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", "all-to-all"},
      {"void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)",
       "reduce-scatter"},
      {"void userbuffers_fp16_sum_inplace_gpu_rw<2>(int)", "all-reduce"},
      {"void deep_ep::layout::get_dispatch_layout<256, 32, 1>(long const*)",
       ""},
      {"triton_poi_fused_one_shot_all_reduce_2", ""},
      {"void reduce_kernel<512, 1, two_shot_all_reduce>(int)", ""}};
  for (const auto& [name, kind] : kKernels) {
    EXPECT_EQ(name_of(kind_of_peer_memory_kernel(name).value_or(
                  CollectiveKind::kUnknown)),
              kind)
        << name;
  }
}

TEST(CollectiveNames, OnlyKnownTypesHaveASize) {
  const std::pair<const char*, int64_t> kTypes[] = {
      {"pred", 1},  {"s4", 1},    {"f8e5m2", 1}, {"u16", 2},
      {"bf16", 2},  {"f32", 4},   {"s64", 8},    {"c64", 8},
      {"c128", 16}, {"token", 0}, {"x32", 0},    {"", 0}};
  for (const auto& [type, bytes] : kTypes) {
    EXPECT_EQ(element_bytes(primitive_type_from_name(type)), bytes) << type;
  }
}

}  // namespace
}  // namespace reprise
