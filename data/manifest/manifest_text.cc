// A manifest as JSON, a line for each parameter and output.
#include <nlohmann/json.hpp>

#include "data/io/json_tree.h"
#include "data/manifest/infer.h"

namespace reprise {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson initial_value_json(const ManifestParameter& parameter) {
  OrderedJson json;
  switch (parameter.init) {
    case InitKind::kUniform:
      json = {{"kind", "uniform"},
              {"seed", parameter.seed},
              {"scale", parameter.scale}};
      break;
    case InitKind::kOnes:
      json = {{"kind", "ones"}};
      break;
    case InitKind::kConstant:
      json = {{"kind", "constant"}, {"value", parameter.value}};
      break;
    case InitKind::kTensor:
      json = {{"kind", "tensor"},
              {"file", parameter.file},
              {"name", parameter.tensor}};
      break;
    case InitKind::kZeros:
      json = {{"kind", "zeros"}};
  }
  if (parameter.per_rank) json["per_rank"] = true;
  return json;
}

OrderedJson parameter_json(const ManifestParameter& parameter) {
  OrderedJson json = {{"index", parameter.index}, {"name", parameter.name}};
  if (parameter.role == ParameterRole::kBatch) {
    json["role"] = "batch";
    json["field"] = parameter.field;
  } else {
    json["role"] = "state";
    json["init"] = initial_value_json(parameter);
  }
  return json;
}

OrderedJson output_json(const ManifestOutput& output) {
  OrderedJson json = {{"index", output.index}};
  switch (output.role) {
    case OutputRole::kState:
      json["role"] = "state";
      json["parameter"] = output.parameter;
      break;
    case OutputRole::kLoss:
      json["role"] = "loss";
      break;
    case OutputRole::kCorrect:
      json["role"] = "correct";
      break;
    case OutputRole::kMetric:
      json["role"] = "metric";
      json["name"] = output.name;
      break;
    case OutputRole::kOther:
      json["role"] = "other";
      break;
  }
  return json;
}

OrderedJson field_json(const DatasetField& field, DatasetKind kind) {
  OrderedJson json = {{"name", field.name}};
  switch (kind) {
    case DatasetKind::kText:
      json["shift"] = field.shift;
      break;
    case DatasetKind::kTensors:
      json["tensor"] = field.tensor;
      if (field.steps > 0) json["steps"] = field.steps;
      break;
    case DatasetKind::kRecords:
      json["offset"] = field.offset;
      json["count"] = field.count;
      json["type"] = primitive_type_name(field.type);
      json["scale"] = field.scale;
  }
  return json;
}

OrderedJson dataset_json(const Dataset& dataset) {
  OrderedJson json;
  switch (dataset.kind) {
    case DatasetKind::kText:
      json = {{"kind", "text"},
              {"file", dataset.file},
              {"sequence", dataset.sequence},
              {"seed", dataset.seed}};
      break;
    case DatasetKind::kTensors:
      json = {{"kind", "tensors"},
              {"file", dataset.file},
              {"steps", dataset.steps}};
      break;
    case DatasetKind::kRecords:
      json = {{"kind", "records"},
              {"file", dataset.file},
              {"record_bytes", dataset.record_bytes},
              {"seed", dataset.seed}};
  }
  json["fields"] = OrderedJson::array();
  for (const DatasetField& field : dataset.fields)
    json["fields"].push_back(field_json(field, dataset.kind));
  return json;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  const auto list = [](const auto& items, auto to_json) {
    std::string out;
    for (const auto& item : items) {
      out += (out.empty() ? "\n  " : ",\n  ") + json_text(to_json(item));
    }
    return "[" + out + "]";
  };
  const auto text = [](const std::string& value) {
    return json_text(OrderedJson(value));
  };
  std::string out =
      "{\"schema\": \"reprise.manifest/1\",\n \"name\": " +
      text(manifest.name) + ",\n \"program\": " + text(manifest.program) +
      ",\n \"ranks\": " + std::to_string(manifest.ranks) +
      ",\n \"parameters\": " + list(manifest.parameters, parameter_json) +
      ",\n \"outputs\": " + list(manifest.outputs, output_json);
  if (manifest.dataset)
    out += ",\n \"dataset\": " + json_text(dataset_json(*manifest.dataset));
  if (!manifest.reference_file.empty()) {
    const OrderedJson reference = {{"file", manifest.reference_file},
                                   {"steps", manifest.reference_steps}};
    out += ",\n \"reference\": " + json_text(reference);
  }
  return out + "}\n";
}

}  // namespace reprise
