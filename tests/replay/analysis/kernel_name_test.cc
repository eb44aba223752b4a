#include "replay/analysis/kernel_name.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace reprise {
namespace {

TEST(ShortKernelName, DropsWhatPeopleSkip) {
  EXPECT_EQ(short_kernel_name(
                "void at::native::(anonymous namespace)::vectorized_kernel<4, "
                "at::native::Add<float>, at::detail::Array<char*, 3> >(int, "
                "at::native::Add<float>)"),
            "vectorized_kernel");
  EXPECT_EQ(short_kernel_name("ncclDevKernel_AllReduce_Sum_f16_RING_LL("
                              "ncclDevComm*, unsigned long)"),
            "ncclDevKernel_AllReduce_Sum_f16_RING_LL");
  EXPECT_EQ(short_kernel_name("Memcpy HtoD (Pageable -> Device)"),
            "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(short_kernel_name("volta_sgemm_128x64_nn"),
            "volta_sgemm_128x64_nn");
  EXPECT_EQ(short_kernel_name("aten::add_"), "aten::add_");
  EXPECT_EQ(short_kernel_name("abcdefghijkl", 8), "abc~ijkl");
  EXPECT_EQ(short_kernel_name("_ZN7ck_tile6kentryILi1ENS_9FmhaFwdEEEvT_"),
            "kentry");
  EXPECT_EQ(short_kernel_name("_Z10add_kernelPfS_i"), "add_kernel");
  EXPECT_EQ(short_kernel_name("_ZN99999999999999999999x"),
            "_ZN99999999999999999999x");  // A length that the name has not.
  EXPECT_EQ(short_kernel_name("_ZSt4move"), "_ZSt4move");
  for (const char* odd : {"", ")", ">", "()", "<>", "::", "a::", ")(", "void ",
                          "_Z", "_ZN", "_ZN3ab", "_ZN3"})
    short_kernel_name(odd);
}

TEST(DistinctKernelNames, SayWhatTellsLikeNamesApart) {
  // "4", "float" and "native" are in all; of the words left the first that is
  // no number. The gemms differ in their tiles alone.
  const std::vector<std::string_view> names = {
      "void at::native::each<4, at::native::FillFunctor<float> >(int)",
      "void at::native::each<4, at::native::Unary<float, Mul<float> > >(int)",
      "void at::native::each<4, at::native::Unary<float, Add<float> > >(int)",
      "gemm_f32_128x64_nn",
      "gemm_f32_128x32_nn",
      "softmax"};
  const std::vector<std::string> expected = {
      "each [FillFunctor]", "each [Mul]",         "each [Add]",
      "gemm_f32_128x64_nn", "gemm_f32_128x32_nn", "softmax"};
  EXPECT_EQ(distinct_kernel_names(names, 48), expected);
}

TEST(DistinctKernelNames, StayWithinTheWidth) {
  const std::vector<std::string_view> names = {
      "Cijk_Alik_Bljk_MT16x16x128_SE_WG32_8_1",
      "Cijk_Alik_Bljk_MT32x32x64_SE_WG32_8_1",
      "Cijk_Alik_Bljk_MT32x32x64_SE_WG32_8_1"};
  // All are "Cijk_Alik~_WG32_8_1" at 20. The tile tells the first from the
  // others, which are the same; " [MT16x16x128" is cut to half the width, 10,
  // and with its bracket leaves 9 for the name.
  const std::vector<std::string> expected = {
      "Cijk~_8_1 [MT~6x128]", "Cijk~_8_1 [MT~32x64]", "Cijk~_8_1 [MT~32x64]"};
  EXPECT_EQ(distinct_kernel_names(names, 20), expected);
  for (const std::string& name : distinct_kernel_names(names, 20)) {
    EXPECT_LE(name.size(), 20u);
  }
}

}  // namespace
}  // namespace reprise
