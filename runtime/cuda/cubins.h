// Kernels to GPU machine code: CUDA C++ (runtime/kernels/print_cuda.h) compiled
// by NVRTC in batches and kept in the private content-addressed cache. Needs
// NVRTC (opened when used, never linked), no driver and no GPU.
//
// A kernel of the IR is one or more launches, because what a sequential nest
// may assume (all of an earlier loop is done) only the end of a launch
// guarantees to a grid. Results have the bits of the CPU's generated code where
// IEEE 754 decides them: f32 with denormals flushed to zero, as the CPU runtime
// computes, no contraction, correctly rounded division and square root.
// Exceptions are NaN payloads and f64 transcendentals, which are the device
// library's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/kernel/kernel.h"
#include "data/result.h"
#include "runtime/cuda/nvidia_library.h"

namespace reprise {

/// One launch: `entry` of the kernel's image on a grid of one dimension.
///
/// Parameters of every entry, in order: the address of each of
/// Kernel::arguments, then the address of the workspace (any value when the
/// kernel needs none). All are device pointers of 8 bytes. Shared memory is
/// static: launch with 0 dynamic bytes.
struct CubinLaunch {
  std::string entry;
  uint32_t grid_blocks = 1;
  uint32_t block_threads = 1;
};

/// How to run one kernel.
struct CubinKernel {
  size_t image = 0;  ///< Index in Cubins::images.
  /// One after the other on one stream; never empty.
  std::vector<CubinLaunch> launches;
  /// Of its own while its launches run, aligned to 256; 0 for most kernels.
  int64_t workspace_bytes = 0;
};

/// What ptxas says of one entry.
struct CubinResources {
  std::string entry;
  int64_t registers = 0;
  int64_t stack_bytes = 0;  ///< A thread's arrays, and spills.
  int64_t spill_store_bytes = 0, spill_load_bytes = 0;
};

struct Cubins {
  /// For cuLibraryLoadData or cuModuleLoadData; each once.
  std::vector<std::string> images;
  std::vector<CubinKernel> kernels;       ///< In order of the kernels given.
  int compiled = 0;                       ///< Kernels that no cache held.
  std::vector<CubinResources> resources;  ///< Of the kernels compiled now.
};

struct CubinOptions {
  /// Empty: $XDG_CACHE_HOME/reprise or ~/.cache/reprise.
  std::string cache_directory = {};
  int jobs = 2;         ///< Compilations at once; fewer than 1: 1.
  int driver_cuda = 0;  ///< As cuDriverGetVersion counts; 0: not known.
  NvidiaSearch nvrtc_search = default_nvidia_search();
  /// Whether the device takes an image; where it does not, the next older NVRTC
  /// compiles all anew. Empty: nobody asks.
  std::function<Status(const std::string& image)> takes = {};
};

/// Compiles what the cache lacks. `architecture` is 10 × major + minor of the
/// device's compute capability: 80, 90, 100.
/// Errors: kDevice when no NVRTC knows the architecture and makes images that
/// the device takes, one refuses a kernel (named by its outputs), or the cache
/// cannot be used.
Result<Cubins> compile_cubins(std::span<const Kernel> kernels, int architecture,
                              const CubinOptions& options = {});

}  // namespace reprise
