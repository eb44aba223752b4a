// Names and sizes of the gradients of a dPRO trace, by tensor id: from
// gradient_name_list.json or gradient_name2ID.json, and metadata.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "data/primitive_type.h"

namespace reprise {

struct DproTensor {
  std::string name;
  int64_t elements = -1;  ///< -1: unknown.
  std::optional<PrimitiveType> type = std::nullopt;
  int64_t bytes() const;  ///< 0: unknown.
};

class DproTensors {
 public:
  /// Takes {"gradient_name_list": […]} in, or the list alone.
  void learn_names(std::string_view json);
  /// Takes {"HorovodAllreduce.x": 3, …} in.
  void learn_ids(std::string_view json);
  /// Takes {"op": {"output": [{"name", "shape", "dtype"}, …]}, …} in. Requires:
  /// names are known.
  void learn_sizes(std::string_view json);

  const DproTensor* find(uint32_t id) const;
  /// The id of a tensor by its name, -1 if there is none.
  int64_t id_of(std::string_view name) const;
  size_t size() const { return tensors_.size(); }

 private:
  void add(uint32_t id, std::string name);
  void learn_output(std::string_view output);

  std::map<uint32_t, DproTensor> tensors_;
  std::map<std::string, uint32_t, std::less<>> ids_;  ///< By plain name.
};

}  // namespace reprise
