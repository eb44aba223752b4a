// What a compiler dump tells of a training step without its script: an output
// that aliases a parameter is that parameter's next value, so aliased
// parameters are state and the rest are data; the floating scalar among the
// other outputs is the loss; replica groups, and the pairs of a permute, count
// the ranks.
#include "data/manifest/infer.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <string>

#include "data/element.h"
#include "data/hlo/declared_type.h"
#include "data/hlo/hlo.h"
#include "data/manifest/initial_values.h"

namespace reprise {
namespace {

constexpr const char* kPlaceholder = "FILL_IN";

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

/// Numbers of `buffer_donor={ (0, {}), (1, {}) }`: what a sharded step donates,
/// before the compiler has paired it with outputs.
std::vector<int64_t> donated_parameters(const Module& module) {
  std::vector<int64_t> donors;
  for (const Attribute& attribute : module.attributes) {
    const auto* raw = std::get_if<RawText>(&attribute.value);
    if (attribute.name != "buffer_donor" || raw == nullptr) continue;
    const std::string& text = raw->text;
    for (size_t at = text.find('('); at != std::string::npos;
         at = text.find('(', at + 1)) {
      int64_t number = 0;
      const auto read = std::from_chars(text.data() + at + 1,
                                        text.data() + text.size(), number);
      if (read.ec == std::errc()) donors.push_back(number);
    }
  }
  return donors;
}

/// As JAX pairs them: each output with the first donated parameter of its shape
/// that is left.
void pair_donors(const std::vector<int64_t>& donors,
                 const std::vector<Shape>& outputs,
                 const std::vector<const Instruction*>& parameters,
                 std::vector<int64_t>* next) {
  std::map<std::string, std::deque<int64_t>> left;
  for (const int64_t donor : donors) {
    const auto number = static_cast<size_t>(donor);
    if (donor < 0 || number >= parameters.size()) continue;
    left[shape_text(declared_elements(*parameters[number]), false)].push_back(
        donor);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::deque<int64_t>& same = left[shape_text(outputs[i], false)];
    if (same.empty()) continue;
    (*next)[i] = same.front();
    same.pop_front();
  }
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
  const std::vector<int64_t> donors = donated_parameters(module);
  if (!donors.empty()) {
    pair_donors(donors, outputs, parameters, &next);
    return next;
  }
  for (size_t i = 0; i < outputs.size() && i < parameters.size(); ++i) {
    if (shape_text(outputs[i], false) !=
        shape_text(declared_elements(*parameters[i]), false))
      break;
    next[i] = static_cast<int64_t>(i);
  }
  return next;
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

/// A batch parameter's name, with its number where another has that name too.
std::string field_name(const ManifestParameter& parameter,
                       const Dataset& dataset) {
  const auto same = [&](const DatasetField& field) {
    return field.name == parameter.name;
  };
  return std::none_of(dataset.fields.begin(), dataset.fields.end(), same)
             ? parameter.name
             : fmt::format("{}#{}", parameter.name, parameter.index);
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
      guess_initial_value(declared_elements(*instruction), &parameter);
    } else {
      parameter.role = ParameterRole::kBatch;
      parameter.field = field_name(parameter, dataset);
      add_field(instruction->shape, parameter.field, &dataset);
    }
    manifest->parameters.push_back(std::move(parameter));
  }
  if (!dataset.fields.empty()) manifest->dataset = std::move(dataset);
}

/// Which output is the loss: the first floating scalar that is no state, where
/// there is none the first array of one element, as jax.pmap returns; or -1.
int64_t loss_among(const std::vector<Shape>& outputs,
                   const std::vector<int64_t>& next) {
  const auto first = [&](const auto& fits) -> int64_t {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (next[i] < 0 && is_floating(outputs[i].type) && fits(outputs[i])) {
        return static_cast<int64_t>(i);
      }
    }
    return -1;
  };
  const int64_t scalar =
      first([](const Shape& shape) { return shape.dimensions.empty(); });
  if (scalar >= 0) return scalar;
  return first([](const Shape& shape) { return element_count(shape) == 1; });
}

void infer_outputs(const std::vector<Shape>& outputs,
                   const std::vector<int64_t>& next, Manifest* manifest) {
  const int64_t loss = loss_among(outputs, next);
  for (size_t i = 0; i < outputs.size(); ++i) {
    ManifestOutput output;
    output.index = static_cast<int64_t>(i);
    if (next[i] >= 0) {
      output.role = OutputRole::kState;
      output.parameter = next[i];
    } else if (output.index == loss) {
      output.role = OutputRole::kLoss;
    }
    manifest->outputs.push_back(output);
  }
}

}  // namespace

int64_t ranks_of(const Module& module) {
  const int64_t all = header_count(module, "replica_count") *
                      header_count(module, "num_partitions");
  size_t ranks = 1;
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      if (!is_collective(wrapped_opcode(instruction))) continue;
      const auto groups =
          wrapped_opcode(instruction) == Opcode::kCollectivePermute
              ? source_target_pairs(instruction)
              : replica_groups(instruction, all);
      if (!groups) continue;
      for (const std::vector<int64_t>& group : *groups) {
        for (const int64_t id : group)
          ranks = std::max(ranks, static_cast<size_t>(id) + 1);
      }
    }
  }
  return static_cast<int64_t>(ranks);
}

Manifest infer_manifest(const Module& module, const std::string& program) {
  const Computation& entry = module.entry_computation();
  const std::vector<const Instruction*> parameters = parameters_of(entry);
  const Shape root = declared_elements(entry.at(entry.root));
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

}  // namespace reprise
