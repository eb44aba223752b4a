// Loops are printed as they stand; the host compiler vectorizes them. What it
// needs for that: independent loops say so by a pragma, lane loops keep kLanes
// partial results in a local array of fixed size, and elements narrower than a
// lane of f32 are widened row by row first; short rows that are
// written out go through columns. No arithmetic is reordered, so bits
// do not depend on the compiler's choices. Rows that stay as they are
// (kept_rows) are passed over where the kernel turns out to run in place.
#include "runtime/kernels/print_kernel.h"

#include "data/kernel/group.h"
#include "runtime/kernels/host_printer.h"
#include "runtime/kernels/prelude_text.h"

namespace reprise {

void HostPrinter::line(const std::string& text) {
  text_.append(2 * depth_, ' ');
  text_ += text;
  text_ += '\n';
}

std::string HostPrinter::value(const KernelValue& value, int32_t id) const {
  const TypeNames names = names_of(value.type);
  switch (value.kind) {
    case KernelValue::Kind::kLiteral:
      return literal_text(value.type, value.literal);
    case KernelValue::Kind::kLoad:
      if (is_moved(id))
        return fmt::format("a{}[{}]", value.source,
                           text_of_.index(value.index));
      if (wide_loop_ < 0 || !is_narrow(value.type)) return text_of_.load(value);
      return fmt::format("({})w{}[i{}]", names.local, id, wide_loop_);
    case KernelValue::Kind::kScratch:
      return fmt::format("({})s{}[{}]", names.local, value.source,
                         text_of_.index(value.index));
    case KernelValue::Kind::kIndex:
      return rounded(value.type, fmt::format("rk_to_{}({})", names.suffix,
                                             text_of_.index(value.index)));
    default:
      if (blended_[static_cast<size_t>(id)])
        return fmt::format("rk_blend<{}>(v{}, v{}, v{})", names.local,
                           value.operands[0], value.operands[1],
                           value.operands[2]);
      return text_of_.apply(value);
  }
}

void HostPrinter::total(const KernelValue& value, int32_t id) {
  const KernelAccumulator& accumulator =
      kernel_.accumulators[static_cast<size_t>(value.source)];
  const TypeNames names = names_of(value.type);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    const std::string combined =
        rounded(value.type, fmt::format("{0}(r{1}[l], r{1}[l + {2}])",
                                        facts_of(accumulator.combine).function,
                                        value.source, width));
    if (width > 2) line("#pragma omp simd");
    line(fmt::format("for (int l = 0; l < {}; ++l) r{}[l] = {};", width,
                     value.source, combined));
  }
  line(fmt::format("const {} v{} = r{}[0];", names.local, id, value.source));
}

void HostPrinter::store(const KernelStatement& store) {
  const KernelArgument& argument =
      kernel_.arguments[static_cast<size_t>(store.target)];
  const TypeNames names = names_of(argument.type);
  const std::string place =
      fmt::format("a{}[{}]", store.target, text_of_.index(store.index));
  std::string stored = fmt::format("v{}", store.value);
  if (store.combine != Opcode::kParameter) {
    stored = rounded(
        argument.type,
        fmt::format("{}(({}){}({}), {})", facts_of(store.combine).function,
                    names.local, names.load, place, stored));
  }
  if (wide_loop_ >= 0 && is_narrow(argument.type)) {
    line(fmt::format("o{}[i{}] = {};", store.target, wide_loop_, stored));
    return;
  }
  const std::string guard = store.guard < 0 || store.guard == asked_
                                ? ""
                                : fmt::format("if (v{}) ", store.guard);
  line(fmt::format("{}{} = {}({});", guard, place,
                   is_moved(store.value) ? "" : names.store, stored));
}

void HostPrinter::statement(const KernelStatement& statement) {
  switch (statement.kind) {
    case KernelStatement::Kind::kLet: {
      const KernelValue& let =
          kernel_.values[static_cast<size_t>(statement.value)];
      if (let.kind == KernelValue::Kind::kTotal) {
        total(let, statement.value);
      } else {
        const TypeNames names = names_of(let.type);
        line(fmt::format("const {} v{} = {};",
                         is_moved(statement.value) ? names.memory : names.local,
                         statement.value, value(let, statement.value)));
      }
      break;
    }
    case KernelStatement::Kind::kLoop:
      loop(statement);
      break;
    case KernelStatement::Kind::kReset: {
      const KernelAccumulator& accumulator =
          kernel_.accumulators[static_cast<size_t>(statement.target)];
      line(fmt::format("{} r{}[{}];", names_of(accumulator.type).local,
                       statement.target, kLanes));
      line(fmt::format(
          "for (int l = 0; l < {}; ++l) r{}[l] = {};", kLanes, statement.target,
          literal_text(accumulator.type,
                       identity_bits(accumulator.combine, accumulator.type))));
      break;
    }
    case KernelStatement::Kind::kAccumulate: {
      const KernelAccumulator& accumulator =
          kernel_.accumulators[static_cast<size_t>(statement.target)];
      line(fmt::format(
          "r{0}[l] = {1};", statement.target,
          rounded(accumulator.type,
                  fmt::format("{}(r{}[l], v{})",
                              facts_of(accumulator.combine).function,
                              statement.target, statement.value))));
      break;
    }
    case KernelStatement::Kind::kStore:
      store(statement);
      break;
    case KernelStatement::Kind::kScratchStore:
      line(fmt::format("s{}[{}] = v{};", statement.target,
                       text_of_.index(statement.index), statement.value));
      break;
  }
}

void HostPrinter::block(const std::vector<KernelStatement>& statements) {
  for (const KernelStatement& inner : statements) statement(inner);
}

std::string HostPrinter::print() {
  text_ = fmt::format(
      "extern \"C\" void {}(void* const* args, long long begin, long long end) "
      "{{\n",
      name_);
  for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
    const KernelArgument& argument = kernel_.arguments[i];
    line(fmt::format("{0}{1}* a{2} = ({0}{1}*)args[{2}];",
                     argument.is_output ? "" : "const ",
                     names_of(argument.type).memory, i));
  }
  for (size_t i = 0; i < kernel_.scratches.size(); ++i) {
    const PrimitiveType type = kernel_.scratches[i].type;
    line(
        fmt::format("alignas(64) {} s{}[{}];",
                    type == PrimitiveType::kPred ? "int" : names_of(type).local,
                    i, kernel_.scratches[i].elements));
  }
  const KernelParts parts = kernel_parts(kernel_);
  for (const size_t place : parts.always) statement(kernel_.body[place]);
  for (const KernelPart& each : parts.parts)
    part(each, parts.parts.size() == 1);
  text_ += "}\n";
  return std::move(text_);
}

std::string print_kernel(const Kernel& kernel, std::string_view name) {
  return HostPrinter(kernel, name).print();
}

std::string_view kernel_prelude() { return kPreludeText; }

}  // namespace reprise
