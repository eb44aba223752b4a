// Loops are printed as they stand; the host compiler vectorizes them. What it
// needs for that: independent loops say so by a pragma, lane loops keep kLanes
// partial results in a local array of fixed size, and elements narrower than a
// lane of f32 are widened row by row first; short rows that are
// written out go through columns. No arithmetic is reordered, so bits
// do not depend on the compiler's choices. Rows that stay as they are
// (kept_rows) are passed over where the kernel turns out to run in place.
#include "runtime/kernels/print_kernel.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "data/kernel/group.h"
#include "runtime/kernels/kept_rows.h"
#include "runtime/kernels/loop_segments.h"
#include "runtime/kernels/prelude_text.h"
#include "runtime/kernels/print_expression.h"
#include "runtime/kernels/row_blocks.h"

namespace reprise {
namespace {

/// Elements narrower than a lane of f32 stop g++ from vectorizing loops of
/// kLanes iterations well, so lane loops read and write them through wide
/// copies of the row.
bool is_narrow(PrimitiveType type) { return primitive_type_bits(type) < 32; }
constexpr int64_t kMaxWideCopy = 4096;
/// Rows of a block: its columns stay in the first-level cache.
constexpr int64_t kRowBlock = 64;

const char* wide_name(PrimitiveType type) {
  return type == PrimitiveType::kBF16 || type == PrimitiveType::kF16 ? "float"
                                                                     : "int";
}

class Printer {
 public:
  Printer(const Kernel& kernel, std::string_view name)
      : kernel_(kernel),
        name_(name),
        text_of_(kernel),
        index_type_(text_of_.index_type()) {}
  std::string print();

 private:
  std::string value(const KernelValue& value, int32_t id) const;
  void line(const std::string& text);
  void block(const std::vector<KernelStatement>& statements);
  void statement(const KernelStatement& statement);
  void store(const KernelStatement& store);
  void loop(const KernelStatement& loop);
  void body(const KernelStatement& loop);
  std::string first_of(int64_t from) const;
  std::string last_of(int64_t to, int64_t extent) const;
  template <typename Print>
  void each_row(const KernelStatement& loop, const Print& print);
  void row_blocks(const KernelStatement& loop, bool split);
  void lane_loop(const KernelStatement& loop);
  void wide_copies(const KernelStatement& loop, bool before);
  void total(const KernelValue& value, int32_t id);

  const Kernel& kernel_;
  std::string_view name_;
  ExpressionPrinter text_of_;
  const char* index_type_;
  std::string text_;
  size_t depth_ = 1;
  /// Lane loop whose narrow accesses go through wide copies.
  int32_t wide_loop_ = -1;
  bool split_ = false;  ///< The next loop is the one a caller may split.
};

void Printer::line(const std::string& text) {
  text_.append(2 * depth_, ' ');
  text_ += text;
  text_ += '\n';
}

std::string Printer::value(const KernelValue& value, int32_t id) const {
  const TypeNames names = names_of(value.type);
  switch (value.kind) {
    case KernelValue::Kind::kLiteral:
      return literal_text(value.type, value.literal);
    case KernelValue::Kind::kLoad:
      if (wide_loop_ < 0 || !is_narrow(value.type)) return text_of_.load(value);
      return fmt::format("({})w{}[i{}]", names.local, id, wide_loop_);
    case KernelValue::Kind::kScratch:
      return fmt::format("({})s{}[{}]", names.local, value.source,
                         text_of_.index(value.index));
    case KernelValue::Kind::kIndex:
      return rounded(value.type, fmt::format("rk_to_{}({})", names.suffix,
                                             text_of_.index(value.index)));
    default:
      return text_of_.apply(value);
  }
}

void Printer::total(const KernelValue& value, int32_t id) {
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

void Printer::store(const KernelStatement& store) {
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
  const std::string guard =
      store.guard < 0 ? "" : fmt::format("if (v{}) ", store.guard);
  line(fmt::format("{}{} = {}({});", guard, place, names.store, stored));
}

void Printer::statement(const KernelStatement& statement) {
  switch (statement.kind) {
    case KernelStatement::Kind::kLet: {
      const KernelValue& let =
          kernel_.values[static_cast<size_t>(statement.value)];
      if (let.kind == KernelValue::Kind::kTotal) {
        total(let, statement.value);
      } else {
        line(fmt::format("const {} v{} = {};", names_of(let.type).local,
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

void Printer::block(const std::vector<KernelStatement>& statements) {
  for (const KernelStatement& inner : statements) statement(inner);
}

/// An iteration's statements; none of them once it is clear that in place it
/// would change nothing.
void Printer::body(const KernelStatement& loop) {
  const std::optional<KeptRows> kept = kept_rows(kernel_, loop);
  std::string in_place;
  for (const auto& [input, output] :
       kept ? kept->in_place : std::vector<std::pair<int32_t, int32_t>>()) {
    in_place +=
        fmt::format(" && (const void*)a{} == (const void*)a{}", input, output);
  }
  for (const KernelStatement& inner : loop.body) {
    statement(inner);
    if (kept && inner.kind == KernelStatement::Kind::kLet &&
        inner.value == kept->changed)
      line(fmt::format("if (!v{}{}) continue;", kept->changed, in_place));
  }
}

/// Fills the wide copies of what a lane loop reads, or writes back what it
/// wrote.
void Printer::wide_copies(const KernelStatement& loop, bool before) {
  const int64_t extent = kernel_.loops[static_cast<size_t>(loop.target)].extent;
  const std::string each =
      fmt::format("for ({0} i{1} = 0; i{1} < {2}; ++i{1}) ", index_type_,
                  loop.target, extent);
  for (const KernelStatement& inner : loop.body) {
    if (inner.kind == KernelStatement::Kind::kLet && before) {
      const KernelValue& let = kernel_.values[static_cast<size_t>(inner.value)];
      if (let.kind != KernelValue::Kind::kLoad || !is_narrow(let.type))
        continue;
      line(fmt::format("alignas(64) {} w{}[{}];", wide_name(let.type),
                       inner.value, extent));
      line("#pragma omp simd");
      // A pred's byte is copied as it is: only its use asks whether it is zero.
      const std::string source =
          let.type == PrimitiveType::kPred
              ? fmt::format("a{}[{}]", let.source, text_of_.index(let.index))
              : text_of_.load(let);
      line(each +
           fmt::format("w{}[i{}] = {};", inner.value, loop.target, source));
    } else if (inner.kind == KernelStatement::Kind::kStore) {
      const PrimitiveType type =
          kernel_.arguments[static_cast<size_t>(inner.target)].type;
      if (!is_narrow(type)) continue;
      if (before) {
        line(fmt::format("alignas(64) {} o{}[{}];", wide_name(type),
                         inner.target, extent));
        continue;
      }
      line("#pragma omp simd");
      line(each + fmt::format("a{}[{}] = {}(o{}[i{}]);", inner.target,
                              text_of_.index(inner.index), names_of(type).store,
                              inner.target, loop.target));
    }
  }
}

/// A loop that fills lanes: whole blocks of kLanes, then the rest, by one body.
void Printer::lane_loop(const KernelStatement& loop) {
  const int64_t extent = kernel_.loops[static_cast<size_t>(loop.target)].extent;
  const int64_t whole = extent / kLanes * kLanes;
  // Wide copies need loads and plain stores whose index depends on no value of
  // the body.
  bool wide = extent <= kMaxWideCopy;
  for (const KernelStatement& inner : loop.body) {
    if (inner.kind == KernelStatement::Kind::kStore &&
        inner.combine != Opcode::kParameter) {
      wide =
          wide &&
          !is_narrow(kernel_.arguments[static_cast<size_t>(inner.target)].type);
    }
    if (inner.kind != KernelStatement::Kind::kLet) continue;
    const KernelValue& let = kernel_.values[static_cast<size_t>(inner.value)];
    if (let.kind == KernelValue::Kind::kLoad && is_narrow(let.type)) {
      wide = wide && !contains_value(kernel_.indices, let.index);
    }
  }
  line("{");
  ++depth_;
  if (wide) {
    wide_copies(loop, true);
    wide_loop_ = loop.target;
  }
  const auto body = [&](const std::string& first, int64_t count) {
    line("#pragma omp simd");
    line(fmt::format("for (int l = 0; l < {}; ++l) {{", count));
    ++depth_;
    line(
        fmt::format("const {} i{} = {} + l;", index_type_, loop.target, first));
    block(loop.body);
    --depth_;
    line("}");
  };
  if (whole > 0) {
    line(fmt::format("for ({0} b = 0; b < {1}; b += {2}) {{", index_type_,
                     whole, kLanes));
    ++depth_;
    body("b", kLanes);
    --depth_;
    line("}");
  }
  if (whole < extent) body(fmt::format("{}", whole), extent - whole);
  wide_loop_ = -1;
  if (wide) wide_copies(loop, false);
  --depth_;
  line("}");
}

/// `print` of each statement of a loop and its number, inside of a loop over
/// the `count` rows from b on.
template <typename Print>
void Printer::each_row(const KernelStatement& loop, const Print& print) {
  line("#pragma omp simd");
  line(fmt::format("for ({} l = 0; l < count; ++l) {{", index_type_));
  ++depth_;
  line(fmt::format("const {} i{} = b + l;", index_type_, loop.target));
  for (size_t i = 0; i < loop.body.size(); ++i) print(loop.body[i], i);
  --depth_;
  line("}");
}

/// A loop over rows of short arrays (row_blocks.h), by blocks.
void Printer::row_blocks(const KernelStatement& loop, bool split) {
  const int64_t extent = kernel_.loops[static_cast<size_t>(loop.target)].extent;
  const std::string end =
      split ? last_of(extent, extent) : std::to_string(extent);
  line(fmt::format("for ({0} b = {1}; b < {2}; b += {3}) {{", index_type_,
                   split ? first_of(0) : "0", end, kRowBlock));
  ++depth_;
  line(fmt::format("const {0} left = {1} - b, count = left < {2} ? left : {2};",
                   index_type_, end, kRowBlock));
  const auto value_of =
      [&](const KernelStatement& inner) -> const KernelValue& {
    return kernel_.values[static_cast<size_t>(inner.value)];
  };
  for (size_t i = 0; i < loop.body.size(); ++i) {
    const KernelStatement& inner = loop.body[i];
    if (inner.kind != KernelStatement::Kind::kStore &&
        !is_plain_load(kernel_, inner))
      continue;
    const PrimitiveType type = value_of(inner).type;
    line(
        fmt::format("alignas(64) {} c{}[{}];",
                    type == PrimitiveType::kPred ? "int" : names_of(type).local,
                    i, kRowBlock));
  }
  each_row(loop, [&](const KernelStatement& inner, size_t i) {
    if (!is_plain_load(kernel_, inner)) return;
    line(fmt::format("c{}[l] = {};", i, text_of_.load(value_of(inner))));
  });
  each_row(loop, [&](const KernelStatement& inner, size_t i) {
    if (is_plain_load(kernel_, inner)) {
      line(fmt::format("const {} v{} = c{}[l];",
                       names_of(value_of(inner).type).local, inner.value, i));
    } else if (inner.kind == KernelStatement::Kind::kStore) {
      line(fmt::format("c{}[l] = v{};", i, inner.value));
    } else {
      statement(inner);
    }
  });
  each_row(loop, [&](const KernelStatement& inner, size_t i) {
    if (inner.kind != KernelStatement::Kind::kStore) return;
    const KernelArgument& to =
        kernel_.arguments[static_cast<size_t>(inner.target)];
    line(fmt::format("a{}[{}] = {}(c{}[l]);", inner.target,
                     text_of_.index(inner.index), names_of(to.type).store, i));
  });
  --depth_;
  line("}");
}

void Printer::loop(const KernelStatement& loop) {
  const KernelLoop& range = kernel_.loops[static_cast<size_t>(loop.target)];
  bool innermost = true, lanes = false;
  for (const KernelStatement& inner : loop.body) {
    innermost = innermost && inner.kind != KernelStatement::Kind::kLoop;
    lanes = lanes || inner.kind == KernelStatement::Kind::kAccumulate;
  }
  const bool split = split_;
  split_ = false;
  if (lanes) {
    lane_loop(loop);
    return;
  }
  const bool simd = innermost && range.independent;
  if (simd && writes_rows(kernel_, loop)) {
    row_blocks(loop, split);
    return;
  }
  const std::vector<int64_t> borders =
      simd ? loop_segments(kernel_, loop)
           : std::vector<int64_t>{0, range.extent};
  for (size_t s = 0; s + 1 < borders.size(); ++s) {
    const int64_t from = borders[s], to = borders[s + 1];
    if (simd) line("#pragma omp simd");
    line(fmt::format("for ({0} i{1} = {2}; i{1} < {3}; ++i{1}) {{", index_type_,
                     loop.target, split ? first_of(from) : std::to_string(from),
                     split ? last_of(to, range.extent) : std::to_string(to)));
    ++depth_;
    body(loop);
    --depth_;
    line("}");
  }
}

/// Where the caller's part of the loop begins in a piece from `from` on.
std::string Printer::first_of(int64_t from) const {
  return from == 0 ? fmt::format("({})begin", index_type_)
                   : fmt::format("({0})(begin > {1} ? begin : {1})",
                                 index_type_, from);
}

/// Where it ends in a piece up to `to`.
std::string Printer::last_of(int64_t to, int64_t extent) const {
  return to == extent
             ? fmt::format("({})end", index_type_)
             : fmt::format("({0})(end < {1} ? end : {1})", index_type_, to);
}

std::string Printer::print() {
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
  split_ = outer_extent(kernel_) > 1;
  if (!split_) line("(void)begin, (void)end;");
  block(kernel_.body);
  text_ += "}\n";
  return std::move(text_);
}

}  // namespace

std::string print_kernel(const Kernel& kernel, std::string_view name) {
  return Printer(kernel, name).print();
}

std::string_view kernel_prelude() { return kPreludeText; }

}  // namespace reprise
