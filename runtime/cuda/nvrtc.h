// NVRTC, NVIDIA's compiler of CUDA C++ as a library: opened when needed, called
// through a table. Needs neither a driver nor a header of the toolkit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/result.h"
#include "runtime/cuda/nvidia_library.h"

namespace reprise {

/// One compilation's result.
struct NvrtcImage {
  std::string cubin;
  std::string log;  ///< Warnings and what ptxas says of each function.
};

/// Which NVRTC will do.
struct NvrtcRequest {
  int driver_cuda = 0;   ///< As cuDriverGetVersion counts; 0: any.
  int architecture = 0;  ///< 10 × major + minor of the device; 0: any.
  /// Copies whose code the driver did not take: path, and why.
  std::vector<std::pair<std::string, std::string>> refused = {};
  NvidiaSearch search = default_nvidia_search();
};

class Nvrtc {
 public:
  /// Opens the newest NVRTC whose code the driver and the device can be
  /// expected to run. Errors: kDevice when there is none, with what was passed
  /// over and why.
  static Result<Nvrtc> open(const NvrtcRequest& request);

  /// "13.0" of nvrtcVersion.
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }
  /// "PATH: why", in order.
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  /// True if it compiles for this compute capability, 10 × major + minor.
  bool supports(int architecture) const;
  /// Compiles one text. May run on several threads at once. Errors: kDevice
  /// with the log.
  Result<NvrtcImage> compile(const std::string& text,
                             const std::vector<std::string>& options) const;

 private:
  struct Table;
  std::string bind(void* handle, const std::string& path,
                   const NvrtcRequest& request);

  std::shared_ptr<const Table> table_;
  std::string version_, path_;
  std::vector<std::string> passed_over_;
  std::vector<int> architectures_;
};

}  // namespace reprise
