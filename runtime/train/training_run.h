// One rank's training: state and batches around a step executor.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/manifest/dataset.h"
#include "data/manifest/manifest.h"
#include "data/manifest/state_file.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "profiler/recorder.h"
#include "runtime/train/step_executor.h"

namespace reprise {

/// What is trained; all of it must outlive the run.
struct TrainingProgram {
  const InlinedModule& module;
  const Manifest& manifest;
  const Schedule& schedule;
  std::string state_path = {};  ///< State to start from; empty: the manifest's.
};

struct StepOutcome {
  int64_t start_ns = 0, end_ns = 0;
  /// Of this rank's batch; NaN without a loss.
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> correct;     ///< Rows classified right.
  std::optional<int64_t> device_ns;  ///< Of the step, by the device's clock.
};

class TrainingRun {
 public:
  /// Fills the executor's state with its initial values. Errors: those of
  /// BatchSource and InitialState; kDevice.
  static Result<std::unique_ptr<TrainingRun>> create(
      const TrainingProgram& program, std::unique_ptr<StepExecutor> executor,
      Recorder* recorder, int64_t rank);

  /// As StepExecutor::leave_out_third.
  void leave_out_third(int32_t first, int32_t end) {
    executor_->leave_out_third(first, end);
  }
  /// Feeds the batch of `step` and runs it.
  Result<StepOutcome> step(int32_t step, bool warmup);
  /// The same, naming what it computes that is not finite, where the executor
  /// can. Nothing is recorded.
  Result<NonFinite> find_non_finite(int32_t step);

  /// Steps before this run: the data goes on behind them.
  int64_t steps_before() const { return initial_.steps(); }

  /// Present values of a state parameter. Errors here and below: kDevice.
  Result<std::vector<float>> state(int64_t parameter) const;
  /// The values that it started from.
  std::vector<float> initial_state(const ManifestParameter& parameter) const;
  /// SHA-256 of each state tensor's bytes, in order of parameters.
  Result<std::vector<std::string>> state_digests() const;
  uint64_t state_size() const;  ///< Bytes of all state.
  /// Bytes of all state tensors, by parameter.
  Result<std::map<int64_t, std::string>> state_bytes() const;
  /// Puts such bytes back.
  Status restore(const std::map<int64_t, std::string>& state);
  /// Rows of this rank's batch; 0 without a batch.
  int64_t batch_rows() const;

 private:
  TrainingRun(const TrainingProgram& program, Recorder* recorder, int64_t rank)
      : program_(program), recorder_(recorder), rank_(rank) {}
  Status fill_state();
  Status feed(int32_t step);
  void fill_batch(const ManifestParameter& parameter, int32_t step,
                  std::span<std::byte> to);
  /// Its declared_elements; of bytes as memory has them the program's shape.
  const Shape& elements_of(int64_t parameter) const {
    return elements_[static_cast<size_t>(parameter)];
  }
  const Shape& shape_of(int64_t parameter) const {
    return parameters_[static_cast<size_t>(parameter)]->shape;
  }
  void prepare_batch(int32_t step);
  Result<double> scalar_output(int64_t output) const;

  TrainingProgram program_;
  Recorder* recorder_ = nullptr;
  int64_t rank_ = 0;
  std::optional<BatchSource> source_;
  InitialState initial_;
  std::vector<const Instruction*> parameters_;  ///< By number.
  std::vector<Shape> elements_;                 ///< By parameter.
  std::unique_ptr<StepExecutor> executor_;
  std::vector<size_t> batch_bytes_;  ///< By parameter; 0 for state.
  int32_t step_ = 0;                 ///< The present one.
  int32_t prepared_step_ = -1;  ///< Whose batch lies in `prepared_`, or -1.
  std::vector<std::vector<std::byte>> prepared_;  ///< By parameter.
};

/// Combines digests of the state's tensors into the run's `state_hash`.
std::string state_hash(const std::vector<std::string>& digests);

}  // namespace reprise
