#include "runtime/train/training_run.h"

#include <cstring>

#include "data/manifest/initial_values.h"
#include "data/sha256.h"

namespace reprise {
namespace {

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::unique_ptr<TrainingRun>> TrainingRun::create(
    const TrainingProgram& program, std::unique_ptr<StepExecutor> executor,
    Recorder* recorder, int64_t rank) {
  std::unique_ptr<TrainingRun> run(new TrainingRun(program, recorder, rank));
  run->executor_ = std::move(executor);
  run->parameters_ = parameters_of(program.module.entry_computation());
  run->batch_bytes_.resize(run->parameters_.size());
  run->executor_->set_meanwhile(
      [raw = run.get()] { raw->prepare_batch(raw->step_ + 1); });
  if (program.manifest.dataset) {
    Result<BatchSource> source =
        BatchSource::open(*program.manifest.dataset, program.manifest.folders);
    if (!source) return pass(source.error());
    run->source_ = std::move(*source);
  }
  for (const ManifestParameter& parameter : program.manifest.parameters) {
    if (parameter.role != ParameterRole::kBatch) continue;
    if (!run->source_) {
      return fail(ErrorKind::kInvalid, "'{}' is a batch without a dataset",
                  parameter.name);
    }
    const Status fits = run->source_->check(
        parameter.field,
        run->parameters_[static_cast<size_t>(parameter.index)]->shape);
    if (!fits) return pass(fits.error());
  }
  const Status filled = run->fill_state();
  if (!filled) return pass(filled.error());
  return run;
}

Status TrainingRun::fill_state() {
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    const Shape& shape =
        parameters_[static_cast<size_t>(parameter.index)]->shape;
    if (shape.type != PrimitiveType::kF32) {
      return fail(ErrorKind::kUnsupported, "state '{}' is {}, not f32",
                  parameter.name, shape_text(shape, false));
    }
    const std::span<std::byte> bytes =
        executor_->edit_parameter(parameter.index);
    fill_initial(parameter, {reinterpret_cast<float*>(bytes.data()),
                             bytes.size() / sizeof(float)});
    const Status written = executor_->commit_parameter(parameter.index);
    if (!written) return pass(written.error(), parameter.name);
  }
  return {};
}

void TrainingRun::fill_batch(const ManifestParameter& parameter, int32_t step,
                             std::byte* to) {
  source_->fill(parameter.field,
                parameters_[static_cast<size_t>(parameter.index)]->shape,
                static_cast<uint64_t>(step), static_cast<uint64_t>(rank_), to);
}

// Beside a device that runs the step before. Not straight into the executor's
// memory: the device may still be reading it.
void TrainingRun::prepare_batch(int32_t step) {
  prepared_.resize(parameters_.size());
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kBatch) continue;
    const auto number = static_cast<size_t>(parameter.index);
    prepared_[number].resize(batch_bytes_[number]);
    fill_batch(parameter, step, prepared_[number].data());
  }
  prepared_step_ = step;
}

Status TrainingRun::feed(int32_t step) {
  step_ = step;
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kBatch) continue;
    const std::span<std::byte> to = executor_->edit_parameter(parameter.index);
    const auto number = static_cast<size_t>(parameter.index);
    batch_bytes_[number] = to.size();
    if (prepared_step_ == step) {
      std::memcpy(to.data(), prepared_[number].data(), to.size());
    } else {
      fill_batch(parameter, step, to.data());
    }
    const Status written = executor_->commit_parameter(parameter.index);
    if (!written) return pass(written.error(), parameter.name);
  }
  return {};
}

Result<StepOutcome> TrainingRun::step(int32_t step, bool warmup) {
  StepOutcome outcome;
  outcome.start_ns = Recorder::now_ns();
  const Status fed = feed(step);
  if (!fed) return pass(fed.error());
  if (recorder_ != nullptr) {
    recorder_->record(0, EventKind::kFeed, -1, step, outcome.start_ns,
                      outcome.start_ns, Recorder::now_ns(), -1);
  }
  const Status ran = executor_->run_step(step);
  if (!ran) return pass(ran.error());
  outcome.end_ns = Recorder::now_ns();
  outcome.device_ns = executor_->device_step_ns();
  executor_->mark_step(step, warmup, outcome.start_ns, outcome.end_ns);
  if (recorder_ != nullptr) {
    recorder_->mark_step(step, warmup, outcome.start_ns, outcome.end_ns);
    // A failed flush comes back from Recorder::finish; until then the ranks
    // stay in step.
    const Status flushed = recorder_->flush();
    static_cast<void>(flushed);
  }
  for (const ManifestOutput& output : program_.manifest.outputs) {
    if (output.role != OutputRole::kLoss && output.role != OutputRole::kCorrect)
      continue;
    const Result<double> value = scalar_output(output.index);
    if (!value) return pass(value.error());
    if (output.role == OutputRole::kLoss)
      outcome.loss = *value;
    else
      outcome.correct = *value;
  }
  return outcome;
}

Result<double> TrainingRun::scalar_output(int64_t output) const {
  const Result<std::span<const std::byte>> bytes =
      executor_->read_output(output);
  if (!bytes) return pass(bytes.error());
  const Computation& entry = program_.module.entry_computation();
  const Shape& root = entry.at(entry.root).shape;
  const Shape& shape =
      root.is_tuple() ? root.elements[static_cast<size_t>(output)] : root;
  if (shape.type == PrimitiveType::kS32) {
    int32_t value = 0;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

Result<std::span<const float>> TrainingRun::state(int64_t parameter) const {
  const Result<std::span<const std::byte>> bytes =
      executor_->read_parameter(parameter);
  if (!bytes) return pass(bytes.error());
  return std::span(reinterpret_cast<const float*>(bytes->data()),
                   bytes->size() / sizeof(float));
}

Result<std::vector<std::string>> TrainingRun::state_digests() const {
  std::vector<std::string> digests;
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    const Result<std::span<const std::byte>> bytes =
        executor_->read_parameter(parameter.index);
    if (!bytes) return pass(bytes.error(), parameter.name);
    digests.push_back(sha256_hex(characters(*bytes)));
  }
  return digests;
}

Result<std::string> TrainingRun::state_bytes() const {
  std::string all;
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    const Result<std::span<const std::byte>> bytes =
        executor_->read_parameter(parameter.index);
    if (!bytes) return pass(bytes.error(), parameter.name);
    all += characters(*bytes);
  }
  return all;
}

int64_t TrainingRun::batch_rows() const {
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    const Shape& shape =
        parameters_[static_cast<size_t>(parameter.index)]->shape;
    if (parameter.role == ParameterRole::kBatch && !shape.dimensions.empty())
      return shape.dimensions[0];
  }
  return 0;
}

std::string state_hash(const std::vector<std::string>& digests) {
  std::string all;
  for (const std::string& digest : digests) all += digest;
  return "sha256:" + sha256_hex(all);
}

}  // namespace reprise
