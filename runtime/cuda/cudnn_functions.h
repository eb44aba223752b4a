// cuDNN's C interface as far as it is used, declared anew: neither the build
// nor the machine must have its headers. Values and layouts are those of
// cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h of cuDNN 9; tests hold them
// against these headers where there are any.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace reprise {

inline constexpr int kCudnnSuccess = 0;           // CUDNN_STATUS_SUCCESS
inline constexpr int kCudnnFloat = 0;             // CUDNN_DATA_FLOAT
inline constexpr int kCudnnDouble = 1;            // CUDNN_DATA_DOUBLE
inline constexpr int kCudnnHalf = 2;              // CUDNN_DATA_HALF
inline constexpr int kCudnnBfloat16 = 9;          // CUDNN_DATA_BFLOAT16
inline constexpr int kCudnnFeaturesFirst = 0;     // CUDNN_TENSOR_NCHW
inline constexpr int kCudnnFeaturesLast = 1;      // CUDNN_TENSOR_NHWC
inline constexpr int kCudnnDefaultMath = 0;       // CUDNN_DEFAULT_MATH
inline constexpr int kCudnnTensorMath = 1;        // CUDNN_TENSOR_OP_MATH
inline constexpr int kCudnnFmaMath = 3;           // CUDNN_FMA_MATH
inline constexpr int kCudnnCrossCorrelation = 1;  // CUDNN_CROSS_CORRELATION
inline constexpr int kCudnnDeterministic = 1;     // CUDNN_DETERMINISTIC

/// cudnnConvolutionFwdAlgoPerf_t, and those of the gradients.
struct CudnnOffer {
  int algorithm = 0, status = 0;
  float time = 0;
  size_t memory_bytes = 0;
  int determinism = 0, math = 0;
  int reserved[3] = {};
};
static_assert(sizeof(CudnnOffer) == 48);

/// Of a convolution's first operand, second operand and result, in the order
/// that the library has them: the filter first in the gradient by images.
using CudnnGetAlgorithm = int (*)(void* handle, const void* first,
                                  const void* second, const void* convolution,
                                  const void* result, int asked, int* found,
                                  CudnnOffer* offers);
using CudnnConvolve = int (*)(void* handle, const void* alpha,
                              const void* first, const void* first_memory,
                              const void* second, const void* second_memory,
                              const void* convolution, int algorithm,
                              void* workspace, size_t workspace_bytes,
                              const void* beta, const void* result,
                              void* result_memory);

// NOLINTBEGIN(readability-identifier-naming): as the library has them.
struct CudnnFunctions {
  size_t (*cudnnGetVersion)();
  size_t (*cudnnGetCudartVersion)();
  const char* (*cudnnGetErrorString)(int status);
  int (*cudnnCreate)(void** handle);
  int (*cudnnDestroy)(void* handle);
  int (*cudnnSetStream)(void* handle, CUstream stream);
  int (*cudnnCreateTensorDescriptor)(void** tensor);
  int (*cudnnDestroyTensorDescriptor)(void* tensor);
  int (*cudnnSetTensorNdDescriptor)(void* tensor, int type, int dimensions,
                                    const int extents[], const int strides[]);
  int (*cudnnCreateFilterDescriptor)(void** filter);
  int (*cudnnDestroyFilterDescriptor)(void* filter);
  int (*cudnnSetFilterNdDescriptor)(void* filter, int type, int format,
                                    int dimensions, const int extents[]);
  int (*cudnnCreateConvolutionDescriptor)(void** convolution);
  int (*cudnnDestroyConvolutionDescriptor)(void* convolution);
  int (*cudnnSetConvolutionNdDescriptor)(void* convolution, int places,
                                         const int padding[],
                                         const int strides[],
                                         const int dilations[], int mode,
                                         int compute_type);
  int (*cudnnSetConvolutionGroupCount)(void* convolution, int groups);
  int (*cudnnSetConvolutionMathType)(void* convolution, int math);
  CudnnGetAlgorithm cudnnGetConvolutionForwardAlgorithm_v7;
  CudnnGetAlgorithm cudnnGetConvolutionBackwardDataAlgorithm_v7;
  CudnnGetAlgorithm cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  CudnnConvolve cudnnConvolutionForward;
  CudnnConvolve cudnnConvolutionBackwardData;
  CudnnConvolve cudnnConvolutionBackwardFilter;
};
// NOLINTEND(readability-identifier-naming)

#define REPRISE_CUDNN_FUNCTIONS(USE)                 \
  USE(cudnnGetVersion)                               \
  USE(cudnnGetCudartVersion)                         \
  USE(cudnnGetErrorString)                           \
  USE(cudnnCreate)                                   \
  USE(cudnnDestroy)                                  \
  USE(cudnnSetStream)                                \
  USE(cudnnCreateTensorDescriptor)                   \
  USE(cudnnDestroyTensorDescriptor)                  \
  USE(cudnnSetTensorNdDescriptor)                    \
  USE(cudnnCreateFilterDescriptor)                   \
  USE(cudnnDestroyFilterDescriptor)                  \
  USE(cudnnSetFilterNdDescriptor)                    \
  USE(cudnnCreateConvolutionDescriptor)              \
  USE(cudnnDestroyConvolutionDescriptor)             \
  USE(cudnnSetConvolutionNdDescriptor)               \
  USE(cudnnSetConvolutionGroupCount)                 \
  USE(cudnnSetConvolutionMathType)                   \
  USE(cudnnGetConvolutionForwardAlgorithm_v7)        \
  USE(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  USE(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  USE(cudnnConvolutionForward)                       \
  USE(cudnnConvolutionBackwardData)                  \
  USE(cudnnConvolutionBackwardFilter)

}  // namespace reprise
