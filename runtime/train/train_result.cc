#include "runtime/train/train_result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

Json step_times(const std::vector<int64_t>& all) {
  std::vector<int64_t> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  Json json;
  if (n == 0) return json;
  json["median"] = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  json["min"] = sorted.front();
  json["p90"] = sorted[(9 * n + 9) / 10 - 1];
  json["all"] = all;
  return json;
}

Json verification_json(const Verification& verification) {
  Json json;
  json["passed"] = verification.passed();
  json["limit"] = verification.limit;
  json["worst_loss_error"] = verification.worst_loss;
  if (const TensorCheck* worst = verification.worst()) {
    json["worst_tensor"] = worst->name;
    json["worst_error"] = worst->relative_error;
  }
  json["tensors"] = Json::array();
  for (const TensorCheck& check : verification.tensors) {
    json["tensors"].push_back({{"name", check.name},
                               {"parameter", check.parameter},
                               {"relative_error", check.relative_error},
                               {"passed", check.passed}});
  }
  return json;
}

}  // namespace

std::string print_train_result(const TrainResult& result,
                               const TrainSubject& subject) {
  Json json;
  json["schema"] = "reprise.train/1";
  json["program"] = subject.program;
  json["program_fingerprint"] = subject.fingerprint;
  json["ranks"] = result.ranks;
  json["device"] = subject.device;
  for (const auto& [key, value] : result.device_facts) json[key] = value;
  json["plan"] = subject.plan;
  json["solo"] = result.solo;
  json["steps"] = result.steps;
  json["warmup"] = result.warmup;
  json["step_time_ns"] = step_times(result.step_ns);
  if (!result.device_step_ns.empty())
    json["device_step_time_ns"] = step_times(result.device_step_ns);
  json["loss"] = result.loss;
  if (!result.accuracy.empty()) json["accuracy"] = result.accuracy;
  json["state_hash"] = result.state_hash;
  if (result.verification)
    json["verification"] = verification_json(*result.verification);
  return json_text(json, 1) + "\n";
}

}  // namespace reprise
