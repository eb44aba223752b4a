// Which copy of one of NVIDIA's libraries to open. A machine often has several
// (the toolkit's, those of Python's wheels), and the newest is not always one
// that the driver runs: a library of a newer major CUDA is refused, with errors
// that come late and say little. Needs no header of the toolkit and no driver.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/result.h"

namespace reprise {

enum class NvidiaLibrary { kNvrtc, kCublasLt, kCudnn, kNccl };

/// The CUDA of the driver that is installed, as cuDriverGetVersion counts
/// (12040 is 12.4); 0 without one. Starts nothing.
int installed_driver_cuda();

/// Where to look, in order of preference.
struct NvidiaSearch {
  bool uses_loader = true;  ///< By bare name, as LD_LIBRARY_PATH has it.
  std::vector<std::string> folders = {};
  std::string only = {};  ///< This file and no other; empty: any.
};

/// The loader, CUDA_HOME and CUDA_PATH, the wheels of Python (of VIRTUAL_ENV,
/// CONDA_PREFIX, the python3 on PATH, the user and the system), /usr/local.
NvidiaSearch default_nvidia_search();

/// Files (or bare names) to try under a driver of CUDA `driver_cuda` (12040 is
/// 12.4, as cuDriverGetVersion counts; 0: not known): of the driver's major
/// version or older, newest first, then newer ones. NCCL's and cuDNN's names do
/// not tell.
std::vector<std::string> nvidia_candidates(NvidiaLibrary library,
                                           int driver_cuda,
                                           const NvidiaSearch& search);

/// An open library, and what was passed over on the way to it.
struct OpenedNvidiaLibrary {
  void* handle = nullptr;
  std::string path;                      ///< As it was found.
  std::vector<std::string> passed_over;  ///< "PATH: why", in order.
};

/// Says why a copy will not do; empty: it will.
using NvidiaRefusal =
    std::function<std::string(void* handle, const std::string& path)>;

/// Opens the first candidate that is there and not refused. A refused copy
/// stays open unless the refusal closes it: some keep threads of their own.
/// Errors: kDevice, with what was found and why it will not do, or, where there
/// was none, what the loader says.
Result<OpenedNvidiaLibrary> open_nvidia_library(
    NvidiaLibrary library, int driver_cuda, const NvidiaRefusal& refusal,
    const NvidiaSearch& search = default_nvidia_search());

/// CUDA that an NCCL was built for, by the version in its text
/// ("2.27.3+cuda12.9": 12); 0 when the file does not say. A library of a newer
/// CUDA than the driver's starts no communicator.
int cuda_major_of_nccl(const std::string& path);

/// What to say of a library of CUDA `major` that the driver does not run; empty
/// when it does, or either is not known (0).
std::string too_new_for_driver(int major, int driver_cuda);

}  // namespace reprise
