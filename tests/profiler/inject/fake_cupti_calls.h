// The calls that the fake CUPTI knows, by CUPTI's names and ids for them
// (cupti_layout_test.cc compares them with its headers).
#pragma once

// X(name, id) of the driver's domain.
#define FAKE_CUPTI_DRIVER_CALLS(X) \
  X(cuCtxSynchronize, 17)          \
  X(cuEventRecord, 119)            \
  X(cuEventQuery, 120)             \
  X(cuEventSynchronize, 121)       \
  X(cuStreamQuery, 125)            \
  X(cuStreamSynchronize, 126)      \
  X(cuMemsetD8Async, 216)          \
  X(cuMemcpyHtoD_v2, 276)          \
  X(cuMemcpyHtoDAsync_v2, 277)     \
  X(cuMemcpyDtoH_v2, 278)          \
  X(cuMemcpyDtoHAsync_v2, 279)     \
  X(cuMemcpyDtoDAsync_v2, 281)     \
  X(cuStreamWaitEvent, 295)        \
  X(cuLaunchKernel, 307)           \
  X(cuGraphLaunch, 514)            \
  X(cuLaunchKernelEx, 652)

// X(name, id) of the runtime's domain.
#define FAKE_CUPTI_RUNTIME_CALLS(X)   \
  X(cudaMemcpyAsync_v3020, 41)        \
  X(cudaMemsetAsync_v3020, 51)        \
  X(cudaStreamSynchronize_v3020, 131) \
  X(cudaEventRecord_v3020, 135)       \
  X(cudaStreamWaitEvent_v3020, 147)   \
  X(cudaLaunchKernel_v7000, 211)      \
  X(cudaLaunchKernel_ptsz_v7000, 214) \
  X(cudaGraphLaunch_v10000, 311)      \
  X(cudaLaunchKernelExC_v11060, 430)
