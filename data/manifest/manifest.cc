#include "data/manifest/manifest.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "data/element.h"
#include "data/file.h"
#include "data/hlo/declared_type.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::json;

// nlohmann's checked accessors throw; everything below runs inside one try.

/// json.at() alone would cut 1.5 to 1 and wrap what does not fit.
template <typename Integer = int64_t>
Integer count_of(const Json& json, const char* key) {
  const Json& value = json.at(key);
  if (value.is_number_unsigned() &&
      std::in_range<Integer>(value.get<uint64_t>()))
    return value.get<Integer>();
  throw std::invalid_argument(
      fmt::format("'{}' is {}, expected a whole number from 0 to {}", key,
                  value.is_number() ? json_text(value) : value.type_name(),
                  std::numeric_limits<Integer>::max()));
}

template <typename Integer = int64_t>
Integer count_or_zero(const Json& json, const char* key) {
  return json.contains(key) ? count_of<Integer>(json, key) : 0;
}

ManifestParameter parameter_from(const Json& json) {
  ManifestParameter parameter;
  parameter.index = count_of(json, "index");
  parameter.name = json.at("name");
  const std::string role = json.at("role");
  if (role == "batch") {
    parameter.role = ParameterRole::kBatch;
    parameter.field = json.at("field");
    return parameter;
  }
  if (role != "state")
    throw std::invalid_argument("role '" + role +
                                "' is neither state nor batch");
  const Json& init = json.at("init");
  const std::string kind = init.at("kind");
  parameter.per_rank = init.value("per_rank", false);
  if (kind == "uniform") {
    parameter.init = InitKind::kUniform;
    parameter.seed = count_of<uint64_t>(init, "seed");
    parameter.scale = init.at("scale");
  } else if (kind == "zeros") {
    parameter.init = InitKind::kZeros;
  } else if (kind == "ones") {
    parameter.init = InitKind::kOnes;
  } else if (kind == "constant") {
    parameter.init = InitKind::kConstant;
    parameter.value = init.at("value");
  } else if (kind == "tensor") {
    parameter.init = InitKind::kTensor;
    parameter.file = init.at("file");
    parameter.tensor = init.at("name");
  } else {
    throw std::invalid_argument(
        "init kind '" + kind +
        "' is not uniform, zeros, ones, constant or tensor (of a file)");
  }
  return parameter;
}

/// What nlohmann-json objects to, with the place it is about.
template <typename Read>
auto within(const std::string& place, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(place + ": " + json_complaint(error));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(place + ": " + error.what());
  }
}

std::string place_of(const char* list, size_t at, const Json& json) {
  std::string place = fmt::format("{}[{}]", list, at);
  if (json.is_object() && json.contains("name") && json["name"].is_string())
    place += " ('" + json["name"].get<std::string>() + "')";
  return place;
}

ManifestOutput output_from(const Json& json) {
  ManifestOutput output;
  output.index = count_of(json, "index");
  const std::string role = json.at("role");
  if (role == "state") {
    output.role = OutputRole::kState;
    output.parameter = count_of(json, "parameter");
  } else if (role == "loss") {
    output.role = OutputRole::kLoss;
  } else if (role == "correct") {
    output.role = OutputRole::kCorrect;
  } else if (role == "metric") {
    output.role = OutputRole::kMetric;
    output.name = json.value("name", std::string());
  }
  return output;
}

/// Of a record's values: "u8", "f32" and so on; numpy's "i32" is s32.
PrimitiveType value_type(std::string name) {
  if (name.starts_with('i')) name[0] = 's';
  const auto type = primitive_type_from_name(name);
  if (!type || !has_plain_elements(*type)) {
    throw std::invalid_argument("type '" + name +
                                "' is no u8, s32, f32 or like type of numbers");
  }
  return *type;
}

DatasetField field_from(const Json& json) {
  DatasetField field;
  field.name = json.at("name");
  field.offset = count_or_zero(json, "offset");
  field.count = count_or_zero(json, "count");
  field.scale = json.value("scale", 1.0);
  field.shift = count_or_zero(json, "shift");
  field.type = value_type(json.value("type", std::string("u8")));
  field.tensor = json.value("tensor", field.name);
  field.steps = count_or_zero(json, "steps");
  return field;
}

Dataset dataset_from(const Json& json) {
  Dataset dataset;
  const std::string kind = json.at("kind");
  if (kind == "text") {
    dataset.kind = DatasetKind::kText;
  } else if (kind == "tensors") {
    dataset.kind = DatasetKind::kTensors;
    dataset.steps = count_of(json, "steps");
  } else if (kind != "records") {
    throw std::invalid_argument("dataset kind '" + kind +
                                "' is not records, text or tensors");
  }
  dataset.file = json.at("file");
  dataset.record_bytes = count_or_zero(json, "record_bytes");
  dataset.sequence = count_or_zero(json, "sequence");
  dataset.seed = count_or_zero<uint64_t>(json, "seed");
  const Json& fields = json.at("fields");
  for (size_t i = 0; i < fields.size(); ++i) {
    dataset.fields.push_back(within(place_of("fields", i, fields[i]),
                                    [&] { return field_from(fields[i]); }));
  }
  return dataset;
}

Manifest manifest_from(const Json& json) {
  const std::string schema = json.at("schema");
  if (schema != "reprise.manifest/1") {
    throw std::invalid_argument("schema is '" + schema +
                                "', expected 'reprise.manifest/1'");
  }
  Manifest manifest;
  manifest.name = json.at("name");
  manifest.program = json.at("program");
  manifest.ranks = count_of(json, "ranks");
  const Json& parameters = json.at("parameters");
  for (size_t i = 0; i < parameters.size(); ++i) {
    manifest.parameters.push_back(
        within(place_of("parameters", i, parameters[i]),
               [&] { return parameter_from(parameters[i]); }));
  }
  const Json& outputs = json.at("outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    manifest.outputs.push_back(within(place_of("outputs", i, outputs[i]),
                                      [&] { return output_from(outputs[i]); }));
  }
  if (json.contains("dataset") && !json["dataset"].is_null()) {
    manifest.dataset =
        within("dataset", [&] { return dataset_from(json["dataset"]); });
  }
  if (json.contains("reference") && !json["reference"].is_null()) {
    manifest.reference_file = json["reference"].at("file");
    manifest.reference_steps = count_of(json["reference"], "steps");
  }
  return manifest;
}

Status validate_output(const ManifestOutput& output, const Manifest& manifest,
                       const std::vector<Shape>& parameters,
                       const std::vector<Shape>& outputs) {
  const int64_t count = static_cast<int64_t>(outputs.size());
  if (output.index < 0 || output.index >= count) {
    return fail(ErrorKind::kInvalid,
                "manifest of {}: output {} does not exist, the program has {}",
                manifest.name, output.index, count);
  }
  if (output.role != OutputRole::kState) return {};
  if (output.parameter < 0 ||
      output.parameter >= static_cast<int64_t>(parameters.size())) {
    return fail(
        ErrorKind::kInvalid,
        "manifest of {}: output {} names parameter {}, which does not exist",
        manifest.name, output.index, output.parameter);
  }
  const Shape& result = outputs[static_cast<size_t>(output.index)];
  const Shape& parameter = parameters[static_cast<size_t>(output.parameter)];
  if (shape_text(result, false) != shape_text(parameter, false)) {
    return fail(ErrorKind::kInvalid,
                "manifest of {}: output {} is {}, its parameter {} is {}",
                manifest.name, output.index, shape_text(result, false),
                output.parameter, shape_text(parameter, false));
  }
  return {};
}

std::vector<Shape> parameter_shapes(const Computation& entry) {
  std::vector<Shape> shapes;
  for (const Instruction& instruction : entry.instructions) {
    if (instruction.opcode != Opcode::kParameter) continue;
    const size_t number = static_cast<size_t>(instruction.parameter_number);
    if (number >= shapes.size()) shapes.resize(number + 1);
    shapes[number] = declared_elements(instruction);
  }
  return shapes;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view json,
                                const std::string& file) {
  const Result<Json> tree = parse_json(json, file);
  if (!tree) return pass(tree.error());
  try {
    return manifest_from(*tree);
  } catch (const Json::exception& error) {
    return fail(ErrorKind::kInvalid, "{}: {}", file, json_complaint(error));
  } catch (const std::invalid_argument& error) {
    return fail(ErrorKind::kInvalid, "{}: {}", file, error.what());
  }
}

Result<Manifest> load_manifest_for(const std::string& hlo_path) {
  const std::filesystem::path path =
      std::filesystem::path(hlo_path).replace_extension(".json");
  const Result<std::string> text = read_text_file(path.string());
  if (!text) {
    return pass(text.error(),
                "the manifest of " + hlo_path +
                    " (reprise hlo --manifest writes a skeleton)");
  }
  Result<Manifest> manifest = parse_manifest(*text, path.string());
  if (manifest) {
    manifest->folders.program =
        std::filesystem::absolute(path).parent_path().string();
  }
  return manifest;
}

Result<DataFile> find_data_file(const std::string& name,
                                const DataFolders& folders) {
  namespace fs = std::filesystem;
  Error missing{ErrorKind::kIo, name + ": no folder may hold it"};
  for (const std::string& base : {folders.data, folders.program}) {
    if (base.empty()) continue;
    const fs::path named = fs::path(base) / name;  // `name` where absolute.
    std::error_code error;
    const fs::path path = fs::canonical(named, error);
    if (error) {
      missing.message = named.string() + ": " + error.message();
      continue;
    }
    for (const std::string& folder : {folders.data, folders.program}) {
      if (folder.empty()) continue;
      const fs::path root = fs::canonical(folder, error);
      const auto [end, ignored] =
          std::mismatch(root.begin(), root.end(), path.begin(), path.end());
      if (!error && end == root.end()) return DataFile{path.string(), folder};
    }
    return fail(ErrorKind::kInvalid,
                "{}: lies outside of the program's folder; --data DIR names "
                "the folder of its data",
                named.string());
  }
  return tl::unexpected(missing);
}

Status validate_manifest(const Manifest& manifest, const Module& module) {
  const Computation& entry = module.entry_computation();
  const std::vector<Shape> parameters = parameter_shapes(entry);
  const Shape root = declared_elements(entry.at(entry.root));
  const std::vector<Shape> outputs =
      root.is_tuple() ? root.elements : std::vector<Shape>{root};
  std::set<int64_t> covered;
  for (const ManifestParameter& parameter : manifest.parameters) {
    if (parameter.index < 0 ||
        parameter.index >= static_cast<int64_t>(parameters.size())) {
      return fail(ErrorKind::kInvalid,
                  "manifest of {}: parameter {} ({}) does not exist, the "
                  "program has {}",
                  manifest.name, parameter.index, parameter.name,
                  parameters.size());
    }
    if (!covered.insert(parameter.index).second) {
      return fail(ErrorKind::kInvalid,
                  "manifest of {}: parameter {} ({}) stands twice",
                  manifest.name, parameter.index, parameter.name);
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (covered.count(static_cast<int64_t>(i)) == 0) {
      return fail(ErrorKind::kInvalid,
                  "manifest of {}: parameter {} of the program is missing",
                  manifest.name, i);
    }
  }
  for (const ManifestOutput& output : manifest.outputs) {
    Status checked = validate_output(output, manifest, parameters, outputs);
    if (!checked) return checked;
  }
  return {};
}

Status alias_state(const Manifest& manifest, Module* module) {
  const Computation& entry = module->entry_computation();
  const bool is_tuple = entry.at(entry.root).shape.is_tuple();
  for (const ManifestOutput& output : manifest.outputs) {
    if (output.role != OutputRole::kState) continue;
    bool known = false;
    for (const InputOutputAlias& alias : module->aliases) {
      const int64_t paired =
          alias.output_index.empty() ? 0 : alias.output_index[0];
      if ((paired == output.index) != (alias.parameter == output.parameter)) {
        return fail(ErrorKind::kInvalid,
                    "manifest of {}: output {} is the next value of parameter "
                    "{}, but input_output_alias pairs output {} with {}",
                    manifest.name, output.index, output.parameter, paired,
                    alias.parameter);
      }
      known = known || paired == output.index;
    }
    if (known) continue;
    InputOutputAlias& added = module->aliases.emplace_back();
    if (is_tuple) added.output_index = {output.index};
    added.parameter = output.parameter;
  }
  return {};
}

}  // namespace reprise
