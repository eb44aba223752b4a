// Names and categories of Kineto events: each distinct one is looked at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/trace/trace_spool.h"

namespace reprise {

/// What an event's category says that it is, in the words of every dialect.
enum class KinetoCategory : uint8_t {
  kNone,  ///< No category, or one that no dialect of PyTorch has.
  kHostOp,
  kRuntime,
  kKernel,
  kCopy,
  kMemset,
  kSynchronization,
  kAnnotation,
  kPythonFunction,
  kOverhead,
  kDeviceAnnotation,  ///< A device-side copy of a host's annotation.
  kProfilerSpan,
  kRepeated,  ///< An event's record, or a wait, that a host's call stands for.
  kMtia,      ///< Work of an accelerator whose traces have no kernels.
};

/// `category` with its quotes, as in the file.
KinetoCategory kineto_category(std::string_view category);

/// The same of an event without one, from its process: exports of
/// torch.autograd.profiler, up to PyTorch 1.8, call it "CPU functions" or "CUDA
/// functions".
KinetoCategory autograd_category(std::string_view process);

/// What a name says.
struct KinetoName {
  StringId id{};
  bool communicates = false;     ///< A kernel of NCCL or its like.
  bool host_collective = false;  ///< A collective that runs on a host thread.
  /// Stands for a collective call: its arguments may tell more.
  bool describes_collective = false;
  bool keeps_arguments = false;  ///< Of autograd, c10d, FSDP2.
  bool hip = false;              ///< A call of the ROCm runtime.
  int32_t step = -1;             ///< N of "ProfilerStep#N".
  bool may_be_step = false;  ///< A user's "train_step 3", "step" (step_range).
  CollectiveKind kind = CollectiveKind::kUnknown;  ///< If the name tells.
};

class KinetoNames {
 public:
  explicit KinetoNames(TraceSpool& spool);
  /// `raw` as in the file, quotes included. Valid until the next call.
  const KinetoName& of(std::string_view raw) { return known(raw).name; }
  /// Of a kernel, of which the first by its name tells by its arguments whether
  /// it is a collective's.
  const KinetoName& of_kernel(std::string_view raw, std::string_view arguments);

 private:
  struct Known {
    uint64_t hash = 0;
    std::string raw;
    KinetoName name;
    bool is_kernel = false;  ///< Was asked for as one.
  };
  Known& known(std::string_view raw);
  KinetoName look_at(std::string_view raw);
  void grow();

  TraceSpool& spool_;
  std::vector<uint32_t> slots_;  ///< Index in known_ + 1; 0: free.
  std::vector<Known> known_;
  size_t known_bytes_ = 0;
};

}  // namespace reprise
