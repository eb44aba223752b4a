#include "data/hlo/instruction_place.h"

#include <algorithm>
#include <charconv>

#include "data/hlo/split_complex.h"

namespace reprise {
namespace {

/// `name=VALUE` of a table's row or of metadata: text in quotes, or up to a
/// space or brace.
std::string field_of(std::string_view text, std::string_view name) {
  const std::string key = std::string(name) + "=";
  size_t at = text.find(key);
  while (at != std::string_view::npos && at > 0 && text[at - 1] != '{' &&
         text[at - 1] != ' ') {
    at = text.find(key, at + 1);
  }
  if (at == std::string_view::npos) return {};
  std::string_view value = text.substr(at + key.size());
  if (!value.starts_with('"'))
    return std::string(value.substr(0, value.find_first_of(" },")));
  std::string unescaped;
  for (size_t i = 1; i < value.size() && value[i] != '"'; ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) ++i;
    unescaped.push_back(value[i]);
  }
  return unescaped;
}

/// Row `number` of a table among the module's: what stands behind its number.
std::string_view table_row(std::string_view tables, std::string_view title,
                           std::string_view number) {
  if (number.empty()) return {};
  bool inside = false;
  while (!tables.empty()) {
    const size_t end = std::min(tables.find('\n'), tables.size());
    const std::string_view line = tables.substr(0, end);
    tables.remove_prefix(std::min(end + 1, tables.size()));
    if (line == title) {
      inside = true;
    } else if (inside && !line.empty() && (line[0] < '0' || line[0] > '9')) {
      return {};
    } else if (inside && line.starts_with(number) &&
               line.substr(number.size()).starts_with(' ')) {
      return line.substr(number.size() + 1);
    }
  }
  return {};
}

std::string base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path
                                                     : path.substr(slash + 1));
}

std::string_view metadata_of(const Instruction& instruction) {
  const Attribute* found = instruction.find_attribute("metadata");
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string_view() : std::string_view(raw->text);
}

}  // namespace

std::string metadata_field(const Instruction& instruction,
                           std::string_view field) {
  return field_of(metadata_of(instruction), field);
}

std::string source_line(const Module& module, const Instruction& instruction) {
  const std::string_view metadata = metadata_of(instruction);
  std::string file = field_of(metadata, "source_file");
  std::string line = field_of(metadata, "source_line");
  const std::string frame = field_of(metadata, "stack_frame_id");
  if (file.empty() && !frame.empty()) {
    const std::string_view tables = module.tail_tables;
    const std::string_view location = table_row(
        tables, "FileLocations",
        field_of(table_row(tables, "StackFrames", frame), "file_location_id"));
    line = field_of(location, "line");
    const std::string_view name =
        table_row(tables, "FileNames", field_of(location, "file_name_id"));
    if (name.size() >= 2) file = name.substr(1, name.size() - 2);
  }
  if (file.empty()) return {};
  return line.empty() ? base_name(file) : base_name(file) + ":" + line;
}

std::string instruction_place(const Module& module,
                              const Instruction& instruction) {
  const std::string op = metadata_field(instruction, "op_name");
  const std::string line = source_line(module, instruction);
  std::string known;
  if (!op.empty()) known = "\"" + op + "\"";
  if (!line.empty()) known += (known.empty() ? "" : ", ") + line;
  std::string place(name_before_split(instruction));
  if (!known.empty()) place += " (" + known + ")";
  return place;
}

}  // namespace reprise
