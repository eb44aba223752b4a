#include "data/formats/dpro/dpro_tensors.h"

#include <algorithm>
#include <cctype>

#include "data/collective/collective_names.h"
#include "data/formats/horovod/horovod_events.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// The name as Horovod spells it: other characters than letters and digits
/// become '_'. dPRO does the same to names with dots.
std::string plain(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return out;
}

std::string_view member(std::string_view object, std::string_view key) {
  JsonScanner members(object);
  while (members.next()) {
    if (members.key() == key) return members.value();
  }
  return {};
}

}  // namespace

int64_t DproTensor::bytes() const {
  int64_t bytes = 0;
  const int64_t size = element_bytes(type);
  if (elements < 0 || __builtin_mul_overflow(elements, size, &bytes)) return 0;
  return bytes;
}

void DproTensors::add(uint32_t id, std::string name) {
  ids_.try_emplace(plain(name), id);
  tensors_[id].name = std::move(name);
}

void DproTensors::learn_names(std::string_view json) {
  const size_t first = skip_json_space(json, 0);
  json.remove_prefix(std::min(first, json.size()));
  if (!json.starts_with('[')) json = member(json, "gradient_name_list");
  JsonScanner names(json);
  for (uint32_t id = 0; names.next(); ++id) {
    add(id, json_unescaped(names.value()));
  }
}

void DproTensors::learn_ids(std::string_view json) {
  constexpr std::string_view kPrefix = "HorovodAllreduce.";
  JsonScanner ids(json);
  while (ids.next()) {
    std::string_view name = ids.key();
    if (const size_t at = name.find(kPrefix); at != name.npos) {
      name.remove_prefix(at + kPrefix.size());
    }
    const auto id = parse_integer(ids.value());
    if (!id || *id < 0 || *id >= INT32_MAX) continue;
    add(static_cast<uint32_t>(*id), std::string(name));
  }
}

void DproTensors::learn_output(std::string_view output) {
  std::string_view name, shape, type;
  JsonScanner members(output);
  while (members.next()) {
    if (members.key() == "name") name = members.value();
    if (members.key() == "shape") shape = members.value();
    if (members.key() == "dtype") type = members.value();
  }
  const int64_t id = id_of(unquoted(name));
  if (id < 0) return;
  DproTensor& tensor = tensors_[static_cast<uint32_t>(id)];
  if (tensor.elements >= 0) return;
  tensor.elements = elements_of_shape(shape);
  tensor.type = element_type_named(unquoted(type));
}

void DproTensors::learn_sizes(std::string_view json) {
  JsonScanner operations(json);
  while (operations.next()) {
    JsonScanner outputs(member(operations.value(), "output"));
    while (outputs.next()) learn_output(outputs.value());
  }
}

const DproTensor* DproTensors::find(uint32_t id) const {
  const auto found = tensors_.find(id);
  return found == tensors_.end() ? nullptr : &found->second;
}

int64_t DproTensors::id_of(std::string_view name) const {
  const auto found = ids_.find(plain(name));
  return found == ids_.end() ? -1 : int64_t{found->second};
}

}  // namespace reprise
