#include "data/plan/output_aliases.h"

#include <algorithm>

namespace reprise {

Status bind_aliases(OpGraph* graph) {
  for (const InputOutputAlias& alias : graph->module->aliases) {
    const int64_t output =
        alias.output_index.empty() ? 0 : alias.output_index[0];
    if (output < 0 || output >= static_cast<int64_t>(graph->outputs.size()) ||
        alias.parameter < 0 ||
        alias.parameter >= static_cast<int64_t>(graph->parameters.size()) ||
        alias.output_index.size() > 1 || !alias.parameter_index.empty()) {
      return fail(ErrorKind::kInvalid,
                  "input_output_alias: output {} -> parameter {}: no such "
                  "output or parameter",
                  output, alias.parameter);
    }
    const Instruction& parameter = graph->entry->at(
        graph->parameters[static_cast<size_t>(alias.parameter)]);
    const Instruction& root = graph->entry->at(graph->entry->root);
    const Shape& shape = root.opcode == Opcode::kTuple
                             ? root.shape.elements[static_cast<size_t>(output)]
                             : root.shape;
    if (byte_size(shape) != byte_size(parameter.shape)) {
      return fail(ErrorKind::kInvalid,
                  "input_output_alias: output {} is {}, parameter {} is {}",
                  output, shape_text(shape), alias.parameter,
                  shape_text(parameter.shape));
    }
    if (std::count(graph->updates.begin(), graph->updates.end(),
                   alias.parameter) > 0) {
      return fail(ErrorKind::kInvalid,
                  "input_output_alias: parameter {} stands twice",
                  alias.parameter);
    }
    graph->updates[static_cast<size_t>(output)] = alias.parameter;
  }
  return {};
}

}  // namespace reprise
