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
#include "runtime/kernels/print_cuda.h"

namespace reprise {

/// Where an argument lies.
struct ArgumentPlace {
  uint64_t address = 0, size_bytes = 0;
};

/// Some blocks of a launch of a kernel.
struct LaunchedBlocks {
  size_t launch = 0;  ///< In CubinKernel::launches.
  uint32_t first_block = 0, blocks = 1;
};

/// How to run one kernel.
struct CubinKernel {
  size_t image = 0;  ///< Index in Cubins::images.
  /// Entries of the image, each on a grid of one dimension: launched_blocks
  /// says in how many launches. Never empty.
  ///
  /// Parameters of every entry, in order: the address of each of
  /// Kernel::arguments, then the address of the workspace (any value when the
  /// kernel needs none), then the first block. All take 8 bytes. Shared memory
  /// is static: launch with 0 dynamic bytes.
  std::vector<PrintedLaunch> launches;
  /// Of its own while its launches run, aligned to 256; 0 for most kernels.
  int64_t workspace_bytes = 0;
};

/// What to launch one after the other on one stream, where the kernel's
/// arguments lie at `places`: parts of a launch that share memory, of which one
/// stores, follow each other.
std::vector<LaunchedBlocks> launched_blocks(
    const CubinKernel& kernel, std::span<const ArgumentPlace> places);

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
