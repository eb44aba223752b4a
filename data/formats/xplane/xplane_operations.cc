#include "data/formats/xplane/xplane_operations.h"

#include <cstddef>

#include "data/formats/xplane/xplane_names.h"

namespace reprise {
namespace {

/// Of an instruction's text, the word before the operands: behind the type,
/// which has brackets of its own.
std::string_view opcode_in(std::string_view text) {
  size_t at = text.find(" = ");
  if (at == text.npos) return {};
  at += 3;
  size_t word = at;
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char one = text[at];
    if (depth == 0 && one == '(' && at > word)
      return text.substr(word, at - word);
    if (depth == 0 && one == ' ') word = at + 1;
    depth += one == '(' || one == '[' || one == '{';
    depth -= one == ')' || one == ']' || one == '}';
  }
  return {};
}

std::string_view without_number(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  return name.substr(0, name.find('.'));
}

}  // namespace

std::string_view xplane_opcode(const XplaneRow& row) {
  const std::string_view opcode = opcode_in(row.text);
  return opcode.empty() ? without_number(row.name) : opcode;
}

XplaneOperation xplane_operation(const XplaneRow& row, bool beside,
                                 bool has_beside) {
  const std::string_view opcode = xplane_opcode(row);
  if (is_hlo_container(opcode)) return {EventKind::kAnnotation, false};
  if (beside) {
    const bool moves = opcode.find("copy") != opcode.npos ||
                       opcode.find("slice") != opcode.npos;
    return {moves ? EventKind::kCopy : EventKind::kCompute, !moves};
  }
  if (has_beside && opcode.ends_with("-start"))
    return {EventKind::kCompute, false};
  if (has_beside && opcode.ends_with("-done"))
    return {EventKind::kAnnotation, false};
  return {};
}

}  // namespace reprise
