// NVRTC, NVIDIA's compiler of CUDA C++ as a library: opened when needed, called
// through a table. Needs neither a driver nor a header of the toolkit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/result.h"

namespace reprise {

/// One compilation's result.
struct NvrtcImage {
  std::string cubin;
  std::string log;  ///< Warnings and what ptxas says of each function.
};

class Nvrtc {
 public:
  /// Opens `library`, or the newest NVRTC that the loader or CUDA_HOME offers.
  /// Errors: kDevice when there is none or it lacks a function.
  static Result<Nvrtc> open(const std::string& library);

  /// "13.0" of nvrtcVersion.
  const std::string& version() const { return version_; }
  /// True if it compiles for this compute capability, 10 × major + minor.
  bool supports(int architecture) const;
  /// Compiles one text. May run on several threads at once. Errors: kDevice
  /// with the log.
  Result<NvrtcImage> compile(const std::string& text,
                             const std::vector<std::string>& options) const;

 private:
  struct Table;
  std::shared_ptr<const Table> table_;
  std::string version_;
  std::vector<int> architectures_;
};

}  // namespace reprise
