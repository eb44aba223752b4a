#include "runtime/verification.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "data/manifest/initial_values.h"

namespace reprise {

bool Verification::passed() const {
  return std::all_of(tensors.begin(), tensors.end(),
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
  const Result<Reference> reference = load_reference(manifest.reference_file);
  if (!reference) return pass(reference.error());
  if (!losses.empty() &&
      reference->steps != static_cast<int64_t>(losses.size())) {
    return fail(ErrorKind::kInvalid,
                "{}: the reference took {} steps, this run {}; use --steps {}",
                manifest.reference_file, reference->steps, losses.size(),
                reference->steps);
  }
  Verification result;
  result.limit = verification_limit(manifest);
  for (size_t i = 0; i < losses.size() && i < reference->loss.size(); ++i) {
    const double expected = reference->loss[i];
    result.worst_loss = std::max(
        result.worst_loss, std::abs(losses[i] - expected) / std::abs(expected));
  }
  for (const ReferenceTensor& tensor : reference->state) {
    const auto parameter = std::find_if(
        manifest.parameters.begin(), manifest.parameters.end(),
        [&](const ManifestParameter& p) { return p.index == tensor.index; });
    if (parameter == manifest.parameters.end()) {
      return fail(ErrorKind::kInvalid, "{}: no parameter {} in the manifest",
                  manifest.reference_file, tensor.index);
    }
    const Result<std::span<const float>> final = run.state(tensor.index);
    if (!final) return pass(final.error(), tensor.name);
    std::vector<float> initial(final->size());
    fill_initial(*parameter, initial);
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
