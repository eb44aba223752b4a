// Reads traces of PyTorch's profiler (Kineto) in every dialect since 2020,
// CUDA, ROCm and CPU; and other Chrome JSON of complete events, as dialect
// "chrome".
#pragma once

#include "data/formats/reader.h"
#include "data/io/json_events.h"

namespace reprise {

struct KinetoOptions {
  /// Annotations of Python's stack (with_stack=True); counted if not kept.
  bool keep_python_functions = true;
  /// What each operator was called with; else of those alone that tell of
  /// gradients and collectives.
  bool keep_shapes = false;
  JsonEventOptions events;
};

class KinetoReader final : public TraceReader {
 public:
  explicit KinetoReader(KinetoOptions options = {}) : options_(options) {}
  std::string_view kind() const override { return "kineto"; }
  /// Leaves Horovod, ByteScheduler, BytePS, dPRO, NCCL's profiler and PyTorch
  /// execution traces to their readers.
  bool recognizes(const InputFile& input) const override;
  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override;

 private:
  KinetoOptions options_;
};

const TraceReader& kineto_reader();
/// The same with `keep_shapes`.
const TraceReader& kineto_reader_with_shapes();

}  // namespace reprise
