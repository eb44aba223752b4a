// What a compiler dump tells of a training step without its script: an output
// that aliases a parameter is that parameter's next value, so aliased
// parameters are state and the rest are data; the floating scalar among the
// other outputs is the loss; replica groups count the ranks.
#include "data/manifest/infer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr uint64_t kFirstSeed = 1000;
constexpr const char* kPlaceholder = "FILL_IN";

/// JSON text; bytes that are no UTF-8 (names of a strange dump) are replaced.
std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

bool is_floating(PrimitiveType type) {
  const std::string_view name = primitive_type_name(type);
  return name.starts_with('f') || name.starts_with("bf");
}

/// The source's name of a parameter, `op_name="params['w']"`, or the
/// instruction's.
std::string parameter_name(const Instruction& parameter) {
  const Attribute* metadata = parameter.find_attribute("metadata");
  const auto* raw =
      metadata == nullptr ? nullptr : std::get_if<RawText>(&metadata->value);
  if (raw == nullptr) return parameter.name;
  constexpr std::string_view kKey = "op_name=\"";
  const size_t begin = raw->text.find(kKey);
  if (begin == std::string::npos) return parameter.name;
  std::string name;
  for (size_t i = begin + kKey.size(); i < raw->text.size(); ++i) {
    if (raw->text[i] == '"') break;
    if (raw->text[i] == '\\' && i + 1 < raw->text.size()) ++i;
    name.push_back(raw->text[i]);
  }
  return name.empty() || name.starts_with("xla__") ? parameter.name : name;
}

/// A count of the header, `replica_count=8`; 1 when it has none.
int64_t header_count(const Module& module, std::string_view name) {
  constexpr int64_t kMost = int64_t{1} << 20;
  int64_t count = 1;
  for (const Attribute& attribute : module.attributes) {
    const auto* raw = std::get_if<RawText>(&attribute.value);
    if (attribute.name != name || raw == nullptr) continue;
    std::from_chars(raw->text.data(), raw->text.data() + raw->text.size(),
                    count);
  }
  return std::clamp<int64_t>(count, 1, kMost);
}

/// The most participants of any collective; `{}` means all of the header.
int64_t ranks_of(const Module& module) {
  const int64_t all = header_count(module, "replica_count") *
                      header_count(module, "num_partitions");
  size_t ranks = 1;
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      if (!is_collective(wrapped_opcode(instruction))) continue;
      const auto groups = replica_groups(instruction, all);
      if (!groups) continue;
      for (const std::vector<int64_t>& group : *groups)
        ranks = std::max(ranks, group.size());
    }
  }
  return static_cast<int64_t>(ranks);
}

/// `[output]` -> the parameter whose next value it is, or -1.
std::vector<int64_t> parameters_of_outputs(
    const Module& module, const std::vector<Shape>& outputs,
    const std::vector<const Instruction*>& parameters) {
  std::vector<int64_t> next(outputs.size(), -1);
  for (const InputOutputAlias& alias : module.aliases) {
    const bool flat =
        alias.output_index.size() <= 1 && alias.parameter_index.empty();
    const auto output = static_cast<size_t>(
        alias.output_index.empty() ? 0 : alias.output_index[0]);
    if (flat && output < next.size()) next[output] = alias.parameter;
  }
  if (!module.aliases.empty()) return next;
  for (size_t i = 0; i < outputs.size() && i < parameters.size(); ++i) {
    if (shape_text(outputs[i], false) !=
        shape_text(parameters[i]->shape, false))
      break;
    next[i] = static_cast<int64_t>(i);
  }
  return next;
}

void infer_initial_value(const Shape& shape, ManifestParameter* parameter) {
  parameter->init = InitKind::kZeros;
  if (!is_floating(shape.type) || shape.dimensions.size() < 2) return;
  const int64_t columns = std::max<int64_t>(shape.dimensions.back(), 1);
  const double fan_in =
      static_cast<double>(std::max<int64_t>(element_count(shape) / columns, 1));
  parameter->init = InitKind::kUniform;
  parameter->seed = kFirstSeed + static_cast<uint64_t>(parameter->index);
  parameter->scale = std::round(1e6 / std::sqrt(fan_in)) / 1e6;
}

/// One field a batch parameter, a row of it in each record, one byte a value.
void add_field(const Shape& shape, const std::string& name, Dataset* dataset) {
  const int64_t rows =
      shape.dimensions.empty() ? 1 : std::max<int64_t>(shape.dimensions[0], 1);
  DatasetField field;
  field.name = name;
  field.offset = dataset->record_bytes;
  field.count = element_count(shape) / rows;
  dataset->record_bytes += field.count;
  dataset->fields.push_back(field);
}

void infer_parameters(const std::vector<const Instruction*>& parameters,
                      const std::vector<int64_t>& next, Manifest* manifest) {
  Dataset dataset;
  dataset.file = kPlaceholder;
  for (const Instruction* instruction : parameters) {
    ManifestParameter parameter;
    parameter.index = instruction->parameter_number;
    parameter.name = parameter_name(*instruction);
    if (std::find(next.begin(), next.end(), parameter.index) != next.end()) {
      infer_initial_value(instruction->shape, &parameter);
    } else {
      parameter.role = ParameterRole::kBatch;
      parameter.field = parameter.name;
      add_field(instruction->shape, parameter.name, &dataset);
    }
    manifest->parameters.push_back(std::move(parameter));
  }
  if (!dataset.fields.empty()) manifest->dataset = std::move(dataset);
}

void infer_outputs(const std::vector<Shape>& outputs,
                   const std::vector<int64_t>& next, Manifest* manifest) {
  bool has_loss = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ManifestOutput output;
    output.index = static_cast<int64_t>(i);
    if (next[i] >= 0) {
      output.role = OutputRole::kState;
      output.parameter = next[i];
    } else if (!has_loss && outputs[i].dimensions.empty() &&
               is_floating(outputs[i].type)) {
      output.role = OutputRole::kLoss;
      has_loss = true;
    }
    manifest->outputs.push_back(output);
  }
}

OrderedJson initial_value_json(const ManifestParameter& parameter) {
  switch (parameter.init) {
    case InitKind::kUniform:
      return {{"kind", "uniform"},
              {"seed", parameter.seed},
              {"scale", parameter.scale}};
    case InitKind::kOnes:
      return {{"kind", "ones"}};
    case InitKind::kConstant:
      return {{"kind", "constant"}, {"value", parameter.value}};
    case InitKind::kZeros:
      break;
  }
  return {{"kind", "zeros"}};
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
    case OutputRole::kOther:
      json["role"] = "other";
      break;
  }
  return json;
}

OrderedJson dataset_json(const Dataset& dataset) {
  OrderedJson json = {{"kind", dataset.is_text ? "text" : "records"},
                      {"file", dataset.file}};
  if (dataset.is_text) {
    json["sequence"] = dataset.sequence;
  } else {
    json["record_bytes"] = dataset.record_bytes;
  }
  json["seed"] = dataset.seed;
  json["fields"] = OrderedJson::array();
  for (const DatasetField& field : dataset.fields) {
    OrderedJson item = {{"name", field.name}};
    if (dataset.is_text) {
      item["shift"] = field.shift;
    } else {
      item["offset"] = field.offset;
      item["count"] = field.count;
      item["type"] = "u8";
      item["scale"] = field.scale;
    }
    json["fields"].push_back(std::move(item));
  }
  return json;
}

}  // namespace

Manifest infer_manifest(const Module& module, const std::string& program) {
  const Computation& entry = module.entry_computation();
  const std::vector<const Instruction*> parameters = parameters_of(entry);
  const Shape& root = entry.at(entry.root).shape;
  const std::vector<Shape> outputs =
      root.is_tuple() ? root.elements : std::vector<Shape>{root};
  const std::vector<int64_t> next =
      parameters_of_outputs(module, outputs, parameters);
  Manifest manifest;
  manifest.name = module.name;
  manifest.program = program;
  manifest.ranks = ranks_of(module);
  infer_parameters(parameters, next, &manifest);
  infer_outputs(outputs, next, &manifest);
  return manifest;
}

std::string manifest_text(const Manifest& manifest) {
  const auto list = [](const auto& items, auto to_json) {
    std::string out;
    for (const auto& item : items) {
      out += (out.empty() ? "\n  " : ",\n  ") + dump(to_json(item));
    }
    return "[" + out + "]";
  };
  const auto text = [](const std::string& value) {
    return dump(OrderedJson(value));
  };
  std::string out =
      "{\"schema\": \"reprise.manifest/1\",\n \"name\": " +
      text(manifest.name) + ",\n \"program\": " + text(manifest.program) +
      ",\n \"ranks\": " + std::to_string(manifest.ranks) +
      ",\n \"parameters\": " + list(manifest.parameters, parameter_json) +
      ",\n \"outputs\": " + list(manifest.outputs, output_json);
  if (manifest.dataset)
    out += ",\n \"dataset\": " + dump(dataset_json(*manifest.dataset));
  if (!manifest.reference_file.empty()) {
    const OrderedJson reference = {{"file", manifest.reference_file},
                                   {"steps", manifest.reference_steps}};
    out += ",\n \"reference\": " + dump(reference);
  }
  return out + "}\n";
}

}  // namespace reprise
