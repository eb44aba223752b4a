// Reads a module: header, computations, tables of source locations.
//
//   module      := 'HloModule' name (',' attribute)* tables?
//                  computation+ tables?
//   computation := 'ENTRY'? '%'? name
//                  ('(' (name ':' shape),* ')' '->' shape)?
//                  '{' instruction+ '}' (',' execution_thread=string)?
//   instruction := 'ROOT'? '%'? name '=' shape opcode '(' operands ')'
//                  (',' name '=' value)*
//   operand     := shape? '%'? name ('#' integer)*
//   tables      := ('FileNames' | 'FunctionNames' | 'FileLocations' |
//                   'StackFrames') row*
//
// Old dumps write operand shapes and '%', new ones neither; both are read.
#include <algorithm>
#include <array>
#include <utility>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/hlo/hlo_instruction_parser.h"
#include "data/hlo/hlo_lexer.h"
#include "data/hlo/hlo_shape_parser.h"
#include "data/hlo/hlo_verifier.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 4> kTables = {
    "FileNames", "FunctionNames", "FileLocations", "StackFrames"};

struct HeaderParameter {
  std::string_view name;
  Shape shape;
  size_t position = 0;
};

struct ComputationHeader {
  std::string_view name;
  size_t position = 0;
  bool is_entry = false;
  bool has_types = false;
  std::vector<HeaderParameter> parameters;
  Shape result;
};

/// What to give instead of a text that another printer of steps wrote.
std::string_view advice_for(std::string_view text) {
  for (const std::string_view mlir :
       {"module", "#loc", "builtin.module", "func.func", "\"builtin.module\"",
        "ML\xefR"}) {
    if (text.starts_with(mlir)) {
      return "; this is StableHLO or other MLIR: give what "
             "lower(…).as_text(\"hlo\") or compile().as_text() returns, or "
             "export the step by reprise.jax";
    }
  }
  if (text.starts_with("{ lambda")) {
    return "; this is a jaxpr: give what jax.jit(step).lower(…)"
           ".as_text(\"hlo\") returns, or export the step by reprise.jax";
  }
  return "";
}

class HloParser {
 public:
  HloParser(std::string_view text, std::string_view file)
      : lexer_(text, file) {}

  Result<Module> run() {
    if (!parse_module()) return tl::unexpected<Error>(lexer_.take_error());
    return std::move(module_);
  }

 private:
  bool parse_module();
  bool parse_module_header();
  bool parse_aliases();
  bool parse_alias();
  bool parse_index(std::vector<int64_t>* index);
  bool parse_tables(bool* any);
  bool parse_computation();
  bool parse_computation_header(ComputationHeader* header);
  bool parse_computation_tail(Computation* computation);
  bool check_parameters(const ComputationHeader& header,
                        const Computation& computation);
  bool check_result(const ComputationHeader& header,
                    const Computation& computation);
  bool check_aliases();
  bool finish();

  HloLexer lexer_;
  Module module_;
  ComputationNames computations_;
  bool has_entry_ = false;
  size_t aliases_position_ = 0;
};

bool HloParser::parse_module() {
  if (!parse_module_header()) return false;
  while (true) {
    lexer_.skip_space();
    if (lexer_.at_end()) return finish();
    bool is_table = false;
    if (!parse_tables(&is_table)) return false;
    if (!is_table && !parse_computation()) return false;
  }
}

bool HloParser::parse_module_header() {
  if (!lexer_.take("HloModule")) {
    return lexer_.error(fmt::format(
        "expected `HloModule` at the start of a module, found {}{}",
        lexer_.found(),
        advice_for(lexer_.text_between(lexer_.position(), std::string::npos))));
  }
  std::string_view name;
  if (!lexer_.expect_name("the module's name", &name)) return false;
  module_.name = name;
  while (lexer_.take(",")) {
    if (!lexer_.expect_name("a module attribute", &name)) return false;
    if (!lexer_.expect("=", fmt::format("after module attribute `{}`", name)))
      return false;
    if (name == "input_output_alias") {
      if (!parse_aliases()) return false;
      continue;
    }
    std::string_view raw;
    if (!lexer_.raw_until(", \t\r\n", "a module attribute", &raw)) return false;
    if (raw.empty()) {
      return lexer_.error(fmt::format("expected a value of `{}`, found {}",
                                      name, lexer_.found()));
    }
    module_.attributes.push_back(
        {std::string(name), RawText{std::string(raw)}});
  }
  return true;
}

bool HloParser::parse_aliases() {
  aliases_position_ = lexer_.position();
  if (!lexer_.expect("{", "after input_output_alias")) return false;
  if (lexer_.take("}")) return true;
  do {
    if (!parse_alias()) return false;
  } while (lexer_.take(","));
  return lexer_.expect("}", "after aliases");
}

bool HloParser::parse_alias() {
  InputOutputAlias alias;
  if (!parse_index(&alias.output_index) || !lexer_.expect(":", "in an alias"))
    return false;
  const bool parenthesized = lexer_.take("(");
  if (!lexer_.expect_integer("a parameter number", &alias.parameter))
    return false;
  if (parenthesized) {
    if (!lexer_.expect(",", "in an alias") ||
        !parse_index(&alias.parameter_index))
      return false;
    if (lexer_.take(",")) {
      alias.must_alias = lexer_.take("must-alias");
      if (!alias.must_alias && !lexer_.expect("may-alias", "in an alias"))
        return false;
    }
    if (!lexer_.expect(")", "after an alias")) return false;
  }
  module_.aliases.push_back(std::move(alias));
  return true;
}

bool HloParser::parse_index(std::vector<int64_t>* index) {
  if (!lexer_.expect("{", "before a tuple index")) return false;
  if (lexer_.take("}")) return true;
  do {
    if (!lexer_.expect_integer("a tuple index", &index->emplace_back()))
      return false;
  } while (lexer_.take(","));
  return lexer_.expect("}", "after a tuple index");
}

bool HloParser::parse_tables(bool* any) {
  const size_t begin = lexer_.position();
  const std::string_view title = lexer_.name();
  *any = std::find(kTables.begin(), kTables.end(), title) != kTables.end();
  lexer_.skip_space();
  const char next = lexer_.peek();
  *any = *any && (next == '\0' || (next >= '0' && next <= '9') || next == 'F' ||
                  next == 'S');
  if (!*any) {
    lexer_.set_position(begin);
    return true;
  }
  module_.tail_tables.append(title).push_back('\n');
  while (lexer_.peek() >= '0' && lexer_.peek() <= '9') {
    std::string_view row;
    if (!lexer_.raw_until("\r\n", "a table row", &row)) return false;
    module_.tail_tables.append(row).push_back('\n');
    lexer_.skip_space();
  }
  return true;
}

bool HloParser::parse_computation_header(ComputationHeader* header) {
  std::string_view name = lexer_.name();
  if (name == "ENTRY") {
    header->is_entry = true;
    lexer_.skip_space();
    header->position = lexer_.position();
    name = lexer_.name();
  }
  if (name.empty())
    return lexer_.error("expected a computation, found " + lexer_.found());
  header->name = name;
  if (!lexer_.take("(")) return true;
  header->has_types = true;
  if (!lexer_.take(")")) {
    do {
      HeaderParameter& parameter = header->parameters.emplace_back();
      if (!lexer_.expect_name("a parameter's name", &parameter.name))
        return false;
      parameter.position = lexer_.position();
      if (!lexer_.expect(":", "after a parameter's name")) return false;
      if (!parse_shape(&lexer_, &parameter.shape)) return false;
    } while (lexer_.take(","));
    if (!lexer_.expect(")", "after parameters")) return false;
  }
  return lexer_.expect("->", "before the result's shape") &&
         parse_shape(&lexer_, &header->result);
}

bool HloParser::parse_computation() {
  ComputationHeader header;
  header.position = lexer_.position();
  if (!parse_computation_header(&header)) return false;
  if (computations_.contains(header.name)) {
    return lexer_.error(
        ErrorKind::kInvalid, header.position,
        fmt::format("computation `{}` is defined twice", header.name));
  }
  if (header.is_entry && has_entry_) {
    return lexer_.error(ErrorKind::kInvalid, header.position,
                        "module has two ENTRY computations");
  }
  Computation computation;
  computation.name = header.name;
  computation.has_header_types = header.has_types;
  if (!lexer_.expect("{", fmt::format("to open computation `{}`", header.name)))
    return false;
  HloInstructionParser instructions(&lexer_, &computations_, &module_,
                                    &computation);
  while (!lexer_.take("}")) {
    if (!instructions.parse()) return false;
  }
  if (computation.instructions.empty()) {
    return lexer_.error(
        ErrorKind::kInvalid, header.position,
        fmt::format("computation `{}` has no instructions", header.name));
  }
  if (!instructions.has_root()) {
    computation.root = InstructionId(
        static_cast<uint32_t>(computation.instructions.size() - 1));
  }
  if (!parse_computation_tail(&computation)) return false;
  if (!check_parameters(header, computation) ||
      !check_result(header, computation))
    return false;
  const ComputationId id{static_cast<uint32_t>(module_.computations.size())};
  computations_.emplace(header.name, id);
  if (header.is_entry) module_.entry = id;
  has_entry_ = has_entry_ || header.is_entry;
  module_.computations.push_back(std::move(computation));
  return true;
}

bool HloParser::parse_computation_tail(Computation* computation) {
  if (!lexer_.take(",")) return true;
  if (!lexer_.expect("execution_thread", "after a computation")) return false;
  if (!lexer_.expect("=", "after execution_thread") ||
      !lexer_.expect("\"", "before a thread")) {
    return false;
  }
  const size_t begin = lexer_.position();
  while (lexer_.peek() != '"' && lexer_.peek() != '\n' && !lexer_.at_end())
    lexer_.advance(1);
  computation->execution_thread = lexer_.text_between(begin, lexer_.position());
  return lexer_.expect("\"", "after a thread's name");
}

bool HloParser::check_parameters(const ComputationHeader& header,
                                 const Computation& computation) {
  const std::vector<const Instruction*> parameters = parameters_of(computation);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i]->parameter_number == static_cast<int64_t>(i)) continue;
    return lexer_.error(
        ErrorKind::kInvalid, header.position,
        fmt::format(
            "computation `{}`: expected parameter({}), found parameter({})",
            header.name, i, parameters[i]->parameter_number));
  }
  if (!header.has_types) return true;
  if (parameters.size() != header.parameters.size()) {
    return lexer_.error(
        ErrorKind::kInvalid, header.position,
        fmt::format(
            "computation `{}` has {} parameters in its header, {} inside",
            header.name, header.parameters.size(), parameters.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const HeaderParameter& written = header.parameters[i];
    if (same_dimensions(written.shape, parameters[i]->shape)) continue;
    return lexer_.error(
        ErrorKind::kInvalid, written.position,
        fmt::format("parameter `{}` is {} in the header, {} inside",
                    parameters[i]->name, shape_text(written.shape, false),
                    shape_text(parameters[i]->shape, false)));
  }
  return true;
}

bool HloParser::check_result(const ComputationHeader& header,
                             const Computation& computation) {
  const Shape& root = computation.at(computation.root).shape;
  if (!header.has_types || same_dimensions(header.result, root)) return true;
  return lexer_.error(
      ErrorKind::kInvalid, header.position,
      fmt::format(
          "computation `{}` returns {} in its header, but its root is {}",
          header.name, shape_text(header.result, false),
          shape_text(root, false)));
}

bool HloParser::check_aliases() {
  const auto status = verify_aliases(module_);
  if (status) return true;
  return lexer_.error(status.error().kind, aliases_position_,
                      status.error().message);
}

bool HloParser::finish() {
  if (!has_entry_) {
    if (module_.computations.size() != 1)
      return lexer_.error("expected ENTRY, found end of text");
    module_.entry = ComputationId{0};
  }
  return check_aliases();
}

}  // namespace

Result<Module> parse_hlo(std::string_view text, std::string_view file) {
  return HloParser(text, file).run();
}

Result<Module> parse_hlo_file(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_hlo(*text, path);
}

}  // namespace reprise
