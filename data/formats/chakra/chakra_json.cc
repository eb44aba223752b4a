#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "data/formats/chakra/chakra_node.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"
#include "data/io/json_text.h"

namespace reprise {
namespace {

constexpr std::array<std::pair<std::string_view, int32_t>, 11> kTypes = {{
    {"INVALID_NODE", 0},
    {"METADATA_NODE", 1},
    {"MEM_LOAD_NODE", 2},
    {"MEM_STORE_NODE", 3},
    {"COMP_NODE", 4},
    {"COMM_SEND_NODE", 5},
    {"COMM_RECV_NODE", 6},
    {"COMM_COLL_NODE", 7},
    {"STORAGE_NODE", 8},
    {"BATCH_NODE", 9},
    {"CHECKPOINT_NODE", 10},
}};

/// "ctrlDeps", "ctrl_deps" and "CtrlDeps" are one key.
std::string plain(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c != '_') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

int32_t type_in(std::string_view value) {
  const std::string word = json_unescaped(value);
  for (const auto& [name, number] : kTypes) {
    if (word == name) return number;
  }
  const int64_t number = parse_integer(value).value_or(0);
  return number > 0 && number < 1000 ? static_cast<int32_t>(number) : 0;
}

ChakraValue value_in(std::string_view text) {
  ChakraValue value;
  if (text == "true" || text == "false") {
    value.integer = text == "true";
  } else {
    value.integer = parse_integer(text);
  }
  if (text.starts_with('"')) value.text = json_unescaped(text);
  if (value.integer && text.starts_with('"')) {
    value.json = std::to_string(*value.integer);  // int64 comes quoted.
  } else if (text.starts_with('"')) {
    value.json = json_quoted(value.text);
  } else if (nlohmann::json::accept(text)) {
    value.json = text;
  }
  return value;
}

void append_ids(std::string_view array, std::vector<int64_t>& ids) {
  if (!array.starts_with('[')) {  // One alone.
    if (const auto id = parse_integer(array)) ids.push_back(*id);
    return;
  }
  JsonScanner scanner(array);
  while (scanner.next())
    ids.push_back(parse_integer(scanner.value()).value_or(-1));
}

/// {"name": "comm_size", "int64Val": "65536"}, {"boolList": {"values":
/// [true]}}.
void take_attributes(std::string_view array, ChakraNode& node,
                     ChakraMetadata& metadata) {
  JsonScanner attributes(array);
  while (attributes.next()) {
    std::string name;
    ChakraValue value;
    JsonScanner members(attributes.value());
    while (members.next()) {
      const std::string key = plain(members.key());
      if (key == "name") {
        name = json_unescaped(members.value());
      } else if (key.ends_with("list")) {
        JsonScanner list(members.value());
        if (list.next()) value = value_in(list.value());
      } else if (key != "docstring") {
        value = value_in(members.value());
      }
    }
    if (name == "schema") metadata.schema = value.text;
    if (name == "pid") metadata.process = value.integer.value_or(0);
    take_attribute(name, value, node);
  }
}

void take_json_inputs(std::string_view object, ChakraNode& node) {
  JsonScanner members(object);
  while (members.next()) {
    const ChakraValue value = value_in(members.value());
    if (value.text.empty() || value.text == "[]") continue;
    if (members.key() == "shapes") take_attribute("input_dims", value, node);
    if (members.key() == "types") take_attribute("input_types", value, node);
  }
}

}  // namespace

bool read_chakra_json(std::string_view object, ChakraNode& node,
                      ChakraMetadata& metadata, bool& is_metadata) {
  node.clear();
  bool typed = false, versioned = false;
  std::vector<int64_t> data_dependencies;
  JsonScanner members(object);
  while (members.next()) {
    const std::string key = plain(members.key());
    const std::string_view value = members.value();
    if (key == "id") {
      node.id = parse_integer(value).value_or(-1);
    } else if (key == "name") {
      node.name = json_unescaped(value);
    } else if (key == "type" || key == "nodetype") {
      node.type = type_in(value);
      typed = true;
    } else if (key == "ctrldeps" || key == "ctrldep") {
      append_ids(value, node.dependencies);
    } else if (key == "datadeps" || key == "datadep") {
      append_ids(value, data_dependencies);
    } else if (key == "starttimemicros") {
      node.start_us = parse_integer(value).value_or(-1);
    } else if (key == "durationmicros" || key == "runtime") {
      node.duration_us = parse_integer(value).value_or(-1);
    } else if (key == "inputs") {
      take_json_inputs(value, node);
    } else if (key == "attr" || key == "attribute") {
      take_attributes(value, node, metadata);
    } else if (key == "version") {
      metadata.version = json_unescaped(value);
      versioned = true;
    } else if (key != "outputs") {
      take_attribute(members.key(), value_in(value), node);
    }
  }
  node.dependencies.insert(node.dependencies.end(), data_dependencies.begin(),
                           data_dependencies.end());
  is_metadata = !typed && (versioned || node.name.empty());
  return typed || versioned || !metadata.schema.empty();
}

}  // namespace reprise
