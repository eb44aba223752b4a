// Our own declarations of cuDNN against its headers: tests/profiler/
// vendor_headers_test.py compiles it where there are any.
#include <cudnn.h>

#include <cstddef>

#include "runtime/cuda/cudnn_functions.h"
#include "tests/runtime/cuda/called_alike.h"

// The interface that we use is marked as old.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace reprise {
namespace {

static_assert(kCudnnSuccess == CUDNN_STATUS_SUCCESS);
static_assert(kCudnnFloat == CUDNN_DATA_FLOAT &&
              kCudnnDouble == CUDNN_DATA_DOUBLE &&
              kCudnnHalf == CUDNN_DATA_HALF &&
              kCudnnBfloat16 == CUDNN_DATA_BFLOAT16);
static_assert(kCudnnFeaturesFirst == CUDNN_TENSOR_NCHW &&
              kCudnnFeaturesLast == CUDNN_TENSOR_NHWC);
static_assert(kCudnnDefaultMath == CUDNN_DEFAULT_MATH &&
              kCudnnTensorMath == CUDNN_TENSOR_OP_MATH &&
              kCudnnFmaMath == CUDNN_FMA_MATH);
static_assert(kCudnnCrossCorrelation == CUDNN_CROSS_CORRELATION &&
              kCudnnDeterministic == CUDNN_DETERMINISTIC);

template <typename Theirs>
constexpr bool is_our_offer =
    sizeof(Theirs) == sizeof(CudnnOffer) &&
    offsetof(Theirs, algo) == offsetof(CudnnOffer, algorithm) &&
    offsetof(Theirs, status) == offsetof(CudnnOffer, status) &&
    offsetof(Theirs, memory) == offsetof(CudnnOffer, memory_bytes) &&
    offsetof(Theirs, determinism) == offsetof(CudnnOffer, determinism) &&
    offsetof(Theirs, mathType) == offsetof(CudnnOffer, math);
static_assert(is_our_offer<cudnnConvolutionFwdAlgoPerf_t>);
static_assert(is_our_offer<cudnnConvolutionBwdDataAlgoPerf_t>);
static_assert(is_our_offer<cudnnConvolutionBwdFilterAlgoPerf_t>);

#define REPRISE_IS_CALLED_ALIKE(name)                         \
  static_assert(IsCalledAlike<decltype(CudnnFunctions::name), \
                              decltype(&::name)>::value);
REPRISE_CUDNN_FUNCTIONS(REPRISE_IS_CALLED_ALIKE)

}  // namespace
}  // namespace reprise
