// Loops of kernels for the CPU, by what they are: lane loops of fixed width,
// rows of short arrays by blocks of rows, pieces of concatenations, and the
// rest as they stand.
#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/kernels/host_printer.h"
#include "runtime/kernels/kept_rows.h"
#include "runtime/kernels/loop_segments.h"
#include "runtime/kernels/loop_tiles.h"
#include "runtime/kernels/row_blocks.h"

namespace reprise {
namespace {

constexpr int64_t kMaxWideCopy = 4096;
/// Rows of a block: its columns stay in the second-level cache, and of 64 rows
/// g++ 12 makes poor vectors (8 to 14 inputs in the cache: 9 GB/s for 30).
constexpr int64_t kRowBlock = 256;
/// From so many columns on blocks are of few rows, for a thread's stack.
constexpr size_t kManyColumns = 256;
constexpr int64_t kFewRows = 64;

const char* wide_name(PrimitiveType type) {
  return type == PrimitiveType::kBF16 || type == PrimitiveType::kF16 ? "float"
                                                                     : "int";
}

/// What all stores of a loop ask before they store, where it stays the same
/// and nothing else is done; -1: no such thing. Asked once, it keeps no host
/// compiler from vectors (of f16 GCC 12 made none: 6.8 ns an element for 0.4).
int32_t common_guard(const KernelStatement& loop) {
  int32_t guard = -1;
  for (const KernelStatement& inner : loop.body) {
    if (inner.kind == KernelStatement::Kind::kLet) continue;
    if (inner.kind != KernelStatement::Kind::kStore || inner.guard < 0 ||
        (guard >= 0 && inner.guard != guard))
      return -1;
    guard = inner.guard;
  }
  const bool is_made_here = std::any_of(
      loop.body.begin(), loop.body.end(), [&](const KernelStatement& inner) {
        return inner.kind == KernelStatement::Kind::kLet &&
               inner.value == guard;
      });
  return is_made_here ? -1 : guard;
}

}  // namespace

/// Whether each pair of arguments is one array, as the kernel finds out.
std::string HostPrinter::is_in_place(const KeptRows& kept) const {
  std::vector<std::string> same;
  for (const auto& [input, output] : kept.in_place)
    same.push_back(
        fmt::format("(const void*)a{} == (const void*)a{}", input, output));
  return fmt::format("{}", fmt::join(same, " && "));
}

/// Opens a block that knows from where to where a loop changes anything where
/// it runs in place; false, and nothing opened, where that is not to be known.
bool HostPrinter::changed_rows(const KernelStatement& loop) {
  const std::optional<KeptRows> kept = kept_elements(kernel_, loop.body);
  if (!kept) return false;
  const std::vector<ChangedRange> ranges = changed_ranges(kernel_, loop, *kept);
  if (ranges.empty()) return false;
  const int64_t extent = kernel_.loops[static_cast<size_t>(loop.target)].extent;
  line("{");
  ++depth_;
  line(fmt::format("rk_s64 f{0} = 0, t{0} = {1};", loop.target, extent));
  line(fmt::format("if ({}) {{", is_in_place(*kept)));
  ++depth_;
  line(fmt::format("const {} i{} = 0;", index_type_, loop.target));
  for (const ChangedRange& range : ranges) {
    const std::string shift = text_of_.index(range.expression);
    line(fmt::format("f{0} = rk_maximum<rk_s64>(f{0}, {1} - ({2}));",
                     loop.target, range.low, shift));
    line(fmt::format("t{0} = rk_minimum<rk_s64>(t{0}, {1} - ({2}));",
                     loop.target, range.high + 1, shift));
  }
  --depth_;
  line("}");
  return true;
}

/// An iteration's statements; none of them once it is clear that in place it
/// would change nothing.
void HostPrinter::body(const KernelStatement& loop) {
  const std::optional<KeptRows> kept = kept_rows(kernel_, loop);
  for (const KernelStatement& inner : loop.body) {
    statement(inner);
    if (kept && inner.kind == KernelStatement::Kind::kLet &&
        inner.value == kept->changed)
      line(fmt::format("if (!v{} && {}) continue;", kept->changed,
                       is_in_place(*kept)));
  }
}

/// Fills the wide copies of what a lane loop reads, or writes back what it
/// wrote.
void HostPrinter::wide_copies(const KernelStatement& loop, bool before) {
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
void HostPrinter::lane_loop(const KernelStatement& loop) {
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
void HostPrinter::each_row(const KernelStatement& loop, const Print& print) {
  line("#pragma omp simd");
  line(fmt::format("for ({} l = 0; l < count; ++l) {{", index_type_));
  ++depth_;
  line(fmt::format("const {} i{} = b + l;", index_type_, loop.target));
  for (size_t i = 0; i < loop.body.size(); ++i) print(loop.body[i], i);
  --depth_;
  line("}");
}

/// A loop over rows of short arrays (row_blocks.h), by blocks.
void HostPrinter::row_blocks(const KernelStatement& loop, bool split) {
  in_columns_ = true;
  std::vector<size_t> columns;  // Statements.
  for (size_t i = 0; i < loop.body.size(); ++i) {
    if (loop.body[i].kind == KernelStatement::Kind::kStore ||
        is_plain_load(kernel_, loop.body[i]))
      columns.push_back(i);
  }
  const int64_t block = columns.size() < kManyColumns ? kRowBlock : kFewRows;
  const int64_t extent = kernel_.loops[static_cast<size_t>(loop.target)].extent;
  const std::string end =
      split ? last_of(extent, extent) : std::to_string(extent);
  line(fmt::format("for ({0} b = {1}; b < {2}; b += {3}) {{", index_type_,
                   split ? first_of(0) : "0", end, block));
  ++depth_;
  line(fmt::format("const {0} left = {1} - b, count = left < {2} ? left : {2};",
                   index_type_, end, block));
  const auto value_of =
      [&](const KernelStatement& inner) -> const KernelValue& {
    return kernel_.values[static_cast<size_t>(inner.value)];
  };
  for (const size_t i : columns) {
    const PrimitiveType type = value_of(loop.body[i]).type;
    line(fmt::format(
        "alignas(64) {} c{}[{}];",
        type == PrimitiveType::kPred ? "int" : names_of(type).local, i, block));
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
  in_columns_ = false;
}

/// Opens a loop over blocks of another's iterations: from `b` on, to below `e`.
void HostPrinter::block_loop(int32_t loop, const std::string& from,
                             const std::string& to, bool is_whole) {
  line(fmt::format("for ({0} b{1} = {2}; b{1} < {3}; b{1} += {4}) {{",
                   index_type_, loop, from, to, kTile));
  ++depth_;
  const std::string end = fmt::format("b{} + {}", loop, kTile);
  line(fmt::format(
      "const {} e{} = {};", index_type_, loop,
      is_whole ? end : fmt::format("{0} < {1} ? {0} : {1}", end, to)));
}

/// Loops by square blocks of the first and the last of them.
void HostPrinter::tile(const LoopTile& tile, bool split) {
  const KernelStatement& outer = *tile.nest.front();
  const KernelStatement& inner = *tile.nest.back();
  const auto extent = [&](const KernelStatement& loop) {
    return kernel_.loops[static_cast<size_t>(loop.target)].extent;
  };
  const auto open = [&](int32_t loop, const std::string& from,
                        const std::string& to) {
    line(fmt::format("for ({0} i{1} = {2}; i{1} < {3}; ++i{1}) {{", index_type_,
                     loop, from, to));
    ++depth_;
  };
  block_loop(outer.target, split ? first_of(0) : "0",
             split ? last_of(extent(outer), extent(outer))
                   : std::to_string(extent(outer)),
             !split && extent(outer) % kTile == 0);
  for (size_t i = 1; i + 1 < tile.nest.size(); ++i)
    open(tile.nest[i]->target, "0", std::to_string(extent(*tile.nest[i])));
  block_loop(inner.target, "0", std::to_string(extent(inner)),
             extent(inner) % kTile == 0);
  for (const bool first : {true, false}) {
    const int32_t loop = (first == tile.is_turned ? inner : outer).target;
    if (!first) line("#pragma omp simd");
    open(loop, fmt::format("b{}", loop), fmt::format("e{}", loop));
  }
  for (const KernelStatement* const each : tile.nest) {
    for (const KernelStatement& statement : each->body) {
      if (statement.kind != KernelStatement::Kind::kLoop)
        this->statement(statement);
    }
  }
  for (size_t braces = tile.nest.size() + 2; braces > 0; --braces) {
    --depth_;
    line("}");
  }
}

/// Nothing of a loop that in place would change nothing.
void HostPrinter::loop(const KernelStatement& loop) {
  const auto copied = copied_in_place(kernel_, loop);
  if (copied.empty() || in_copy_) {
    loop_itself(loop);
    return;
  }
  std::vector<std::string> apart;
  for (const auto& [input, output] : copied)
    apart.push_back(
        fmt::format("(const void*)a{} != (const void*)a{}", input, output));
  line(fmt::format("if ({}) {{", fmt::join(apart, " || ")));
  ++depth_;
  in_copy_ = true;
  loop_itself(loop);
  in_copy_ = false;
  --depth_;
  line("}");
}

void HostPrinter::loop_itself(const KernelStatement& loop) {
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
  if (const std::optional<LoopTile> blocks = loop_tile(kernel_, loop)) {
    tile(*blocks, split);
    return;
  }
  const bool simd = innermost && range.independent;
  if (simd && goes_through_columns(kernel_, loop)) {
    row_blocks(loop, split);
    return;
  }
  asked_ = innermost ? common_guard(loop) : -1;
  if (asked_ >= 0) {
    line(fmt::format("if (v{}) {{", asked_));
    ++depth_;
  }
  const bool ranged = changed_rows(loop);
  const std::vector<int64_t> borders =
      simd ? loop_segments(kernel_, loop)
           : std::vector<int64_t>{0, range.extent};
  for (size_t s = 0; s + 1 < borders.size(); ++s) {
    const int64_t from = borders[s], to = borders[s + 1];
    std::string first = split ? first_of(from) : std::to_string(from);
    std::string last = split ? last_of(to, range.extent) : std::to_string(to);
    if (ranged) {
      first = fmt::format("({})rk_maximum<rk_s64>(f{}, {})", index_type_,
                          loop.target, first);
      last = fmt::format("({})rk_minimum<rk_s64>(t{}, {})", index_type_,
                         loop.target, last);
    }
    if (simd) line("#pragma omp simd");
    line(fmt::format("for ({0} i{1} = {2}; i{1} < {3}; ++i{1}) {{", index_type_,
                     loop.target, first, last));
    ++depth_;
    body(loop);
    --depth_;
    line("}");
  }
  if (ranged) {
    --depth_;
    line("}");
  }
  if (asked_ < 0) return;
  asked_ = -1;
  --depth_;
  line("}");
}

/// Where the caller's part of the loop begins in a piece from `from` on.
std::string HostPrinter::first_of(int64_t from) const {
  return from == 0 ? fmt::format("({}){}", index_type_, begin_)
                   : fmt::format("({0})({1} > {2} ? {1} : {2})", index_type_,
                                 begin_, from);
}

/// Where it ends in a piece up to `to`.
std::string HostPrinter::last_of(int64_t to, int64_t extent) const {
  return to == extent ? fmt::format("({}){}", index_type_, end_)
                      : fmt::format("({0})({1} < {2} ? {1} : {2})", index_type_,
                                    end_, to);
}

/// What of the caller's range falls in one part.
void HostPrinter::part(const KernelPart& part, bool only) {
  split_ = part.is_loop();
  begin_ = "begin";
  end_ = "end";
  if (!only) {
    line("{");
    ++depth_;
    line(
        fmt::format("const long long from = begin > {0} ? begin - {0} : 0, "
                    "to = end < {1} ? end - {0} : {2};",
                    part.begin, part.end, part.end - part.begin));
    begin_ = "from";
    end_ = "to";
    if (!split_) {
      line("if (from < to) {");
      ++depth_;
    }
  } else if (!split_) {
    line("(void)begin, (void)end;");
  }
  for (const size_t place : part.statements) statement(kernel_.body[place]);
  for (int braces = only ? 0 : part.is_loop() ? 1 : 2; braces > 0; --braces) {
    --depth_;
    line("}");
  }
}

}  // namespace reprise
