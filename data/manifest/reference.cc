#include "data/manifest/reference.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/file.h"
#include "data/io/json_tree.h"
#include "data/manifest/initial_values.h"

namespace reprise {
namespace {

constexpr uint64_t kSketchBuckets = 64;
constexpr uint64_t kSketchSalt = 0x5EED;

std::vector<double> sketch(int64_t index, std::span<const double> change) {
  std::vector<double> buckets(kSketchBuckets);
  const uint64_t key = splitmix64(static_cast<uint64_t>(index) + kSketchSalt);
  for (size_t i = 0; i < change.size(); ++i) {
    const uint64_t hash = splitmix64(key + i);
    buckets[hash % kSketchBuckets] +=
        (hash >> 63) != 0 ? -change[i] : change[i];
  }
  return buckets;
}

ReferenceTensor tensor_from(const nlohmann::json& json) {
  ReferenceTensor tensor;
  tensor.index = json.at("index");
  tensor.name = json.at("name");
  tensor.norm_of_change = json.at("norm_of_change");
  tensor.exact = json.contains("exact");
  tensor.values =
      json.at(tensor.exact ? "exact" : "sketch").get<std::vector<double>>();
  return tensor;
}

}  // namespace

Result<Reference> load_reference(const Manifest& manifest) {
  const Result<DataFile> file =
      find_data_file(manifest.reference_file, manifest.folders);
  if (!file) return pass(file.error());
  const std::string& path = file->path;
  const Result<std::string> text = read_text_file(path);
  if (!text) return pass(text.error());
  const Result<nlohmann::json> tree = parse_json(*text, path);
  if (!tree) return pass(tree.error());
  try {
    const nlohmann::json& json = *tree;
    Reference reference;
    reference.steps = json.at("steps");
    reference.loss = json.at("loss").get<std::vector<double>>();
    for (const auto& item : json.at("state"))
      reference.state.push_back(tensor_from(item));
    return reference;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::kInvalid, "{}: {}", path, json_complaint(error));
  }
}

Result<double> relative_error_of_change(const ReferenceTensor& reference,
                                        std::span<const float> initial,
                                        std::span<const float> final) {
  std::vector<double> change(final.size());
  for (size_t i = 0; i < final.size(); ++i) {
    change[i] = static_cast<double>(final[i]) - static_cast<double>(initial[i]);
  }
  const std::vector<double> ours =
      reference.exact ? change : sketch(reference.index, change);
  if (ours.size() != reference.values.size()) {
    return fail(ErrorKind::kInvalid,
                "{}: the reference holds {} values, expected {}",
                reference.name, reference.values.size(), ours.size());
  }
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    error += (ours[i] - reference.values[i]) * (ours[i] - reference.values[i]);
    norm += reference.values[i] * reference.values[i];
  }
  // NaN anywhere stays NaN and fails every threshold comparison written as
  // !(error <= limit).
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

}  // namespace reprise
