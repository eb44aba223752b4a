// Strided dots against a naive evaluation of the same HLO, on random chains of
// reshapes and transposes around dots.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "data/hlo/hlo.h"
#include "data/plan/op_graph.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

using Dims = std::vector<int64_t>;
using Array = std::vector<double>;

int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1},
                         std::multiplies<>());
}

/// Calls `visit` with every index of an array, row-major.
template <typename Visit>
void each_index(const Dims& dims, const Visit& visit) {
  Dims index(dims.size(), 0);
  for (int64_t n = product(dims); n-- > 0;) {
    visit(index);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

int64_t offset_of(const Dims& index, const Dims& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(),
                            int64_t{0});
}

/// Evaluates parameters (as given), reshapes, transposes and dots by their
/// definition.
class NaiveEvaluator {
 public:
  NaiveEvaluator(const Computation& entry, std::vector<Array> parameters)
      : entry_(entry), values_(entry.instructions.size()) {
    for (size_t i = 0; i < entry.instructions.size(); ++i) {
      const Instruction& instruction = entry.instructions[i];
      if (instruction.opcode == Opcode::kParameter) {
        values_[i] =
            parameters[static_cast<size_t>(instruction.parameter_number)];
      } else if (instruction.opcode == Opcode::kReshape) {
        values_[i] = of(instruction.operands[0]);
      } else if (instruction.opcode == Opcode::kTranspose) {
        values_[i] = transpose(instruction);
      } else {
        values_[i] = dot(instruction);
      }
    }
  }
  const Array& of(InstructionId id) const { return values_[index_of(id)]; }

 private:
  const Dims& dims(InstructionId id) const {
    return entry_.at(id).shape.dimensions;
  }

  Array transpose(const Instruction& op) const {
    const Dims permutation = integer_list(op, "dimensions");
    const Dims strides = row_major_strides(dims(op.operands[0]));
    Array result;
    each_index(op.shape.dimensions, [&](const Dims& index) {
      Dims source(index.size());
      for (size_t d = 0; d < index.size(); ++d) {
        source[static_cast<size_t>(permutation[d])] = index[d];
      }
      result.push_back(
          of(op.operands[0])[static_cast<size_t>(offset_of(source, strides))]);
    });
    return result;
  }

  Array dot(const Instruction& op) const {
    const DotDimensions n = dot_dimensions(op);
    const Dims &left = dims(op.operands[0]), &right = dims(op.operands[1]);
    Dims contracted;
    for (int64_t d : n.lhs_contracting)
      contracted.push_back(left[static_cast<size_t>(d)]);
    Array result;
    each_index(op.shape.dimensions, [&](const Dims& index) {
      Dims l(left.size(), -1), r(right.size(), -1);
      size_t next = 0;
      for (size_t b = 0; b < n.lhs_batch.size(); ++b, ++next) {
        l[static_cast<size_t>(n.lhs_batch[b])] =
            r[static_cast<size_t>(n.rhs_batch[b])] = index[next];
      }
      for (int64_t d : n.lhs_contracting) l[static_cast<size_t>(d)] = -2;
      for (int64_t d : n.rhs_contracting) r[static_cast<size_t>(d)] = -2;
      for (int64_t& d : l) d = d == -1 ? index[next++] : d;
      for (int64_t& d : r) d = d == -1 ? index[next++] : d;
      double sum = 0;
      each_index(contracted, [&](const Dims& k) {
        for (size_t c = 0; c < k.size(); ++c) {
          l[static_cast<size_t>(n.lhs_contracting[c])] = k[c];
          r[static_cast<size_t>(n.rhs_contracting[c])] = k[c];
        }
        sum += of(op.operands[0])[static_cast<size_t>(
                   offset_of(l, row_major_strides(left)))] *
               of(op.operands[1])[static_cast<size_t>(
                   offset_of(r, row_major_strides(right)))];
      });
      result.push_back(sum);
    });
    return result;
  }

  const Computation& entry_;
  std::vector<Array> values_;
};

/// Computes a DotView over the storage of its operands; the storage of its
/// result.
Array run_view(const DotView& view, const Array& lhs, const Array& rhs,
               size_t elements) {
  Array out(elements, -1e9);
  const size_t batch = view.out.dimensions.size() - 2;
  const int64_t depth = view.lhs.dimensions[batch + 1];
  EXPECT_EQ(view.rhs.dimensions[batch], depth);
  each_index(view.out.dimensions, [&](const Dims& index) {
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      Dims l(index.begin(), index.end()), r(index.begin(), index.end());
      l[batch + 1] = k;
      r[batch] = k;
      sum += lhs.at(static_cast<size_t>(offset_of(l, view.lhs.strides))) *
             rhs.at(static_cast<size_t>(offset_of(r, view.rhs.strides)));
    }
    out.at(static_cast<size_t>(offset_of(index, view.out.strides))) = sum;
  });
  return out;
}

/// Writes random programs: two operands, each a parameter under reshapes and
/// transposes. In bf16, of which kernels compute no small dots
/// (data/hlo/small_dot.h).
class ProgramWriter {
 public:
  explicit ProgramWriter(uint64_t seed) : random_(seed) {}

  std::string write() {
    const size_t batch = below(3), left_free = below(3), right_free = below(3);
    const size_t contracted = below(3);
    const Dims b = extents(batch), m = extents(left_free),
               n = extents(right_free);
    const Dims k = extents(contracted);
    const std::string left = operand(0, b, m, k, "lhs");
    const std::string right = operand(1, b, n, k, "rhs");
    Dims out = b;
    out.insert(out.end(), m.begin(), m.end());
    out.insert(out.end(), n.begin(), n.end());
    text_ += fmt::format("dot = bf16[{}] dot({}, {}){}\n", fmt::join(out, ","),
                         left, right, numbers_);
    if (below(2) == 0) {
      const Dims order = permutation(out.size());
      text_ += fmt::format(
          "turned = bf16[{}] transpose(dot), dimensions={{{}}}\n",
          fmt::join(permute(out, order), ","), fmt::join(order, ","));
    }
    const size_t root = text_.rfind('\n', text_.size() - 2) + 1;
    return "HloModule m\nENTRY main {\n" + text_.substr(0, root) + "ROOT " +
           text_.substr(root) + "}\n";
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }
  Dims extents(size_t count) {
    Dims result;
    for (size_t i = 0; i < count; ++i)
      result.push_back(1 + static_cast<int64_t>(below(4)));
    return result;
  }
  Dims permutation(size_t count) {
    Dims order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }
  static Dims permute(const Dims& dims, const Dims& order) {
    Dims result;
    for (int64_t d : order) result.push_back(dims[static_cast<size_t>(d)]);
    return result;
  }

  /// One operand of shape (batch, free, contracted) in random order, behind
  /// random views that start from a parameter; the views are undone in reverse
  /// to find the parameter's shape.
  std::string operand(int number, const Dims& b, const Dims& free,
                      const Dims& k, const char* side) {
    Dims dims = b;
    dims.insert(dims.end(), free.begin(), free.end());
    dims.insert(dims.end(), k.begin(), k.end());
    const bool shuffled = below(2) == 0;
    const Dims place =
        shuffled ? permutation(dims.size()) : identity(dims.size());
    // Where role r (batch…, free…, contracted…) stands; free ones keep their
    // relative order.
    Dims where(dims.size());
    Dims free_places;
    for (size_t r = b.size(); r < b.size() + free.size(); ++r)
      free_places.push_back(place[r]);
    std::sort(free_places.begin(), free_places.end());
    for (size_t r = 0; r < dims.size(); ++r) where[r] = place[r];
    for (size_t f = 0; f < free.size(); ++f)
      where[b.size() + f] = free_places[f];
    Dims shape(dims.size());
    for (size_t r = 0; r < dims.size(); ++r)
      shape[static_cast<size_t>(where[r])] = dims[r];
    numbers_ += fmt::format(
        ", {}_batch_dims={{{}}}, {}_contracting_dims={{{}}}", side,
        fmt::join(where.begin(),
                  where.begin() + static_cast<ptrdiff_t>(b.size()), ","),
        side,
        fmt::join(where.end() - static_cast<ptrdiff_t>(k.size()), where.end(),
                  ","));
    return views(number, shape, below(4));
  }

  static Dims identity(size_t count) {
    Dims order(count);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  /// Defines a value of `shape` that is `depth` views away from a parameter.
  std::string views(int number, const Dims& shape, size_t depth) {
    const std::string name = fmt::format("v{}", next_name_++);
    if (depth == 0) {
      text_ += fmt::format("{} = bf16[{}] parameter({})\n", name,
                           fmt::join(shape, ","), number);
      return name;
    }
    if (below(2) == 0 && !shape.empty()) {
      const Dims order = permutation(shape.size());
      Dims source(shape.size());
      for (size_t d = 0; d < shape.size(); ++d)
        source[static_cast<size_t>(order[d])] = shape[d];
      const std::string inner = views(number, source, depth - 1);
      text_ +=
          fmt::format("{} = bf16[{}] transpose({}), dimensions={{{}}}\n", name,
                      fmt::join(shape, ","), inner, fmt::join(order, ","));
      return name;
    }
    Dims merged;
    for (int64_t extent : shape) {
      if (!merged.empty() && below(2) == 0) {
        merged.back() *= extent;
      } else if (extent == 4 && below(2) == 0) {
        merged.insert(merged.end(), {2, 2});
      } else {
        merged.push_back(extent);
      }
    }
    const std::string inner = views(number, merged, depth - 1);
    text_ += fmt::format("{} = bf16[{}] reshape({})\n", name,
                         fmt::join(shape, ","), inner);
    return name;
  }

  std::mt19937_64 random_;
  std::string text_, numbers_;
  int next_name_ = 0;
};

TEST(DotView, AgreesWithTheDefinitionOnRandomPrograms) {
  int folded = 0, routines = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = ProgramWriter(seed).write();
    SCOPED_TRACE(text);
    const Result<InlinedModule> module = parse_inlined(text);
    ASSERT_TRUE(module) << module.error().message;
    const Result<OpGraph> graph = build_op_graph(*module);
    ASSERT_TRUE(graph) << graph.error().message;
    if (graph->dots.empty()) {  // Of no strided matrices: it copies first.
      ++routines;
      continue;
    }
    std::mt19937_64 random(seed);
    std::vector<Array> parameters;
    for (InstructionId id : graph->parameters) {
      Array values(static_cast<size_t>(element_count(graph->at(id).shape)));
      for (double& value : values)
        value = static_cast<double>(random() % 17) - 8;
      parameters.push_back(values);
    }
    const NaiveEvaluator naive(module->entry_computation(), parameters);
    const DotView& view = graph->dots.at(0);
    const Array& expected = naive.of(view.out.value);
    EXPECT_EQ(run_view(view, naive.of(view.lhs.value), naive.of(view.rhs.value),
                       expected.size()),
              expected);
    folded += graph->at(view.lhs.value).opcode == Opcode::kParameter ? 1 : 0;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(folded, 1500);
  EXPECT_LT(routines, 1500);
}

}  // namespace
}  // namespace reprise
