// `ROOT? name = shape opcode(operands), attribute=value, …`, where operands may
// be written with their shapes. Async sugar (`reduce-scatter-start`) is read as
// the generic start, update or done with the opcode as written. References
// resolve to what stands before, so one pass suffices, and each instruction is
// verified as it is read.
#include "data/hlo/hlo_instruction_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/hlo/hlo_shape_parser.h"
#include "data/hlo/hlo_verifier.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 9> kComputationAttributes = {
    "to_apply",
    "calls",
    "body",
    "condition",
    "select",
    "scatter",
    "true_computation",
    "false_computation",
    "comparator"};
constexpr std::array<std::string_view, 2> kComputationLists = {
    "branch_computations", "called_computations"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& list,
              std::string_view name) {
  for (const std::string_view candidate : list) {
    if (candidate == name) return true;
  }
  return false;
}

struct AsyncSuffix {
  std::string_view text;
  Opcode opcode;
};
constexpr std::array<AsyncSuffix, 3> kAsyncSuffixes = {
    {{"-start", Opcode::kAsyncStart},
     {"-update", Opcode::kAsyncUpdate},
     {"-done", Opcode::kAsyncDone}}};

/// The sugar for async-start and its like around a known opcode:
/// `reduce-scatter-start`.
std::optional<Opcode> async_sugar(std::string_view name) {
  for (const AsyncSuffix& suffix : kAsyncSuffixes) {
    if (!name.ends_with(suffix.text)) continue;
    if (opcode_from_name(name.substr(0, name.size() - suffix.text.size())))
      return suffix.opcode;
  }
  return std::nullopt;
}

/// A name that ends with the text may be half of one.
std::string_view cut_hint(const HloLexer& lexer) {
  return lexer.at_end() ? "; the text ends here: is it cut short?" : "";
}

/// One space for each run of white space or comment, none just inside braces or
/// before commas.
std::string compact(std::string_view literal) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < literal.size(); ++i) {
    const char c = literal[i];
    if (quoted || c == '"') {
      out.push_back(c);
      if (c == '\\' && i + 1 < literal.size())
        out.push_back(literal[++i]);
      else if (c == '"')
        quoted = !quoted;
      continue;
    }
    if (literal.substr(i, 2) == "/*") {
      i = std::min(literal.find("*/", i + 2), literal.size() - 1) + 1;
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      if (!out.empty() && out.back() != ' ' && out.back() != '{')
        out.push_back(' ');
      continue;
    }
    if ((c == '}' || c == ',') && !out.empty() && out.back() == ' ')
      out.pop_back();
    out.push_back(c);
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

bool HloInstructionParser::parse() {
  const bool is_root = [this] {
    const size_t begin = lexer_->position();
    if (lexer_->name() == "ROOT" && !lexer_->take("=")) return true;
    lexer_->set_position(begin);
    return false;
  }();
  lexer_->skip_space();
  const size_t position = lexer_->position();
  Instruction instruction;
  std::string_view name;
  if (!lexer_->expect_name("an instruction or `}`", &name)) return false;
  if (names_.contains(name) || element_names_.contains(std::string(name))) {
    return lexer_->error(
        ErrorKind::kInvalid, position,
        fmt::format("instruction `{}` is defined twice", name));
  }
  instruction.name = name;
  if (!lexer_->expect("=", "after an instruction's name")) return false;
  if (!parse_shape(lexer_, &instruction.shape)) return false;
  if (!parse_opcode(&instruction)) return false;
  if (!lexer_->expect("(", "after an opcode")) return false;
  const bool operands_read =
      instruction.opcode == Opcode::kParameter  ? parse_parameter(&instruction)
      : instruction.opcode == Opcode::kConstant ? parse_constant(&instruction)
                                                : parse_operands(&instruction);
  if (!operands_read || !parse_attributes(&instruction)) return false;
  names_.emplace(
      name,
      InstructionId(static_cast<uint32_t>(computation_->instructions.size())));
  return append(std::move(instruction), position, is_root);
}

bool HloInstructionParser::append(Instruction instruction, size_t position,
                                  bool is_root) {
  const auto checked = verify_instruction(*module_, *computation_, instruction);
  if (!checked)
    return lexer_->error(checked.error().kind, position,
                         checked.error().message);
  if (is_root) {
    if (has_root_)
      return lexer_->error(ErrorKind::kInvalid, position,
                           "computation has two ROOTs");
    has_root_ = true;
    computation_->root =
        InstructionId(static_cast<uint32_t>(computation_->instructions.size()));
  }
  if (instruction.opcode == Opcode::kFusion) {
    const auto called = called_computation(instruction, "calls");
    if (called) module_->computations[index_of(*called)].is_fused = true;
  }
  computation_->instructions.push_back(std::move(instruction));
  return true;
}

bool HloInstructionParser::parse_opcode(Instruction* instruction) {
  lexer_->skip_space();
  const size_t begin = lexer_->position();
  std::string_view name;
  if (!lexer_->expect_name("an opcode", &name)) return false;
  if (const auto opcode = opcode_from_name(name)) {
    instruction->opcode = *opcode;
    return true;
  }
  if (const auto opcode = async_sugar(name)) {
    instruction->opcode = *opcode;
    instruction->opcode_text = name;
    return true;
  }
  return lexer_->error(
      ErrorKind::kUnsupported, begin,
      fmt::format("unknown opcode `{}`{}", name, cut_hint(*lexer_)));
}

bool HloInstructionParser::parse_parameter(Instruction* instruction) {
  if (!lexer_->expect_integer("a parameter number",
                              &instruction->parameter_number))
    return false;
  return lexer_->expect(")", "after a parameter number");
}

bool HloInstructionParser::parse_constant(Instruction* instruction) {
  std::string_view literal;
  if (!lexer_->raw_until("", "a literal", &literal)) return false;
  instruction->literal = compact(literal);
  if (instruction->literal.empty() &&
      instruction->shape.type != PrimitiveType::kTuple) {
    return lexer_->error(
        fmt::format("expected a literal, found {}", lexer_->found()));
  }
  return lexer_->expect(")", "after a literal");
}

bool HloInstructionParser::parse_operands(Instruction* instruction) {
  if (lexer_->take(")")) return true;
  do {
    if (!parse_operand(instruction)) return false;
  } while (lexer_->take(","));
  return lexer_->expect(")", "after operands");
}

bool HloInstructionParser::parse_operand(Instruction* instruction) {
  lexer_->skip_space();
  const size_t begin = lexer_->position();
  const bool has_shape = at_shape(*lexer_);
  Shape shape;
  if (has_shape && !parse_shape(lexer_, &shape)) return false;
  InstructionId id{};
  if (!resolve(&id)) return false;
  while (lexer_->peek() == '#') {
    if (!parse_element(&id)) return false;
  }
  const Shape& defined = computation_->at(id).shape;
  if (has_shape && !same_dimensions(shape, defined)) {
    return lexer_->error(
        ErrorKind::kInvalid, begin,
        fmt::format("operand `{}` is written as {}, but is {}",
                    computation_->at(id).name, shape_text(shape, false),
                    shape_text(defined, false)));
  }
  instruction->operands.push_back(id);
  return true;
}

/// `#N` after a tuple's name is its element, as XLA prints since jaxlib 0.12;
/// it becomes an instruction of its own, whose name XLA gives to none.
bool HloInstructionParser::parse_element(InstructionId* id) {
  const size_t begin = lexer_->position();
  lexer_->advance(1);
  int64_t index = 0;
  if (!lexer_->expect_integer("an element's number after `#`", &index))
    return false;
  const Instruction& tuple = computation_->at(*id);
  const auto [known, is_new] =
      elements_.try_emplace({index_of(*id), index}, InstructionId{});
  if (is_new) {
    Instruction element;
    element.opcode = Opcode::kGetTupleElement;
    element.name = fmt::format("{}/{}", tuple.name, index);
    if (names_.contains(element.name)) {
      return lexer_->error(
          ErrorKind::kInvalid, begin,
          fmt::format("instruction `{}` is named as this element",
                      element.name));
    }
    element_names_.insert(element.name);
    element.operands = {*id};
    element.attributes = {{"index", std::vector<int64_t>{index}}};
    if (index >= 0 && index < std::ssize(tuple.shape.elements))
      element.shape = tuple.shape.elements[static_cast<size_t>(index)];
    known->second =
        InstructionId(static_cast<uint32_t>(computation_->instructions.size()));
    if (!append(std::move(element), begin, /*is_root=*/false)) return false;
  }
  *id = known->second;
  return true;
}

bool HloInstructionParser::resolve(InstructionId* id) {
  lexer_->skip_space();
  const size_t begin = lexer_->position();
  std::string_view name;
  if (!lexer_->expect_name("an operand", &name)) return false;
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return lexer_->error(
        ErrorKind::kInvalid, begin,
        fmt::format(
            "`{}` is not defined before its use (operands come first; a "
            "forward use or a cycle is no order){}",
            name, cut_hint(*lexer_)));
  }
  *id = found->second;
  return true;
}

bool HloInstructionParser::resolve(ComputationId* id) {
  lexer_->skip_space();
  const size_t begin = lexer_->position();
  std::string_view name;
  if (!lexer_->expect_name("a computation's name", &name)) return false;
  const auto found = computations_->find(name);
  if (found == computations_->end()) {
    return lexer_->error(ErrorKind::kInvalid, begin,
                         fmt::format("computation `{}` is not defined before "
                                     "its use (callees come first){}",
                                     name, cut_hint(*lexer_)));
  }
  *id = found->second;
  return true;
}

bool HloInstructionParser::parse_attributes(Instruction* instruction) {
  while (lexer_->take(",")) {
    Attribute attribute;
    std::string_view name;
    if (!lexer_->expect_name("an attribute", &name)) return false;
    attribute.name = name;
    if (!lexer_->expect("=", fmt::format("after attribute `{}`", name)))
      return false;
    if (!parse_value(&attribute)) return false;
    instruction->attributes.push_back(std::move(attribute));
  }
  return true;
}

bool HloInstructionParser::parse_value(Attribute* attribute) {
  lexer_->skip_space();
  const bool braced = lexer_->peek() == '{';
  const bool single = contains(kComputationAttributes, attribute->name);
  if (braced && (single || contains(kComputationLists, attribute->name))) {
    return parse_computations(attribute);
  }
  if (single) {
    ComputationId id{};
    if (!resolve(&id)) return false;
    attribute->value = id;
    return true;
  }
  if (braced && attribute->name == "control-predecessors")
    return parse_predecessors(attribute);
  bool is_list = false;
  if (braced && !parse_integer_list(attribute, &is_list)) return false;
  return is_list || parse_raw_value(attribute);
}

bool HloInstructionParser::parse_raw_value(Attribute* attribute) {
  std::string_view raw;
  if (!lexer_->raw_until(", \t\r\n", "an attribute", &raw)) return false;
  if (raw.empty()) {
    return lexer_->error(
        fmt::format("expected a value of attribute `{}`, found {}",
                    attribute->name, lexer_->found()));
  }
  std::string text(raw);
  // `mesh['a'=2], device_ids=([2]T(0)) {'a'}` is one value.
  const size_t end = lexer_->position();
  if (text.starts_with("mesh[") && lexer_->take(",")) {
    if (lexer_->take("device_ids=")) {
      if (!lexer_->raw_until(", \t\r\n", "devices of a mesh", &raw))
        return false;
      text.append(", device_ids=").append(raw);
    } else {
      lexer_->set_position(end);
    }
  }
  lexer_->skip_space();
  if (text.starts_with("mesh[") && lexer_->peek() == '{') {
    if (!lexer_->raw_until(", \t\r\n", "axes of a mesh", &raw)) return false;
    text.append(" ").append(raw);
  }
  attribute->value = RawText{std::move(text)};
  return true;
}

/// `{1,2}` is a list; anything else in braces is left, at its start, for raw
/// text.
bool HloInstructionParser::parse_integer_list(Attribute* attribute,
                                              bool* is_list) {
  const size_t begin = lexer_->position();
  lexer_->advance(1);
  std::vector<int64_t> values;
  *is_list = lexer_->take("}");
  while (!*is_list) {
    lexer_->skip_space();
    const char c = lexer_->peek();
    if (c != '-' && (c < '0' || c > '9')) break;
    int64_t value = 0;
    if (!lexer_->expect_integer("an element of a list", &value)) return false;
    values.push_back(value);
    *is_list = lexer_->take("}");
    if (!*is_list && !lexer_->take(",")) break;
  }
  if (*is_list) {
    attribute->value = std::move(values);
  } else {
    lexer_->set_position(begin);
  }
  return true;
}

bool HloInstructionParser::parse_computations(Attribute* attribute) {
  lexer_->advance(1);
  std::vector<ComputationId> ids;
  if (!lexer_->take("}")) {
    do {
      if (!resolve(&ids.emplace_back())) return false;
    } while (lexer_->take(","));
    if (!lexer_->expect("}", "after computations")) return false;
  }
  attribute->value = std::move(ids);
  return true;
}

bool HloInstructionParser::parse_predecessors(Attribute* attribute) {
  lexer_->advance(1);
  std::vector<InstructionId> ids;
  if (!lexer_->take("}")) {
    do {
      if (!resolve(&ids.emplace_back())) return false;
    } while (lexer_->take(","));
    if (!lexer_->expect("}", "after control predecessors")) return false;
  }
  attribute->value = std::move(ids);
  return true;
}

}  // namespace reprise
