#include "runtime/train/training_run.h"

#include <cstring>

#include "data/element.h"
#include "data/hlo/declared_type.h"
#include "data/narrow_type.h"
#include "data/sha256.h"

namespace reprise {
namespace {

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<float> as_floats(PrimitiveType type,
                             std::span<const std::byte> bytes) {
  const size_t size = stored_bytes(type);
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(load_element(type, &bytes[i * size]));
  return values;
}

}  // namespace

Result<std::unique_ptr<TrainingRun>> TrainingRun::create(
    const TrainingProgram& program, std::unique_ptr<StepExecutor> executor,
    Recorder* recorder, int64_t rank) {
  std::unique_ptr<TrainingRun> run(new TrainingRun(program, recorder, rank));
  run->executor_ = std::move(executor);
  run->parameters_ = parameters_of(program.module.entry_computation());
  for (const Instruction* parameter : run->parameters_)
    run->elements_.push_back(declared_elements(*parameter));
  run->batch_bytes_.resize(run->parameters_.size());
  run->executor_->set_meanwhile(
      [raw = run.get()] { raw->prepare_batch(raw->step_ + 1); });
  if (program.manifest.dataset) {
    Result<BatchSource> source =
        BatchSource::open(*program.manifest.dataset, program.manifest.ranks,
                          program.manifest.folders);
    if (!source) return pass(source.error());
    run->source_ = std::move(*source);
  }
  for (const ManifestParameter& parameter : program.manifest.parameters) {
    if (parameter.role != ParameterRole::kBatch) continue;
    if (!run->source_) {
      return fail(ErrorKind::kInvalid, "'{}' is a batch without a dataset",
                  parameter.name);
    }
    const Status fits =
        run->source_->check(parameter.field, run->elements_of(parameter.index));
    if (!fits) return pass(fits.error());
  }
  Result<InitialState> initial = InitialState::open(
      program.manifest, program.module.entry_computation(), program.state_path);
  if (!initial) return pass(initial.error());
  run->initial_ = *std::move(initial);
  const Status filled = run->fill_state();
  if (!filled) return pass(filled.error());
  return run;
}

Status TrainingRun::fill_state() {
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    initial_.fill(parameter, elements_of(parameter.index), rank_,
                  executor_->edit_parameter(parameter.index));
    const Status written = executor_->commit_parameter(parameter.index);
    if (!written) return pass(written.error(), parameter.name);
  }
  return {};
}

void TrainingRun::fill_batch(const ManifestParameter& parameter, int32_t step,
                             std::span<std::byte> to) {
  source_->fill(parameter.field, elements_of(parameter.index),
                static_cast<uint64_t>(initial_.steps() + step),
                static_cast<uint64_t>(rank_), to);
}

// Beside a device that runs the step before. Not straight into the executor's
// memory: the device may still be reading it.
void TrainingRun::prepare_batch(int32_t step) {
  prepared_.resize(parameters_.size());
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kBatch) continue;
    const auto number = static_cast<size_t>(parameter.index);
    prepared_[number].resize(batch_bytes_[number]);
    fill_batch(parameter, step, prepared_[number]);
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
      fill_batch(parameter, step, to);
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
    // Later steps would be trained for a recording that is lost.
    if (Status flushed = recorder_->flush(); !flushed)
      return pass(flushed.error());
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
  const Shape root = declared_elements(entry.at(entry.root));
  const Shape& shape =
      root.is_tuple() ? root.elements[static_cast<size_t>(output)] : root;
  if (!shape.is_array() || element_count(shape) != 1 ||
      !has_plain_elements(stored_type(shape.type))) {
    return fail(ErrorKind::kUnsupported,
                "output {} is {}: a loss or count is one number", output,
                shape_text(shape, false));
  }
  return load_element(shape.type, bytes->data());
}

Result<std::vector<float>> TrainingRun::state(int64_t parameter) const {
  const Result<std::span<const std::byte>> bytes =
      executor_->read_parameter(parameter);
  if (!bytes) return pass(bytes.error());
  return as_floats(elements_of(parameter).type, *bytes);
}

std::vector<float> TrainingRun::initial_state(
    const ManifestParameter& parameter) const {
  const Shape& shape = elements_of(parameter.index);
  std::vector<std::byte> bytes(
      static_cast<size_t>(byte_size(shape_of(parameter.index))));
  initial_.fill(parameter, shape, rank_, bytes);
  return as_floats(shape.type, bytes);
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

uint64_t TrainingRun::state_size() const {
  uint64_t bytes = 0;
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role == ParameterRole::kState)
      bytes += static_cast<uint64_t>(byte_size(shape_of(parameter.index)));
  }
  return bytes;
}

Result<std::map<int64_t, std::string>> TrainingRun::state_bytes() const {
  std::map<int64_t, std::string> all;
  for (const ManifestParameter& parameter : program_.manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    const Result<std::span<const std::byte>> bytes =
        executor_->read_parameter(parameter.index);
    if (!bytes) return pass(bytes.error(), parameter.name);
    all[parameter.index] = characters(*bytes);
  }
  return all;
}

Status TrainingRun::restore(const std::map<int64_t, std::string>& state) {
  for (const auto& [parameter, bytes] : state) {
    const std::span<std::byte> to = executor_->edit_parameter(parameter);
    REPRISE_CHECK(to.size() == bytes.size());
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
    const Status written = executor_->commit_parameter(parameter);
    if (!written) return written;
  }
  prepared_step_ = -1;
  return {};
}

Result<NonFinite> TrainingRun::find_non_finite(int32_t step) {
  const Status fed = feed(step);
  if (!fed) return pass(fed.error());
  return executor_->find_non_finite(step);
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
