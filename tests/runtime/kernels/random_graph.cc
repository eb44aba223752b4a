#include "tests/runtime/kernels/random_graph.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "data/hlo/opcode.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

struct Value {
  std::string name;
  Dimensions shape;
};

class GraphBuilder {
  template <typename List>
  auto pick(const List& list) {
    return list[generator_() % std::size(list)];
  }
  size_t below(size_t bound) { return generator_() % bound; }

 public:
  GraphBuilder(uint64_t seed, int ops) : generator_(seed), ops_(ops) {}

  std::string build() {
    // All shapes descend from three extents, so that values often fit each
    // other.
    const int64_t extents[] = {1, 2, 3, 4, 5, 8, 16, 17, 32, 40};
    const Dimensions base{pick(extents), pick(extents), pick(extents)};
    for (int i = 0; i < 3; ++i) parameter(base);
    parameter({base[2]});
    parameter({base[0] * base[1], base[2]});
    while (ops_ > 0) add_op();
    return "HloModule random\nadd { a = f32[] parameter(0)  b = f32[] "
           "parameter(1)  "
           "ROOT r = f32[] add(a, b) }\nmax { a = f32[] parameter(0)  b = "
           "f32[] parameter(1)  "
           "ROOT r = f32[] maximum(a, b) }\nENTRY main {\n  z = f32[] "
           "constant(0.25)\n" +
           text_ + "  ROOT end = f32[] constant(0)\n}\n";
  }

 private:
  static std::string shape_of(const Dimensions& shape,
                              const char* type = "f32") {
    std::string text = std::string(type) + "[";
    for (size_t i = 0; i < shape.size(); ++i)
      text += (i > 0 ? "," : "") + std::to_string(shape[i]);
    return text + "]";
  }
  static std::string list_of(const std::vector<size_t>& list) {
    std::string text = "{";
    for (size_t i = 0; i < list.size(); ++i)
      text += (i > 0 ? "," : "") + std::to_string(list[i]);
    return text + "}";
  }
  std::string emit(const Dimensions& shape, const std::string& right,
                   const char* type = "f32") {
    const std::string name = "v" + std::to_string(next_++);
    text_ += "  " + name + " = " + shape_of(shape, type) + " " + right + "\n";
    if (std::string(type) == "f32") values_.push_back({name, shape});
    return name;
  }
  void parameter(const Dimensions& shape) {
    emit(shape, "parameter(" + std::to_string(parameters_++) + ")");
  }
  /// A value of the same shape, made by broadcasting if there is none.
  std::string partner(const Value& value) {
    std::vector<std::string> same;
    for (const Value& other : values_) {
      if (other.shape == value.shape) same.push_back(other.name);
    }
    if (below(5) > 0) return pick(same);
    for (const Value& other : values_) {
      for (size_t d = 0; other.shape.size() == 1 && d < value.shape.size();
           ++d) {
        if (value.shape[d] == other.shape[0]) {
          return emit(value.shape, "broadcast(" + other.name +
                                       "), dimensions=" + list_of({d}));
        }
      }
    }
    return emit(value.shape, "broadcast(z), dimensions={}");
  }

  void add_op() {
    const Value value =
        values_[std::max(below(values_.size()), below(values_.size()))];
    --ops_;
    switch (below(16)) {
      case 0:
        return reduce(value);
      case 1:
        return back_to(value);
      case 2:
        return transpose(value);
      case 3:
        return reshape(value);
      case 4:
        return window(value);
      case 5:
        return select(value);
      case 6:
        return index(value);
      case 7:
      case 8:
      case 9: {
        const char* names[] = {"exponential", "tanh",     "negate",
                               "abs",         "logistic", "floor"};
        emit(value.shape, std::string(pick(names)) + "(" + value.name + ")");
        return;
      }
      default: {
        const char* names[] = {"add", "multiply", "subtract", "maximum",
                               "minimum"};
        const std::string other = partner(value);
        emit(value.shape,
             std::string(pick(names)) + "(" + value.name + ", " + other + ")");
      }
    }
  }
  void reduce(const Value& value) {
    std::vector<size_t> reduced;
    Dimensions kept;
    for (size_t d = 0; d < value.shape.size(); ++d) {
      if (below(2) == 0)
        reduced.push_back(d);
      else
        kept.push_back(value.shape[d]);
    }
    if (reduced.empty()) return;
    const std::string result = emit(
        kept, "reduce(" + value.name + ", z), dimensions=" + list_of(reduced) +
                  ", to_apply=" + (below(2) == 0 ? "add" : "max"));
    if (below(3) == 0 || kept.empty()) return;
    // Back to the shape it came from, as softmax and normalization do.
    std::vector<size_t> places;
    for (size_t d = 0; d < value.shape.size(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end())
        places.push_back(d);
    }
    const std::string wide =
        emit(value.shape,
             "broadcast(" + result + "), dimensions=" + list_of(places));
    emit(value.shape, "subtract(" + value.name + ", " + wide + ")");
  }
  void back_to(const Value& value) {
    if (value.shape.size() != 3) return;
    emit({value.shape[0] * value.shape[1] * value.shape[2]},
         "reshape(" + value.name + ")");
  }
  void transpose(const Value& value) {
    std::vector<size_t> permutation(value.shape.size());
    for (size_t d = 0; d < permutation.size(); ++d) permutation[d] = d;
    std::shuffle(permutation.begin(), permutation.end(), generator_);
    Dimensions shape;
    for (const size_t d : permutation) shape.push_back(value.shape[d]);
    emit(shape,
         "transpose(" + value.name + "), dimensions=" + list_of(permutation));
  }
  void reshape(const Value& value) {
    int64_t count = 1;
    for (const int64_t extent : value.shape) count *= extent;
    Dimensions shape;
    for (const int64_t factor : {2, 4, 5, 16}) {
      if (count % factor == 0 && below(2) == 0) {
        shape.push_back(factor);
        count /= factor;
      }
    }
    shape.insert(
        shape.begin() + static_cast<std::ptrdiff_t>(below(shape.size() + 1)),
        count);
    emit(shape, "reshape(" + value.name + ")");
  }
  void window(const Value& value) {
    if (value.shape.empty()) return;
    const size_t d = below(value.shape.size());
    Dimensions shape = value.shape;
    switch (below(4)) {
      case 0: {
        std::string slices;
        for (size_t k = 0; k < shape.size(); ++k) {
          const int64_t start =
              k == d
                  ? static_cast<int64_t>(below(static_cast<size_t>(shape[k])))
                  : 0;
          slices += (k > 0 ? ", [" : "[") + std::to_string(start) + ":" +
                    std::to_string(shape[k]) + "]";
          shape[k] -= start;
        }
        emit(shape, "slice(" + value.name + "), slice={" + slices + "}");
        return;
      }
      case 1:
        shape[d] *= 2;
        emit(shape, "concatenate(" + value.name + ", " + value.name +
                        "), dimensions=" + list_of({d}));
        return;
      case 2:
        emit(shape, "reverse(" + value.name + "), dimensions=" + list_of({d}));
        return;
      default: {
        std::string padding;
        for (size_t k = 0; k < shape.size(); ++k) {
          padding += std::string(k > 0 ? "x" : "") + (k == d ? "1_2_1" : "0_0");
        }
        shape[d] = shape[d] * 2 - 1 + 3;
        emit(shape, "pad(" + value.name + ", z), padding=" + padding);
      }
    }
  }
  void select(const Value& value) {
    const std::string other = partner(value);
    const std::string mask = emit(
        value.shape, "compare(" + value.name + ", " + other + "), direction=GT",
        "pred");
    emit(value.shape,
         "select(" + mask + ", " + value.name + ", " + other + ")");
  }
  void index(const Value& value) {
    if (value.shape.size() != 2) return;
    const Dimensions rows{6, 1};
    const std::string indices = emit(rows, "iota(), iota_dimension=0", "s32");
    emit({6, value.shape[1]},
         "gather(" + value.name + ", " + indices +
             "), offset_dims={1}, collapsed_slice_dims={0}, "
             "start_index_map={0}, "
             "index_vector_dim=1, slice_sizes={1," +
             std::to_string(value.shape[1]) + "}");
    const std::string updates = values_.back().name;
    emit(value.shape,
         "scatter(" + value.name + ", " + indices + ", " + updates +
             "), update_window_dims={1}, inserted_window_dims={0}, "
             "scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
             "to_apply=add");
  }

  std::mt19937_64 generator_;
  int ops_;
  int next_ = 0, parameters_ = 0;
  std::string text_;
  std::vector<Value> values_;
};

}  // namespace

int number_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::string random_graph(uint64_t seed, int ops) {
  return GraphBuilder(seed, ops).build();
}

std::vector<InstructionId> random_group(const Module& module, size_t size,
                                        std::mt19937_64& generator) {
  const Computation& computation = module.entry_computation();
  const std::vector<InstructionId> ops = kernel_ops(module);
  const auto users = users_of(computation);
  std::set<InstructionId> group{ops[generator() % ops.size()]};
  for (size_t tries = 0; group.size() < size && tries < 8 * size; ++tries) {
    // A neighbour through views, then everything on a path between members.
    auto member = group.begin();
    std::advance(member,
                 static_cast<std::ptrdiff_t>(generator() % group.size()));
    InstructionId at = *member;
    const bool up = generator() % 2 == 0;
    do {
      const auto& next = up ? computation.at(at).operands : users[index_of(at)];
      if (next.empty()) break;
      at = next[generator() % next.size()];
    } while (is_view(computation.at(at).opcode));
    const Opcode opcode = computation.at(at).opcode;
    if (is_view(opcode) || opcode == Opcode::kParameter) continue;
    std::set<InstructionId> closed = group;
    closed.insert(at);
    std::vector<bool> below(computation.instructions.size()), above = below;
    for (uint32_t i = 0; i < below.size(); ++i) {
      below[i] = closed.count(InstructionId{i}) > 0;
      for (const InstructionId o : computation.instructions[i].operands) {
        below[i] = below[i] || below[index_of(o)];
      }
    }
    for (uint32_t i = static_cast<uint32_t>(above.size()); i-- > 0;) {
      above[i] = closed.count(InstructionId{i}) > 0;
      for (const InstructionId u : users[i])
        above[i] = above[i] || above[index_of(u)];
    }
    for (const InstructionId op : ops) {
      if (below[index_of(op)] && above[index_of(op)]) closed.insert(op);
    }
    if (closed.size() <= size) group = closed;
  }
  return {group.begin(), group.end()};
}

std::vector<InstructionId> outputs_of(const Module& module,
                                      const std::vector<InstructionId>& group) {
  const Computation& computation = module.entry_computation();
  const auto users = users_of(computation);
  std::vector<InstructionId> outputs;
  for (const InstructionId id : group) {
    std::vector<InstructionId> open = users[index_of(id)];
    bool outside = open.empty();
    while (!open.empty()) {
      const InstructionId user = open.back();
      open.pop_back();
      const auto& next = users[index_of(user)];
      if (is_view(computation.at(user).opcode)) {
        outside = outside || next.empty();
        open.insert(open.end(), next.begin(), next.end());
      } else {
        outside = outside ||
                  std::find(group.begin(), group.end(), user) == group.end();
      }
    }
    if (outside) outputs.push_back(id);
  }
  return outputs;
}

}  // namespace reprise
