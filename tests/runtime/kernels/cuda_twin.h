// Kernels printed for a GPU, compiled as host C++ and run here: the text is the
// one that NVRTC compiles.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/kernel/kernel.h"
#include "data/result.h"
#include "runtime/cuda/cubins.h"

namespace reprise {

/// Loads an image of the fake NVRTC; a handle for dlsym.
Result<std::shared_ptr<void>> load_twin(const std::string& image);

class CudaTwins {
 public:
  /// Compiles with the fake NVRTC (tests/runtime/cuda/cubin_fake_nvrtc.cc).
  static Result<CudaTwins> make(std::span<const Kernel> kernels);

  /// Runs all launches of a kernel; the workspace is its own and poisoned.
  void run(size_t kernel, std::span<void* const> arguments) const;

  const Cubins& cubins() const { return cubins_; }

 private:
  using Entry = void (*)(void* const* parameters, unsigned grid_blocks);
  Cubins cubins_;
  std::vector<std::shared_ptr<void>> libraries_;  ///< By image.
  std::vector<std::vector<Entry>> entries_;       ///< By kernel, by launch.
  std::vector<std::vector<uint64_t>>
      sizes_;  ///< By kernel, by argument: bytes.
};

}  // namespace reprise
