// The text of a kernel, which is also its key, and whether an output may take
// the memory of an input. Each is a walk over the statements.
#include "data/kernel/kernel.h"

#include <algorithm>
#include <numeric>

#include "data/hlo/combiner.h"
#include "data/sha256.h"

namespace reprise {
namespace {

std::string expression_text(const Kernel& kernel, int32_t expression);

std::string atom_text(const Kernel& kernel, const IndexAtom& atom) {
  switch (atom.kind) {
    case IndexAtom::Kind::kLoop:
      return fmt::format("i{}", atom.operand);
    case IndexAtom::Kind::kValue:
      return fmt::format("clamp(v{},{},{})", atom.operand, atom.low, atom.high);
    case IndexAtom::Kind::kFloorDiv:
      return fmt::format("({})/{}", expression_text(kernel, atom.operand),
                         atom.divisor);
    case IndexAtom::Kind::kMod:
      return fmt::format("({})%{}", expression_text(kernel, atom.operand),
                         atom.divisor);
    case IndexAtom::Kind::kClamp:
      return fmt::format("clamp({},{},{})",
                         expression_text(kernel, atom.operand), atom.low,
                         atom.high);
  }
  return {};
}

std::string expression_text(const Kernel& kernel, int32_t expression) {
  const IndexExpression& index = kernel.indices.at(expression);
  std::string text;
  for (const IndexTerm& term : index.terms) {
    if (!text.empty()) text += " + ";
    if (term.coefficient != 1) text += fmt::format("{}*", term.coefficient);
    text += atom_text(kernel, kernel.indices.atom(term.atom));
  }
  if (text.empty() || index.constant != 0) {
    text += fmt::format("{}{}", text.empty() ? "" : " + ", index.constant);
  }
  return text;
}

std::string value_text(const Kernel& kernel, const KernelValue& value) {
  switch (value.kind) {
    case KernelValue::Kind::kLiteral:
      return fmt::format("literal {:#x}", value.literal);
    case KernelValue::Kind::kLoad:
      return fmt::format("load a{}[{}]", value.source,
                         expression_text(kernel, value.index));
    case KernelValue::Kind::kScratch:
      return fmt::format("scratch s{}[{}]", value.source,
                         expression_text(kernel, value.index));
    case KernelValue::Kind::kIndex:
      return fmt::format("index {}", expression_text(kernel, value.index));
    case KernelValue::Kind::kTotal:
      return fmt::format("total r{}", value.source);
    case KernelValue::Kind::kApply:
      break;
  }
  std::string text =
      fmt::format("{}{}{}", opcode_name(value.opcode),
                  value.comparison[0] != 0 ? " " : "", value.comparison);
  for (const int32_t operand : value.operands) {
    if (operand >= 0) text += fmt::format(" v{}", operand);
  }
  return text;
}

void print_block(const Kernel& kernel,
                 const std::vector<KernelStatement>& block, size_t depth,
                 std::string& text) {
  for (const KernelStatement& statement : block) {
    text.append(2 * depth, ' ');
    switch (statement.kind) {
      case KernelStatement::Kind::kLet: {
        const KernelValue& value =
            kernel.values[static_cast<size_t>(statement.value)];
        text += fmt::format("v{}: {} = {}\n", statement.value,
                            primitive_type_name(value.type),
                            value_text(kernel, value));
        break;
      }
      case KernelStatement::Kind::kLoop: {
        const KernelLoop& loop =
            kernel.loops[static_cast<size_t>(statement.target)];
        text += fmt::format("for i{} < {}{}\n", statement.target, loop.extent,
                            loop.independent ? "" : " in order");
        print_block(kernel, statement.body, depth + 1, text);
        break;
      }
      case KernelStatement::Kind::kReset:
        text += fmt::format("reset r{}\n", statement.target);
        break;
      case KernelStatement::Kind::kAccumulate:
        text += fmt::format("accumulate r{} v{}\n", statement.target,
                            statement.value);
        break;
      case KernelStatement::Kind::kStore:
        text += fmt::format(
            "a{}[{}] {}= v{}{}\n", statement.target,
            expression_text(kernel, statement.index),
            statement.combine == Opcode::kParameter
                ? ""
                : opcode_name(statement.combine),
            statement.value,
            statement.guard < 0 ? "" : fmt::format(" if v{}", statement.guard));
        break;
      case KernelStatement::Kind::kScratchStore:
        text += fmt::format("s{}[{}] = v{}\n", statement.target,
                            expression_text(kernel, statement.index),
                            statement.value);
        break;
    }
  }
}

/// Where a load or store stands: its top-level statement, its order and its
/// index.
struct Access {
  size_t nest = 0, order = 0;
  int32_t index = -1;
  bool plain = true;
};

void find_accesses(const Kernel& kernel,
                   const std::vector<KernelStatement>& block, size_t nest,
                   bool top, size_t input, size_t output, size_t& order,
                   std::vector<Access>& loads, std::vector<Access>& stores) {
  for (const KernelStatement& statement : block) {
    if (top) ++nest;
    ++order;
    if (statement.kind == KernelStatement::Kind::kLet) {
      const KernelValue& value =
          kernel.values[static_cast<size_t>(statement.value)];
      if (value.kind == KernelValue::Kind::kLoad &&
          static_cast<size_t>(value.source) == input) {
        loads.push_back({nest, order, value.index, true});
      }
    } else if (statement.kind == KernelStatement::Kind::kStore &&
               static_cast<size_t>(statement.target) == output) {
      stores.push_back(
          {nest, order, statement.index,
           statement.combine == Opcode::kParameter && statement.guard < 0});
    }
    find_accesses(kernel, statement.body, nest, false, input, output, order,
                  loads, stores);
  }
}

}  // namespace

std::string kernel_text(const Kernel& kernel) {
  std::string text;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const KernelArgument& argument = kernel.arguments[i];
    text +=
        fmt::format("{} a{}: {}[{}]\n", argument.is_output ? "output" : "input",
                    i, primitive_type_name(argument.type), argument.elements);
  }
  for (size_t i = 0; i < kernel.scratches.size(); ++i) {
    text += fmt::format("scratch s{}: {}[{}]\n", i,
                        primitive_type_name(kernel.scratches[i].type),
                        kernel.scratches[i].elements);
  }
  for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
    const KernelAccumulator& accumulator = kernel.accumulators[i];
    text += fmt::format(
        "lanes r{}: {} {} over i{}\n", i, primitive_type_name(accumulator.type),
        opcode_name(accumulator.combine), accumulator.lane_loop);
  }
  print_block(kernel, kernel.body, 0, text);
  return text;
}

std::string kernel_key(const Kernel& kernel) {
  return sha256_hex(kernel_text(kernel));
}

namespace {

/// Whether two positions differ in every pair of iterations: the same terms,
/// all of one multiple, and constants that are not that far apart. So do the
/// elements of rows that are written out.
bool never_meet(const IndexTable& indices, int32_t left, int32_t right) {
  const IndexExpression &a = indices.at(left), &b = indices.at(right);
  if (a.terms != b.terms || a.terms.empty()) return false;
  int64_t step = 0;
  for (const IndexTerm& term : a.terms) step = std::gcd(step, term.coefficient);
  return (a.constant - b.constant) % step != 0;
}

}  // namespace

bool in_place_safe(const Kernel& kernel, size_t input, size_t output) {
  const KernelArgument& from = kernel.arguments.at(input);
  const KernelArgument& to = kernel.arguments.at(output);
  if (from.is_output || !to.is_output || from.type != to.type ||
      from.elements != to.elements) {
    return false;
  }
  std::vector<Access> loads, stores;
  size_t order = 0;
  find_accesses(kernel, kernel.body, 0, true, input, output, order, loads,
                stores);
  for (const Access& load : loads) {
    for (const Access& store : stores) {
      if (load.nest < store.nest) continue;
      if (load.nest != store.nest) return false;
      if (never_meet(kernel.indices, load.index, store.index)) continue;
      if (load.index != store.index || load.order > store.order || !store.plain)
        return false;
    }
  }
  return true;
}

std::vector<const KernelStatement*> plain_nest(const Kernel& kernel,
                                               const KernelStatement& loop) {
  using Kind = KernelStatement::Kind;
  std::vector<const KernelStatement*> nest;
  for (const KernelStatement* at = &loop; at != nullptr;) {
    if (!kernel.loops[static_cast<size_t>(at->target)].independent) return {};
    nest.push_back(at);
    const bool is_innermost = at->body.back().kind != Kind::kLoop;
    for (const KernelStatement& inner : at->body) {
      const bool is_next = !is_innermost && &inner == &at->body.back();
      const bool is_stored = is_innermost && inner.kind == Kind::kStore &&
                             inner.combine == Opcode::kParameter;
      if (inner.kind != Kind::kLet && !is_next && !is_stored) return {};
    }
    at = is_innermost ? nullptr : &at->body.back();
  }
  return nest;
}

}  // namespace reprise
