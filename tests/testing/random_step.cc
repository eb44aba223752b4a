#include "tests/testing/random_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <vector>

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

struct Value {
  std::string name;
  Dimensions shape;
};

int64_t count_of(const Dimensions& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

class StepMaker {
 public:
  explicit StepMaker(uint64_t seed) : random_(seed) {}

  std::string make(int ops) {
    const int64_t rows = 2 * (1 + below(8)), width = 2 + below(20);
    for (int i = 0; i < 3; ++i) parameter({rows, width});
    parameter({width});
    while (ops-- > 0) add();
    return finish();
  }

 private:
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  template <typename List>
  const auto& pick(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }
  template <size_t count>
  const char* pick(const char* const (&names)[count]) {
    return names[below(count)];
  }

  static std::string shape_text(const Dimensions& shape, const char* type) {
    return fmt::format("{}[{}]", type, fmt::join(shape, ","));
  }
  std::string line(const Dimensions& shape, const std::string& what,
                   const char* type = "f32") {
    const std::string name = fmt::format("v{}", next_++);
    body_ += fmt::format("  {} = {} {}\n", name, shape_text(shape, type), what);
    return name;
  }
  /// A line whose value later ops may read.
  Value emit(const Dimensions& shape, const std::string& what) {
    values_.push_back({line(shape, what), shape});
    return values_.back();
  }
  Value parameter(const Dimensions& shape) {
    parameters_.push_back(
        emit(shape, fmt::format("parameter({})", parameters_.size())));
    return parameters_.back();
  }
  std::string spread(const Dimensions& shape, double constant) {
    const std::string scalar = line({}, fmt::format("constant({})", constant));
    return line(shape, fmt::format("broadcast({}), dimensions={{}}", scalar));
  }
  std::string along(const Dimensions& shape, const std::string& vector,
                    int64_t dimension) {
    return line(shape, fmt::format("broadcast({}), dimensions={{{}}}", vector,
                                   dimension));
  }
  /// A value of the same shape.
  std::string partner(const Value& value) {
    std::vector<std::string> same;
    for (const Value& other : values_) {
      if (other.shape == value.shape) same.push_back(other.name);
    }
    return below(6) == 0 ? spread(value.shape, 0.25) : pick(same);
  }
  /// |value| + 0.5, for ops that want positive operands.
  std::string positive(const Value& value) {
    const std::string size =
        line(value.shape, fmt::format("abs({})", value.name));
    return line(value.shape,
                fmt::format("add({}, {})", size, spread(value.shape, 0.5)));
  }

  void add() {
    const Value value = values_[static_cast<size_t>(
        std::max(below(static_cast<int64_t>(values_.size())),
                 below(static_cast<int64_t>(values_.size()))))];
    switch (below(18)) {
      case 0:
      case 12:
      case 13:
        return unary(value);
      case 1:
        return compare(value);
      case 2:
        return integers(value);
      case 3:
        return reduce(value);
      case 4:
        return softmax(value);
      case 5:
        return move(value);
      case 6:
        return indexed(value);
      case 7:
      case 8:
        return dot(value);
      case 9:
        return batched_dot(value);
      case 10:
      case 11:
        return all_reduce(value);
      default:
        return binary(value);
    }
  }

  void unary(const Value& value) {
    switch (below(3)) {
      case 0: {
        const char* const names[] = {"tanh", "negate", "abs"};
        emit(value.shape, fmt::format("{}({})", pick(names), value.name));
        return;
      }
      case 1: {
        const char* const names[] = {"sqrt", "rsqrt", "log"};
        emit(value.shape, fmt::format("{}({})", pick(names), positive(value)));
        return;
      }
      default: {
        const std::string bounded =
            line(value.shape, fmt::format("tanh({})", value.name));
        emit(value.shape,
             below(2) == 0
                 ? fmt::format("exponential({})", bounded)
                 : fmt::format("power({}, {})", positive(value), bounded));
      }
    }
  }
  void binary(const Value& value) {
    const char* const names[] = {"add", "multiply", "subtract", "maximum",
                                 "divide"};
    const std::string name = pick(names);
    const std::string other =
        name == "divide" ? positive(value) : partner(value);
    emit(value.shape, fmt::format("{}({}, {})", name, value.name, other));
  }
  void compare(const Value& value) {
    const char* const directions[] = {"GE", "GT", "EQ", "NE"};
    const std::string other = partner(value);
    const std::string mask =
        line(value.shape,
             fmt::format("compare({}, {}), direction={}", value.name, other,
                         pick(directions)),
             "pred");
    if (below(3) == 0) {
      emit(value.shape, fmt::format("convert({})", mask));
    } else {
      emit(value.shape,
           fmt::format("select({}, {}, {})", mask, value.name, other));
    }
  }
  /// A mask or a number from the places and the whole parts of elements.
  void integers(const Value& value) {
    if (value.shape.empty()) return;
    const int64_t dimension = below(static_cast<int64_t>(value.shape.size()));
    const std::string places =
        line(value.shape, fmt::format("iota(), iota_dimension={}", dimension),
             "s32");
    const std::string whole =
        line(value.shape, fmt::format("convert({})", value.name), "s32");
    if (below(2) == 0) {
      const std::string mask = line(
          value.shape,
          fmt::format("compare({}, {}), direction=GE", places, whole), "pred");
      emit(value.shape, fmt::format("select({}, {}, {})", mask, value.name,
                                    spread(value.shape, -3)));
      return;
    }
    const char* const names[] = {"add", "multiply", "minimum"};
    const std::string both =
        line(value.shape, fmt::format("{}({}, {})", pick(names), places, whole),
             "s32");
    emit(value.shape, fmt::format("convert({})", both));
  }
  std::string reduced(const Value& value, const Dimensions& dimensions,
                      const char* by) {
    Dimensions kept;
    for (size_t d = 0; d < value.shape.size(); ++d) {
      if (std::find(dimensions.begin(), dimensions.end(),
                    static_cast<int64_t>(d)) == dimensions.end())
        kept.push_back(value.shape[d]);
    }
    const std::string start =
        line({}, fmt::format("constant({})",
                             std::string(by) == "largest" ? "-inf" : "0.125"));
    return emit(kept,
                fmt::format("reduce({}, {}), dimensions={{{}}}, "
                            "to_apply={}",
                            value.name, start, fmt::join(dimensions, ","), by))
        .name;
  }
  void reduce(const Value& value) {
    Dimensions dimensions;
    for (size_t d = 0; d < value.shape.size(); ++d) {
      if (below(2) == 0) dimensions.push_back(static_cast<int64_t>(d));
    }
    if (!dimensions.empty())
      reduced(value, dimensions, below(2) == 0 ? "sum" : "largest");
  }
  void softmax(const Value& value) {
    if (value.shape.size() != 2) return;
    const std::string top =
        along(value.shape, reduced(value, {1}, "largest"), 0);
    const std::string below_top =
        line(value.shape, fmt::format("subtract({}, {})", value.name, top));
    const Value power =
        emit(value.shape, fmt::format("exponential({})", below_top));
    const std::string total = along(value.shape, reduced(power, {1}, "sum"), 0);
    emit(value.shape, fmt::format("divide({}, {})", power.name, total));
  }
  void move(const Value& value) {
    if (value.shape.size() != 2) {
      emit({count_of(value.shape)}, fmt::format("reshape({})", value.name));
      return;
    }
    const int64_t rows = value.shape[0], columns = value.shape[1];
    switch (below(4)) {
      case 0:
        emit({columns, rows},
             fmt::format("transpose({}), dimensions={{1,0}}", value.name));
        return;
      case 1:
        if (rows % 2 != 0) return;
        emit({rows / 2, 2 * columns}, fmt::format("reshape({})", value.name));
        return;
      case 2:
        for (const Value& other : values_) {
          if (other.shape != Dimensions{columns}) continue;
          emit(value.shape, fmt::format("add({}, {})", value.name,
                                        along(value.shape, other.name, 1)));
          return;
        }
        return;
      default: {
        const std::string ahead =
            line({columns, 2, rows},
                 fmt::format("broadcast({}), dimensions={{2,0}}", value.name));
        emit({2 * columns, rows}, fmt::format("reshape({})", ahead));
      }
    }
  }
  /// Rows by place, some of them outside.
  void indexed(const Value& value) {
    if (value.shape.size() != 2) return;
    const int64_t rows = 1 + below(7);
    const std::string places =
        line({rows, 1}, "iota(), iota_dimension=0", "s32");
    const std::string step = line({}, "constant(3)", "s32");
    const std::string steps = line(
        {rows, 1}, fmt::format("broadcast({}), dimensions={{}}", step), "s32");
    const std::string indices =
        line({rows, 1}, fmt::format("multiply({}, {})", places, steps), "s32");
    const Value taken =
        emit({rows, value.shape[1]},
             fmt::format("gather({}, {}), offset_dims={{1}}, "
                         "collapsed_slice_dims={{0}}, start_index_map={{0}}, "
                         "index_vector_dim=1, slice_sizes={{1,{}}}",
                         value.name, indices, value.shape[1]));
    emit(value.shape,
         fmt::format("scatter({}, {}, {}), update_window_dims={{1}}, "
                     "inserted_window_dims={{0}}, "
                     "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, "
                     "to_apply=sum",
                     partner(value), indices, taken.name));
  }
  void dot(const Value& value) {
    if (value.shape.size() != 2) return;
    const bool turned = below(2) == 0;
    const int64_t columns = 2 + below(20);
    const Value weight =
        parameter(turned ? Dimensions{columns, value.shape[1]}
                         : Dimensions{value.shape[1], columns});
    const Dimensions shape{value.shape[0], columns};
    Value result{
        line(shape, fmt::format("dot({}, {}), lhs_contracting_dims={{1}}, "
                                "rhs_contracting_dims={{{}}}",
                                value.name, weight.name, turned ? 1 : 0)),
        shape};
    const auto step = [&](const char* op, const std::string& other) {
      result.name =
          line(shape, fmt::format("{}({}, {})", op, result.name, other));
    };
    if (below(2) == 0) step("multiply", spread(shape, 0.5));
    if (below(2) == 0) step("add", along(shape, parameter({columns}).name, 1));
    if (below(3) == 0) step("add", parameter(shape).name);
    if (below(3) == 0) step("maximum", spread(shape, 0));
    values_.push_back(result);
  }
  /// The rows in two heads, each against itself.
  void batched_dot(const Value& value) {
    if (value.shape.size() != 2 || value.shape[1] % 2 != 0) return;
    const int64_t rows = value.shape[0], columns = value.shape[1] / 2;
    const std::string split =
        line({rows, 2, columns}, fmt::format("reshape({})", value.name));
    const std::string heads =
        line({2, rows, columns},
             fmt::format("transpose({}), dimensions={{1,0,2}}", split));
    const Value scores =
        emit({2, rows, rows},
             fmt::format("dot({}, {}), lhs_batch_dims={{0}}, "
                         "lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, "
                         "rhs_contracting_dims={{2}}",
                         heads, heads));
    emit({2 * rows, rows}, fmt::format("reshape({})", scores.name));
  }
  void all_reduce(const Value& value) {
    const std::string how = ", replica_groups={{0}}, to_apply=sum";
    if (below(3) != 0) {
      emit(value.shape, fmt::format("all-reduce({}){}", value.name, how));
      return;
    }
    const Value other = pick(values_);
    const std::string both = fmt::format("v{}", next_++);
    body_ += fmt::format("  {} = ({}, {}) all-reduce({}, {}){}\n", both,
                         shape_text(value.shape, "f32"),
                         shape_text(other.shape, "f32"), value.name, other.name,
                         how);
    emit(other.shape, fmt::format("get-tuple-element({}), index=1", both));
    if (below(3) != 0)
      emit(value.shape, fmt::format("get-tuple-element({}), index=0", both));
  }

  std::string finish() {
    std::vector<std::string> shapes, names, aliases;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (below(2) == 0) continue;
      std::vector<Value> same;
      for (const Value& value : values_) {
        if (value.shape == parameters_[p].shape) same.push_back(value);
      }
      const Value next = below(4) == 0 ? pick(same) : same.back();
      aliases.push_back(
          fmt::format("{{{}}}: ({}, {{}}, may-alias)", names.size(), p));
      shapes.push_back(shape_text(next.shape, "f32"));
      names.push_back(next.name);
    }
    for (int i = 0; i < 3; ++i) {
      const Value other = i == 0 ? values_.back() : pick(values_);
      shapes.push_back(shape_text(other.shape, "f32"));
      names.push_back(other.name);
    }
    return fmt::format(
        "HloModule step{}\n"
        "sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  "
        "ROOT r = f32[] add(a, b) }}\n"
        "largest {{ a = f32[] parameter(0)  b = f32[] parameter(1)  "
        "ROOT r = f32[] maximum(a, b) }}\n"
        "ENTRY main {{\n{}  ROOT out = ({}) tuple({})\n}}\n",
        aliases.empty() ? ""
                        : fmt::format(", input_output_alias={{ {} }}",
                                      fmt::join(aliases, ", ")),
        body_, fmt::join(shapes, ", "), fmt::join(names, ", "));
  }

  std::mt19937_64 random_;
  std::string body_;
  int next_ = 0;
  std::vector<Value> values_, parameters_;  ///< Of f32.
};

}  // namespace

std::string random_step(uint64_t seed, int ops) {
  return StepMaker(seed).make(ops);
}

}  // namespace reprise
