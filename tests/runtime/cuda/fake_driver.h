// A CUDA driver for tests (libcuda.so.1): device memory is host memory, streams
// are queues whose work runs as late as the program allows, interleaved by a
// seed. An event edge that is missing then gives a wrong answer. These are its
// controls; the driver's own functions are those of cuda.h.
//
// As the real driver does, cuInit brings in the tool that CUDA_INJECTION64_PATH
// names; over the fake CUPTI that tool then sees this device's work.
//
// Environment: FAKE_CUDA_SEED, FAKE_CUDA_DEVICES (1), FAKE_CUDA_STRICT=1: a
// process that leaks an object or misuses one ends with status 99 and says so.
// FAKE_CUDA_HANG=N: kernel N that is launched never ends;
// FAKE_CUDA_BLOCK=CALL:N: call N of that function never comes back.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tests/profiler/inject/fake_tracer.h"

extern "C" {

/// Shows every call and all work from now on to a tool.
void fake_cuda_trace(const reprise::fake::Tracer* tracer);
/// Names the next kernel that this thread enqueues by one of the two functions
/// below. `name` must stay.
void fake_cuda_name_kernel(const char* name);

/// The next kernel that this thread enqueues by these takes so much longer.
void fake_cuda_next_lasts(int64_t nanoseconds);

/// Chooses the interleaving of all that is enqueued from now on.
void fake_cuda_seed(uint64_t seed);

/// Enqueues `run(data)` as a kernel would be; under capture it becomes a node
/// of the graph and may run many times. `destroy(data)` when nothing can run it
/// any more.
CUresult fake_cuda_enqueue(CUstream stream, void (*run)(void*), void* data,
                           void (*destroy)(void*));

/// The same, but it cannot run before `ready(data)`: what waits for another
/// rank. `ready` must not call the driver.
CUresult fake_cuda_enqueue_when(CUstream stream, int (*ready)(void*),
                                void (*run)(void*), void* data,
                                void (*destroy)(void*));

/// True when `[address, address + bytes)` is device memory in use; says so in
/// the report otherwise.
int fake_cuda_is_device_memory(uint64_t address, uint64_t bytes);

/// Objects and memory not yet given back.
int fake_cuda_live_objects();
/// One line for each misuse so far; empty when all is well. Valid until the
/// next call.
const char* fake_cuda_report();
/// Forgets misuses and failures asked for.
void fake_cuda_clear();

/// The kernel launched as number `after` from now on never ends.
void fake_cuda_hang(uint64_t after);

/// How often a function of the driver has been called, by its name in cuda.h.
uint64_t fake_cuda_calls(const char* function);
/// Makes the call number `after` (0 is the next) of `function` return `result`.
void fake_cuda_fail(const char* function, uint64_t after, CUresult result);
}
