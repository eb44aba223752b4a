// A matcher over the ops of one group: from the dot on, each op must read the
// one before as its only reader and be the next kind in the fixed order; its
// other operand, views looked through, becomes the bias or the accumulate.
#include "data/plan/dot_epilogue.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// How far the epilogue has come; steps only go up.
enum class Stage : uint8_t { kProduct, kScaled, kBiased, kAccumulated, kDone };

/// A bias may come through these: same elements, some of them repeated.
bool is_folded(Opcode opcode) {
  return is_reshape(opcode) || opcode == Opcode::kBroadcast;
}

class Matcher {
 public:
  Matcher(const OpGraph& graph, const std::vector<InstructionId>& ops)
      : graph_(graph), ops_(ops), dot_(dot_among(graph, ops)) {}

  Result<DotEpilogue> match() {
    epilogue_.result = view().out.value;
    if (ops_.front() != dot_) return refuse(ops_.front());
    for (const InstructionId op : ops_) {
      if (op != dot_ && graph_.role_of(op) == OpRole::kDot) {
        return fail(ErrorKind::kInvalid,
                    "'{}' is a second dot beside '{}': a library call has one",
                    name_of(op), name_of(dot_));
      }
    }
    InstructionId last = dot_;
    for (size_t left = ops_.size() - 1; left > 0; --left) {
      const Result<InstructionId> next = only_reader(last);
      if (!next) return pass(next.error());
      if (!add_step(*next)) return refuse(*next);
      epilogue_.result = graph_.value_of[index_of(*next)];
      last = *next;
    }
    return epilogue_;
  }

 private:
  const std::string& name_of(InstructionId id) const {
    return graph_.at(id).name;
  }
  const DotView& view() const {
    return graph_.dots[static_cast<size_t>(graph_.dot_of[index_of(dot_)])];
  }
  bool inside(InstructionId op) const {
    return std::binary_search(ops_.begin(), ops_.end(), op);
  }

  tl::unexpected<Error> refuse(InstructionId op) const {
    return fail(ErrorKind::kInvalid,
                "op '{}' is no epilogue of '{}' that a library runs",
                name_of(op), name_of(dot_));
  }

  /// The op of the group that alone reads what has been computed so far.
  Result<InstructionId> only_reader(InstructionId last) const {
    const auto& readers = graph_.readers[index_of(epilogue_.result)];
    const auto outside =
        std::find_if_not(readers.begin(), readers.end(),
                         [this](InstructionId op) { return inside(op); });
    if (outside != readers.end() ||
        graph_.is_output[index_of(epilogue_.result)])
      return fail(ErrorKind::kInvalid,
                  "'{}' is read by {}, too, but the library call of '{}' "
                  "writes its last result only",
                  name_of(last),
                  outside != readers.end()
                      ? fmt::format("'{}'", name_of(*outside))
                      : "the program's caller",
                  name_of(dot_));
    if (readers.size() == 1) return readers[0];
    return refuse(readers.empty() ? ops_.back() : readers.back());
  }

  /// Takes `op` as the next step, if it is one.
  bool add_step(InstructionId op) {
    const Instruction& instruction = graph_.at(op);
    if (instruction.shape.type != view().type ||
        instruction.shape.type != PrimitiveType::kF32 ||
        instruction.operands.size() < 2) {
      return false;
    }
    const auto is_product = [&](size_t operand) {
      return graph_.value_of[index_of(instruction.operands[operand])] ==
             epilogue_.result;
    };
    if (is_product(0) == is_product(1)) return false;
    const InstructionId other = instruction.operands[is_product(0) ? 1 : 0];
    switch (instruction.opcode) {
      case Opcode::kMultiply:
        return add_scale(other);
      case Opcode::kAdd:
        return add_addend(op, other);
      case Opcode::kMultiplyAdd:
        epilogue_.multiply_add = true;
        return !is_product(2) && add_scale(other) &&
               add_addend(op, instruction.operands[2]);
      case Opcode::kMaximum:
        return is_product(0) && add_relu(other);
      default:
        return false;
    }
  }

  bool reach(Stage stage) {
    if (stage_ >= stage) return false;
    stage_ = stage;
    return true;
  }

  /// The one element of a constant that views spread over an array.
  std::optional<float> scalar(InstructionId id) const {
    while (is_folded(graph_.at(id).opcode)) id = graph_.at(id).operands[0];
    const Instruction& constant = graph_.at(id);
    if (constant.opcode != Opcode::kConstant) return std::nullopt;
    const Result<std::vector<double>> values = literal_values(constant);
    if (!values || values->size() != 1) return std::nullopt;
    return static_cast<float>(values->front());
  }

  bool add_scale(InstructionId other) {
    const std::optional<float> factor = scalar(other);
    if (!factor || !reach(Stage::kScaled)) return false;
    epilogue_.alpha = *factor;
    return true;
  }

  bool add_relu(InstructionId other) {
    const std::optional<float> bound = scalar(other);
    if (!bound || std::bit_cast<uint32_t>(*bound) != 0) return false;
    if (!reach(Stage::kDone)) return false;
    epilogue_.activation = DotActivation::kRelu;
    return true;
  }

  bool add_addend(InstructionId op, InstructionId other) {
    return add_accumulate(op, other) || add_bias(op, other);
  }

  bool reads(InstructionId op, InstructionId value) const {
    const auto& inputs = graph_.inputs[index_of(op)];
    return std::binary_search(inputs.begin(), inputs.end(), value);
  }

  /// An array of as many elements, stored row-major as the result is.
  bool add_accumulate(InstructionId op, InstructionId other) {
    const InstructionId value = graph_.value_of[index_of(other)];
    const Shape& shape = graph_.at(value).shape;
    if (!reads(op, value) || shape.type != view().type ||
        byte_size(shape) != byte_size(graph_.at(op).shape)) {
      return false;
    }
    if (!reach(Stage::kAccumulated)) return false;
    epilogue_.accumulate = value;
    return true;
  }

  bool add_bias(InstructionId op, InstructionId other) {
    const std::optional<InstructionId> vector = column_vector(op, other);
    if (!vector || !reach(Stage::kBiased)) return false;
    epilogue_.bias = *vector;
    return true;
  }

  /// The value of which element n is added to column n of the dot's view.
  std::optional<InstructionId> column_vector(InstructionId op,
                                             InstructionId other) const {
    const StridedMatrix& out = view().out;
    const int64_t columns = out.dimensions.back();
    if (columns == 1 || out.strides.back() != 1) return std::nullopt;
    std::vector<InstructionId> chain{other};
    while (!reads(op, chain.back())) {
      const Instruction& top = graph_.at(chain.back());
      if (!is_folded(top.opcode)) return std::nullopt;
      chain.push_back(top.operands[0]);
    }
    const Shape& base = graph_.at(chain.back()).shape;
    std::vector<int64_t> dimensions = base.dimensions,
                         strides = row_major_strides(dimensions);
    if (base.type != view().type || element_count(dimensions) != columns)
      return std::nullopt;
    for (size_t i = chain.size() - 1; i-- > 0;) {
      if (!look_through(graph_.at(chain[i]), &dimensions, &strides))
        return std::nullopt;
    }
    // Columns are innermost in memory: element i of the result is of column
    // i mod `columns`.
    const int64_t rows = element_count(dimensions) / columns;
    std::vector<int64_t> along;
    if (!reshape_strides(dimensions, strides, {rows, columns}, &along))
      return std::nullopt;
    if (along[1] != 1 || (rows > 1 && along[0] != 0)) return std::nullopt;
    return graph_.value_of[index_of(chain.back())];
  }

  static int64_t element_count(const std::vector<int64_t>& dimensions) {
    int64_t count = 1;
    for (const int64_t dimension : dimensions) count *= dimension;
    return count;
  }

  static bool look_through(const Instruction& top,
                           std::vector<int64_t>* dimensions,
                           std::vector<int64_t>* strides) {
    std::vector<int64_t> seen(top.shape.dimensions.size(), 0);
    if (top.opcode == Opcode::kBroadcast) {
      const std::vector<int64_t> places = integer_list(top, "dimensions");
      for (size_t d = 0; d < places.size(); ++d)
        seen[static_cast<size_t>(places[d])] = (*strides)[d];
    } else if (!reshape_strides(*dimensions, *strides, top.shape.dimensions,
                                &seen)) {
      return false;
    }
    *dimensions = top.shape.dimensions;
    *strides = std::move(seen);
    return true;
  }

  const OpGraph& graph_;
  const std::vector<InstructionId>& ops_;
  InstructionId dot_;
  Stage stage_ = Stage::kProduct;
  DotEpilogue epilogue_;
};

}  // namespace

InstructionId dot_among(const OpGraph& graph,
                        const std::vector<InstructionId>& ops) {
  const auto dot = std::find_if(ops.begin(), ops.end(), [&](InstructionId op) {
    return graph.role_of(op) == OpRole::kDot;
  });
  return dot == ops.end() ? kNoInstruction : *dot;
}

Result<DotEpilogue> match_dot_epilogue(const OpGraph& graph,
                                       const std::vector<InstructionId>& ops) {
  return Matcher(graph, ops).match();
}

std::vector<InstructionId> dot_inputs(const OpGraph& graph, InstructionId dot,
                                      const DotEpilogue& epilogue) {
  const DotView& view =
      graph.dots[static_cast<size_t>(graph.dot_of[index_of(dot)])];
  std::vector<InstructionId> inputs{view.lhs.value, view.rhs.value};
  for (const InstructionId value : {epilogue.bias, epilogue.accumulate}) {
    if (value != kNoInstruction) inputs.push_back(value);
  }
  return inputs;
}

std::string epilogue_text(float alpha, bool bias, bool accumulate,
                          DotActivation activation) {
  std::vector<std::string> parts;
  if (alpha != 1) parts.push_back(fmt::format("scale {}", alpha));
  if (bias) parts.emplace_back("bias");
  if (accumulate) parts.emplace_back("accumulate");
  if (activation == DotActivation::kRelu) parts.emplace_back("relu");
  return fmt::format("{}", fmt::join(parts, "+"));
}

}  // namespace reprise
