// Canonical text: `%name = shape opcode(%operand, …), attribute=value`, one
// instruction a line.
#include <fmt/format.h>

#include "data/hlo/hlo.h"
#include "data/sha256.h"

namespace reprise {
namespace {

constexpr size_t kIndexCommentEvery = 5;

class HloPrinter {
 public:
  HloPrinter(const Module& module, const PrintOptions& options)
      : module_(module), options_(options) {}

  std::string run() {
    print_header();
    for (uint32_t i = 0; i < module_.computations.size(); ++i) {
      out_.push_back('\n');
      print_computation(ComputationId{i});
    }
    if (options_.metadata && !module_.tail_tables.empty()) {
      out_.push_back('\n');
      out_.append(module_.tail_tables);
    }
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format,
                   std::forward<Args>(args)...);
  }
  void print_header();
  void print_aliases();
  void print_computation(ComputationId id);
  void print_instruction(const Computation& computation, InstructionId id);
  void print_operands(const Computation& computation,
                      const Instruction& instruction);
  void print_value(const Computation& computation, const AttributeValue& value);

  const Module& module_;
  const PrintOptions& options_;
  std::string out_;
};

void HloPrinter::print_header() {
  add("HloModule {}", module_.name);
  bool aliases_printed = module_.aliases.empty();
  for (const Attribute& attribute : module_.attributes) {
    // The place where XLA prints aliases: after is_scheduled, before everything
    // else.
    if (!aliases_printed && attribute.name != "is_scheduled") {
      print_aliases();
      aliases_printed = true;
    }
    add(", {}=", attribute.name);
    print_value(module_.entry_computation(), attribute.value);
  }
  if (!aliases_printed) print_aliases();
  out_.push_back('\n');
}

void HloPrinter::print_aliases() {
  out_.append(", input_output_alias={ ");
  for (size_t i = 0; i < module_.aliases.size(); ++i) {
    const InputOutputAlias& alias = module_.aliases[i];
    add("{}{{{}}}: ({}, {{{}}}, {})", i == 0 ? "" : ", ",
        fmt::join(alias.output_index, ","), alias.parameter,
        fmt::join(alias.parameter_index, ","),
        alias.must_alias ? "must-alias" : "may-alias");
  }
  out_.append(" }");
}

void HloPrinter::print_computation(ComputationId id) {
  const Computation& computation = module_.at(id);
  if (id == module_.entry) out_.append("ENTRY ");
  add("%{}", computation.name);
  if (computation.has_header_types) {
    const std::vector<const Instruction*> parameters =
        parameters_of(computation);
    out_.append(" (");
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (i > 0) out_.append(", ");
      add("{}: {}", parameters[i]->name,
          shape_text(parameters[i]->shape, false));
    }
    add(") -> {}", shape_text(computation.at(computation.root).shape, false));
  }
  out_.append(" {\n");
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    print_instruction(computation, InstructionId{i});
  }
  out_.push_back('}');
  if (!computation.execution_thread.empty()) {
    add(", execution_thread=\"{}\"", computation.execution_thread);
  }
  out_.push_back('\n');
}

void HloPrinter::print_instruction(const Computation& computation,
                                   InstructionId id) {
  const Instruction& instruction = computation.at(id);
  add("  {}%{} = {} {}(", id == computation.root ? "ROOT " : "",
      instruction.name, shape_text(instruction.shape),
      written_opcode(instruction));
  print_operands(computation, instruction);
  out_.push_back(')');
  for (const Attribute& attribute : instruction.attributes) {
    if (!options_.metadata && attribute.name == "metadata") continue;
    add(", {}=", attribute.name);
    print_value(computation, attribute.value);
  }
  out_.push_back('\n');
}

void HloPrinter::print_operands(const Computation& computation,
                                const Instruction& instruction) {
  if (instruction.opcode == Opcode::kParameter) {
    add("{}", instruction.parameter_number);
    return;
  }
  if (instruction.opcode == Opcode::kConstant) {
    out_.append(instruction.literal);
    return;
  }
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    if (i > 0) out_.append(", ");
    if (i > 0 && i % kIndexCommentEvery == 0) add("/*index={}*/", i);
    const Instruction& operand = computation.at(instruction.operands[i]);
    if (options_.operand_shapes) add("{} ", shape_text(operand.shape));
    out_.push_back('%');
    out_.append(operand.name);
  }
}

void HloPrinter::print_value(const Computation& computation,
                             const AttributeValue& value) {
  if (const auto* raw = std::get_if<RawText>(&value)) {
    out_.append(raw->text);
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    add("{{{}}}", fmt::join(*list, ","));
  } else if (const auto* id = std::get_if<ComputationId>(&value)) {
    add("%{}", module_.at(*id).name);
  } else if (const auto* ids =
                 std::get_if<std::vector<ComputationId>>(&value)) {
    out_.push_back('{');
    for (size_t i = 0; i < ids->size(); ++i) {
      add("{}%{}", i == 0 ? "" : ", ", module_.at((*ids)[i]).name);
    }
    out_.push_back('}');
  } else if (const auto* instructions =
                 std::get_if<std::vector<InstructionId>>(&value)) {
    out_.push_back('{');
    for (size_t i = 0; i < instructions->size(); ++i) {
      add("{}%{}", i == 0 ? "" : ", ", computation.at((*instructions)[i]).name);
    }
    out_.push_back('}');
  }
}

}  // namespace

std::string print_hlo(const Module& module, const PrintOptions& options) {
  return HloPrinter(module, options).run();
}

std::string fingerprint(const Module& module) {
  return "sha256:" + sha256_hex(print_hlo(module, {.metadata = false}));
}

}  // namespace reprise
