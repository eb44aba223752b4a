// Prints one stage of a kernel as a function for the GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernels/print_cuda.h"
#include "runtime/kernels/print_cuda_stages.h"
#include "runtime/kernels/print_expression.h"

namespace reprise {

/// More blocks than this are walked by a stride.
constexpr int64_t kMaxBlocks = int64_t{1} << 20;
/// Shared memory for elements that wait for their lane: several blocks of it
/// fit a multiprocessor.
constexpr int64_t kTileBytes = 16384;

/// What the mappings share: lines, loops by number, element statements.
class StageWriter {
 public:
  /// `stage` is of `original`, whose arguments these are.
  StageWriter(const CudaStage& stage, const Kernel& original,
              const std::vector<int64_t>& workspace_offsets);

  const Kernel& kernel() const { return stage_.kernel; }
  const CudaStage& stage() const { return stage_; }
  /// Of the whole kernel; the workspace's arrays come after them.
  size_t argument_count() const { return arguments_; }
  ExpressionPrinter& expressions() { return expressions_; }
  const char* index_type() const { return expressions_.index_type(); }

  void line(std::string_view text);
  void open(std::string_view text);  ///< TEXT {
  void close();
  std::string take() { return std::move(text_); }

  /// Casts of the parameters, for the arguments that the stage uses.
  void arguments();
  /// Sets the loops from the row-major place `position`.
  void decode(const std::vector<int32_t>& loops, const std::string& position);
  /// A let of anything but a total.
  void let(int32_t value);
  /// A store, for a thread that does it alone.
  void store(const KernelStatement& store);
  /// The new value of the place `old` holds, of an argument.
  std::string stored(const KernelStatement& store, const std::string& place);
  std::string place_of(const KernelStatement& store) const;

  /// What a lane of the accumulator starts from.
  std::string identity(int32_t accumulator) const;
  const char* local_of(int32_t accumulator) const;

  /// Where a thread keeps the element of a scratch; empty: the whole array is
  /// its own.
  std::string_view scratch_place;

 private:
  std::string value_text(const KernelValue& value) const;

  const CudaStage& stage_;
  size_t arguments_;
  std::vector<bool> constant_;  ///< Arguments that the launch cannot change.
  const std::vector<int64_t>& workspace_offsets_;
  ExpressionPrinter expressions_;
  std::string text_;
  size_t depth_ = 0;
};

/// Iterations in a type that holds them all.
const char* count_type(int64_t count);

/// Appends one function for several kMap stages that may run at once, each in
/// blocks of its own.
PrintedLaunch print_maps(std::vector<StageWriter>& writers,
                         const std::string& head, const std::string& name,
                         std::string& text);

/// Each prints the whole function `name` and returns its launch.
PrintedLaunch print_rows(StageWriter& writer, const std::string& head,
                         const std::string& name);
PrintedLaunch print_blocks(StageWriter& writer, const std::string& head,
                           const std::string& name);
PrintedLaunch print_ordered(StageWriter& writer, const std::string& head,
                            const std::string& name);
PrintedLaunch print_owned(StageWriter& writer, const std::string& head,
                          const std::string& name);
PrintedLaunch print_tiled(StageWriter& writer, const std::string& head,
                          const std::string& name);
PrintedLaunch print_serial(StageWriter& writer, const std::string& head,
                           const std::string& name);

}  // namespace reprise
