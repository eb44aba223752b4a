#include "runtime/train/verification.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace reprise {

namespace {

/// What is not compared would pass.
Status check_complete(const Manifest& manifest, const Reference& reference,
                      size_t losses) {
  if (reference.loss.size() < losses) {
    return fail(ErrorKind::kInvalid, "{}: it holds {} losses, expected {}",
                manifest.reference_file, reference.loss.size(), losses);
  }
  for (const ManifestParameter& parameter : manifest.parameters) {
    if (parameter.role != ParameterRole::kState) continue;
    const bool held =
        std::any_of(reference.state.begin(), reference.state.end(),
                    [&](const ReferenceTensor& tensor) {
                      return tensor.index == parameter.index;
                    });
    if (held) continue;
    return fail(ErrorKind::kInvalid, "{}: it holds no '{}'",
                manifest.reference_file, parameter.name);
  }
  return {};
}

}  // namespace

bool Verification::passed() const {
  return loss_passed() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorCheck& check) { return check.passed; });
}

const TensorCheck* Verification::worst() const {
  // NaN counts as the worst.
  const auto less = [](const TensorCheck& a, const TensorCheck& b) {
    if (std::isnan(a.relative_error)) return false;
    return std::isnan(b.relative_error) || a.relative_error < b.relative_error;
  };
  const auto found = std::max_element(tensors.begin(), tensors.end(), less);
  return found == tensors.end() ? nullptr : &*found;
}

double verification_limit(const Manifest& manifest) {
  std::set<std::string> names;
  for (const ManifestParameter& parameter : manifest.parameters)
    names.insert(parameter.name);
  for (const std::string& name : names) {
    if (names.contains("m." + name) && names.contains("v." + name)) return 1e-3;
  }
  return 1e-4;
}

Result<Verification> verify(const Manifest& manifest, const TrainingRun& run,
                            const std::vector<double>& losses) {
  if (manifest.reference_file.empty()) {
    return fail(ErrorKind::kInvalid, "{}: the manifest names no reference",
                manifest.name);
  }
  const Result<Reference> reference = load_reference(manifest);
  if (!reference) return pass(reference.error());
  if (!losses.empty() &&
      reference->steps != static_cast<int64_t>(losses.size())) {
    return fail(ErrorKind::kInvalid,
                "{}: the reference took {} steps, this run {}; use --steps {}",
                manifest.reference_file, reference->steps, losses.size(),
                reference->steps);
  }
  const Status complete = check_complete(manifest, *reference, losses.size());
  if (!complete) return pass(complete.error());
  Verification result;
  result.limit = verification_limit(manifest);
  for (size_t i = 0; i < losses.size(); ++i) {
    const double expected = reference->loss[i];
    const double error = std::abs(losses[i] - expected) / std::abs(expected);
    if (std::isnan(error) || error > result.worst_loss)
      result.worst_loss = error;
    if (std::isnan(error)) break;
  }
  for (const ReferenceTensor& tensor : reference->state) {
    const auto parameter = std::find_if(
        manifest.parameters.begin(), manifest.parameters.end(),
        [&](const ManifestParameter& p) { return p.index == tensor.index; });
    if (parameter == manifest.parameters.end()) {
      return fail(ErrorKind::kInvalid, "{}: no parameter {} in the manifest",
                  manifest.reference_file, tensor.index);
    }
    const Result<std::vector<float>> final = run.state(tensor.index);
    if (!final) return pass(final.error(), tensor.name);
    const std::vector<float> initial = run.initial_state(*parameter);
    const Result<double> error =
        relative_error_of_change(tensor, initial, *final);
    if (!error) return pass(error.error(), tensor.name);
    result.tensors.push_back({.name = tensor.name,
                              .parameter = tensor.index,
                              .relative_error = *error,
                              .passed = *error <= result.limit});
  }
  return result;
}

}  // namespace reprise
