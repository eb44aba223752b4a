// A vector interpreter in the manner of MonetDB/X100: an innermost loop whose
// iterations are independent runs in blocks of 256, each statement over the
// whole block before the next, so that the cost of dispatch is shared.
// Everything else runs one iteration at a time. Element operations are the same
// inline functions that generated code calls, which is why the bits agree.
#include "runtime/kernels/interpreter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "data/kernel/group.h"
#include "data/kernel/kernel_parts.h"
#include "runtime/kernels/element_ops.h"

namespace reprise {
namespace {

/// Iterations of an innermost loop that run together.
constexpr int64_t kBlock = 256;

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, void* const* arguments)
      : kernel_(kernel),
        arguments_(arguments),
        buffers_(kernel.values.size() * kBlock),
        varying_(kernel.values.size(), false),
        loops_(kernel.loops.size(), 0),
        lanes_(kernel.accumulators.size() * kLanes) {
    for (const KernelScratch& scratch : kernel.scratches) {
      scratches_.emplace_back(static_cast<size_t>(scratch.elements));
    }
  }

  void run(int64_t begin, int64_t end) {
    const KernelParts parts = kernel_parts(kernel_);
    for (const size_t place : parts.always) statement(kernel_.body[place]);
    for (const KernelPart& part : parts.parts) {
      const int64_t from = std::max(begin, part.begin) - part.begin;
      const int64_t to = std::min(end, part.end) - part.begin;
      if (from >= to) continue;
      if (part.is_loop()) {
        loop(kernel_.body[part.statements.front()], from, to);
        continue;
      }
      for (const size_t place : part.statements) statement(kernel_.body[place]);
    }
  }

 private:
  struct alignas(8) Cell {
    std::byte bytes[8];
  };

  template <typename T>
  T* buffer(int32_t value) {
    return reinterpret_cast<T*>(&buffers_[static_cast<size_t>(value) * kBlock]);
  }
  template <typename T>
  Column<T> column(int32_t value) {
    return {buffer<T>(value), varying_[static_cast<size_t>(value)] ? 1 : 0};
  }
  PrimitiveType type_of(int32_t value) const {
    return kernel_.values[static_cast<size_t>(value)].type;
  }

  int64_t evaluate(int32_t expression, int64_t k);
  int64_t evaluate_atom(const IndexAtom& atom, int64_t k);
  /// Positions of an expression in this block.
  void positions(int32_t expression);
  void block(const std::vector<KernelStatement>& statements);
  void statement(const KernelStatement& statement);
  /// Iterations [from, to) of it.
  void loop(const KernelStatement& loop, int64_t from, int64_t to);
  void let(int32_t id);
  void apply(int32_t id, const KernelValue& value);
  void apply_convert(int32_t id, const KernelValue& value);
  void apply_select(int32_t id, const KernelValue& value);
  template <typename T>
  void apply_function(int32_t id, const KernelValue& value);
  void apply_same(int32_t id, const KernelValue& value);
  void total(int32_t id, const KernelValue& value);
  void reset(int32_t accumulator);
  void accumulate(const KernelStatement& statement);
  void store(const KernelStatement& statement);

  const Kernel& kernel_;
  void* const* arguments_;
  std::vector<Cell> buffers_;
  std::vector<bool> varying_;
  std::vector<int64_t> loops_;
  std::vector<Cell> lanes_;
  std::vector<std::vector<Cell>> scratches_;
  std::array<int64_t, kBlock> positions_{};
  int64_t count_ = 1;  ///< Iterations of this block.
  int32_t vector_loop_ = -1;
};

int64_t Interpreter::evaluate_atom(const IndexAtom& atom, int64_t k) {
  switch (atom.kind) {
    case IndexAtom::Kind::kLoop:
      return loops_[static_cast<size_t>(atom.operand)] +
             (atom.operand == vector_loop_ ? k : 0);
    case IndexAtom::Kind::kValue: {
      int64_t result = 0;
      with_type(type_of(atom.operand), [&](auto zero) {
        using T = decltype(zero);
        result = convert<rk_s64>(column<T>(atom.operand)[k]);
      });
      return std::clamp(result, atom.low, atom.high);
    }
    case IndexAtom::Kind::kFloorDiv:
      return evaluate(atom.operand, k) / atom.divisor;
    case IndexAtom::Kind::kMod:
      return evaluate(atom.operand, k) % atom.divisor;
    case IndexAtom::Kind::kClamp:
      return std::clamp(evaluate(atom.operand, k), atom.low, atom.high);
  }
  return 0;
}

int64_t Interpreter::evaluate(int32_t expression, int64_t k) {
  const IndexExpression& sum = kernel_.indices.at(expression);
  int64_t result = sum.constant;
  for (const IndexTerm& term : sum.terms) {
    result +=
        term.coefficient * evaluate_atom(kernel_.indices.atom(term.atom), k);
  }
  return result;
}

void Interpreter::positions(int32_t expression) {
  int64_t step = 0;
  for (const IndexTerm& term : kernel_.indices.at(expression).terms) {
    const IndexAtom& atom = kernel_.indices.atom(term.atom);
    if (atom.kind != IndexAtom::Kind::kLoop) {
      for (int64_t k = 0; k < count_; ++k)
        positions_[static_cast<size_t>(k)] = evaluate(expression, k);
      return;
    }
    if (atom.operand == vector_loop_) step = term.coefficient;
  }
  const int64_t first = evaluate(expression, 0);
  for (int64_t k = 0; k < count_; ++k)
    positions_[static_cast<size_t>(k)] = first + step * k;
}

void Interpreter::apply_convert(int32_t id, const KernelValue& value) {
  const int32_t first = value.operands[0];
  const PrimitiveType from = type_of(first);
  with_type(from, [&](auto zero) {
    const auto a = column<decltype(zero)>(first);
    with_type(value.type, [&](auto target) {
      using R = decltype(target);
      R* out = buffer<R>(id);
      for (int64_t k = 0; k < count_; ++k) {
        if (value.opcode == Opcode::kConvert) {
          out[k] = convert<R>(a[k]);
          continue;
        }
        Cell cell{};
        to_memory(from, a[k], &cell);
        out[k] = from_memory<R>(value.type, &cell);
      }
    });
  });
}

void Interpreter::apply_select(int32_t id, const KernelValue& value) {
  const Column<bool> mask = column<bool>(value.operands[0]);
  with_type(value.type, [&](auto zero) {
    using T = decltype(zero);
    const Column<T> on = column<T>(value.operands[1]);
    const Column<T> off = column<T>(value.operands[2]);
    T* out = buffer<T>(id);
    for (int64_t k = 0; k < count_; ++k) out[k] = mask[k] ? on[k] : off[k];
  });
}

/// A function of the opcode table, of as many operands as there are.
template <typename T>
void Interpreter::apply_function(int32_t id, const KernelValue& value) {
  const auto operand = [&](int i) { return column<T>(value.operands[i]); };
  T* out = buffer<T>(id);
  bool known = false;
  if (value.operands[1] < 0) {
    known = unary<T>(value.opcode, operand(0), out, count_);
  } else if (value.operands[2] < 0) {
    known = binary<T>(value.opcode, operand(0), operand(1), out, count_);
  } else {
    known = ternary<T>(value.opcode, operand(0), operand(1), operand(2), out,
                       count_);
  }
  REPRISE_CHECK(known);
}

/// Ops of one operand type: comparisons, is-finite, arithmetic.
void Interpreter::apply_same(int32_t id, const KernelValue& value) {
  with_type(type_of(value.operands[0]), [&](auto zero) {
    using T = decltype(zero);
    const Column<T> a = column<T>(value.operands[0]);
    if (value.opcode == Opcode::kIsFinite) {
      is_finite(a, buffer<bool>(id), count_);
    } else if (value.opcode == Opcode::kCompare) {
      compare(value.comparison, a, column<T>(value.operands[1]),
              buffer<bool>(id), count_);
    } else {
      apply_function<T>(id, value);
    }
  });
}

void Interpreter::apply(int32_t id, const KernelValue& value) {
  switch (value.opcode) {
    case Opcode::kConvert:
    case Opcode::kBitcastConvert:
      apply_convert(id, value);
      break;
    case Opcode::kSelect:
      apply_select(id, value);
      break;
    default:
      apply_same(id, value);
  }
  if (is_rounded(value.type)) round_to(value.type, buffer<float>(id), count_);
}

void Interpreter::total(int32_t id, const KernelValue& value) {
  const size_t slot = static_cast<size_t>(value.source);
  const KernelAccumulator& accumulator = kernel_.accumulators[slot];
  with_type(value.type, [&](auto zero) {
    using T = decltype(zero);
    T* lanes = reinterpret_cast<T*>(&lanes_[slot * kLanes]);
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t l = 0; l < width; ++l) {
        binary<T>(accumulator.combine, {lanes + l, 0}, {lanes + l + width, 0},
                  lanes + l, 1);
      }
      round_to(value.type, lanes, width);
    }
    buffer<T>(id)[0] = lanes[0];
  });
}

void Interpreter::reset(int32_t accumulator) {
  const KernelAccumulator& lanes =
      kernel_.accumulators[static_cast<size_t>(accumulator)];
  const uint64_t bits = identity_bits(lanes.combine, lanes.type);
  with_type(lanes.type, [&](auto zero) {
    using T = decltype(zero);
    T* out = reinterpret_cast<T*>(
        &lanes_[static_cast<size_t>(accumulator) * kLanes]);
    std::fill_n(out, kLanes, from_memory<T>(lanes.type, &bits));
  });
}

void Interpreter::accumulate(const KernelStatement& statement) {
  const size_t slot = static_cast<size_t>(statement.target);
  const KernelAccumulator& accumulator = kernel_.accumulators[slot];
  with_type(accumulator.type, [&](auto zero) {
    using T = decltype(zero);
    T* lanes = reinterpret_cast<T*>(&lanes_[slot * kLanes]);
    const Column<T> value = column<T>(statement.value);
    const int64_t first = loops_[static_cast<size_t>(accumulator.lane_loop)];
    for (int64_t k = 0; k < count_; ++k) {
      T* lane = lanes + (first + k) % kLanes;
      const T element = value[k];
      binary<T>(accumulator.combine, {lane, 0}, {&element, 0}, lane, 1);
      round_to(accumulator.type, lane, 1);
    }
  });
}

void Interpreter::store(const KernelStatement& statement) {
  const bool scratch = statement.kind == KernelStatement::Kind::kScratchStore;
  const size_t target = static_cast<size_t>(statement.target);
  const PrimitiveType type =
      scratch ? kernel_.scratches[target].type : kernel_.arguments[target].type;
  positions(statement.index);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Column<T> value = column<T>(statement.value);
    for (int64_t k = 0; k < count_; ++k) {
      const int64_t place = positions_[static_cast<size_t>(k)];
      if (scratch) {
        reinterpret_cast<T*>(scratches_[target].data())[place] = value[k];
        continue;
      }
      if (statement.guard >= 0 && !column<bool>(statement.guard)[k]) continue;
      std::byte* memory = static_cast<std::byte*>(arguments_[target]) +
                          place * memory_bytes(type);
      T stored = value[k];
      if (statement.combine != Opcode::kParameter) {
        const T old = from_memory<T>(type, memory);
        const T added = stored;
        binary<T>(statement.combine, {&old, 0}, {&added, 0}, &stored, 1);
        round_to(type, &stored, 1);
      }
      to_memory(type, stored, memory);
    }
  });
}

void Interpreter::let(int32_t id) {
  const KernelValue& value = kernel_.values[static_cast<size_t>(id)];
  varying_[static_cast<size_t>(id)] = vector_loop_ >= 0;
  if (value.kind == KernelValue::Kind::kApply) return apply(id, value);
  if (value.kind == KernelValue::Kind::kTotal) return total(id, value);
  if (value.index >= 0) positions(value.index);
  with_type(value.type, [&](auto zero) {
    using T = decltype(zero);
    T* out = buffer<T>(id);
    for (int64_t k = 0; k < count_; ++k) {
      const int64_t place = positions_[static_cast<size_t>(k)];
      if (value.kind == KernelValue::Kind::kLiteral) {
        out[k] = from_memory<T>(value.type, &value.literal);
      } else if (value.kind == KernelValue::Kind::kIndex) {
        out[k] = convert<T>(static_cast<rk_s64>(place));
      } else if (value.kind == KernelValue::Kind::kScratch) {
        out[k] = reinterpret_cast<const T*>(
            scratches_[static_cast<size_t>(value.source)].data())[place];
      } else {
        const auto* memory =
            static_cast<const std::byte*>(arguments_[value.source]);
        out[k] = from_memory<T>(value.type,
                                memory + place * memory_bytes(value.type));
      }
    }
  });
  if (value.kind == KernelValue::Kind::kIndex && is_rounded(value.type)) {
    round_to(value.type, buffer<float>(id), count_);
  }
}

void Interpreter::loop(const KernelStatement& loop, int64_t from, int64_t to) {
  const KernelLoop& range = kernel_.loops[static_cast<size_t>(loop.target)];
  const bool innermost = std::none_of(
      loop.body.begin(), loop.body.end(), [](const KernelStatement& inner) {
        return inner.kind == KernelStatement::Kind::kLoop;
      });
  int64_t& variable = loops_[static_cast<size_t>(loop.target)];
  if (!innermost || !range.independent) {
    for (variable = from; variable < to; ++variable) block(loop.body);
    return;
  }
  vector_loop_ = loop.target;
  for (variable = from; variable < to; variable += kBlock) {
    count_ = std::min(kBlock, to - variable);
    block(loop.body);
  }
  vector_loop_ = -1;
  count_ = 1;
}

void Interpreter::statement(const KernelStatement& statement) {
  switch (statement.kind) {
    case KernelStatement::Kind::kLet:
      return let(statement.value);
    case KernelStatement::Kind::kLoop:
      return loop(statement, 0,
                  kernel_.loops[static_cast<size_t>(statement.target)].extent);
    case KernelStatement::Kind::kReset:
      return reset(statement.target);
    case KernelStatement::Kind::kAccumulate:
      return accumulate(statement);
    case KernelStatement::Kind::kStore:
    case KernelStatement::Kind::kScratchStore:
      return store(statement);
  }
}

void Interpreter::block(const std::vector<KernelStatement>& statements) {
  for (const KernelStatement& inner : statements) statement(inner);
}

}  // namespace

void interpret_kernel(const Kernel& kernel, void* const* arguments,
                      int64_t begin, int64_t end) {
  Interpreter(kernel, arguments).run(begin, end);
}

}  // namespace reprise
