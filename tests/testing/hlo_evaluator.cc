#include "tests/testing/hlo_evaluator.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "data/hlo/hlo.h"
#include "data/hlo/window.h"
#include "data/result.h"
#include "tests/testing/element_bits.h"

namespace reprise {
namespace {

using Index = std::vector<int64_t>;

/// Calls `visit` for every multi-index of a shape, row-major.
void for_each(const std::vector<int64_t>& dimensions,
              const std::function<void(const Index&)>& visit) {
  Index index(dimensions.size(), 0);
  for (;;) {
    visit(index);
    size_t d = dimensions.size();
    while (d > 0 && ++index[d - 1] == dimensions[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

size_t position(const std::vector<int64_t>& dimensions, const Index& index) {
  int64_t place = 0;
  for (size_t d = 0; d < dimensions.size(); ++d)
    place = place * dimensions[d] + index[d];
  return static_cast<size_t>(place);
}

bool has(const std::vector<int64_t>& list, size_t value) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(value)) !=
         list.end();
}

double sign_of(double x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }

struct Unary {
  Opcode opcode;
  double (*function)(double x);
};

constexpr Unary kUnary[] = {
    {Opcode::kAbs, [](double x) { return std::fabs(x); }},
    {Opcode::kNegate, [](double x) { return -x; }},
    {Opcode::kExp, [](double x) { return std::exp(x); }},
    {Opcode::kExpm1, [](double x) { return std::expm1(x); }},
    {Opcode::kLog, [](double x) { return std::log(x); }},
    {Opcode::kLog1p, [](double x) { return std::log1p(x); }},
    {Opcode::kTanh, [](double x) { return std::tanh(x); }},
    {Opcode::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {Opcode::kErf, [](double x) { return std::erf(x); }},
    {Opcode::kSqrt, [](double x) { return std::sqrt(x); }},
    {Opcode::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
    {Opcode::kCbrt, [](double x) { return std::cbrt(x); }},
    {Opcode::kSine, [](double x) { return std::sin(x); }},
    {Opcode::kCosine, [](double x) { return std::cos(x); }},
    {Opcode::kTan, [](double x) { return std::tan(x); }},
    {Opcode::kAcos, [](double x) { return std::acos(x); }},
    {Opcode::kAcosh, [](double x) { return std::acosh(x); }},
    {Opcode::kAsin, [](double x) { return std::asin(x); }},
    {Opcode::kAsinh, [](double x) { return std::asinh(x); }},
    {Opcode::kAtan, [](double x) { return std::atan(x); }},
    {Opcode::kAtanh, [](double x) { return std::atanh(x); }},
    {Opcode::kCosh, [](double x) { return std::cosh(x); }},
    {Opcode::kSinh, [](double x) { return std::sinh(x); }},
    {Opcode::kSign, [](double x) { return sign_of(x); }},
    {Opcode::kFloor, [](double x) { return std::floor(x); }},
    {Opcode::kCeil, [](double x) { return std::ceil(x); }},
    {Opcode::kRoundNearestAfz, [](double x) { return std::round(x); }},
    {Opcode::kRoundNearestEven, [](double x) { return std::nearbyint(x); }},
    {Opcode::kIsFinite, [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }},
    {Opcode::kNot, [](double x) { return x == 0 ? 1.0 : 0.0; }},
    {Opcode::kCopy, [](double x) { return x; }},
};

/// Rounded once, to the type of the result.
double multiply_add(PrimitiveType type, double a, double b, double c) {
  if (type == PrimitiveType::kF64) return std::fma(a, b, c);
  return std::fma(static_cast<float>(a), static_cast<float>(b),
                  static_cast<float>(c));
}

double unary(Opcode opcode, double x) {
  for (const Unary& one : kUnary) {
    if (one.opcode == opcode) return one.function(x);
  }
  std::abort();
}

double binary(Opcode opcode, double a, double b) {
  const auto bits = [](double x) { return static_cast<int64_t>(x); };
  switch (opcode) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSubtract:
      return a - b;
    case Opcode::kMultiply:
      return a * b;
    case Opcode::kDivide:
      return a / b;
    case Opcode::kRemainder:
      return std::fmod(a, b);
    case Opcode::kMaximum:
      return std::isnan(a) ? a : (std::isnan(b) ? b : std::max(a, b));
    case Opcode::kMinimum:
      return std::isnan(a) ? a : (std::isnan(b) ? b : std::min(a, b));
    case Opcode::kPower:
      return std::pow(a, b);
    case Opcode::kAtan2:
      return std::atan2(a, b);
    case Opcode::kAnd:
      return static_cast<double>(bits(a) & bits(b));
    case Opcode::kOr:
      return static_cast<double>(bits(a) | bits(b));
    case Opcode::kXor:
      return static_cast<double>(bits(a) ^ bits(b));
    case Opcode::kShiftLeft:
      return static_cast<double>(bits(a) << bits(b));
    case Opcode::kShiftRightArithmetic:
      return static_cast<double>(bits(a) >> bits(b));
    default:
      break;
  }
  std::abort();
}

bool compare(const std::string& direction, double a, double b) {
  if (direction == "EQ") return a == b;
  if (direction == "NE") return a != b;
  if (direction == "LT") return a < b;
  if (direction == "LE") return a <= b;
  return direction == "GT" ? a > b : a >= b;
}

class Evaluator {
 public:
  Evaluator(const Module& module, const Computation& computation,
            const std::vector<Elements>& parameters)
      : module_(module), computation_(computation), parameters_(parameters) {}

  std::map<uint32_t, Elements> run() {
    for (uint32_t i = 0; i < computation_.instructions.size(); ++i) {
      const Instruction& instruction = computation_.instructions[i];
      if (instruction.shape.is_array()) values_[i] = evaluate_one(instruction);
    }
    return std::move(values_);
  }

 private:
  const Shape& shape(const Instruction& user, size_t i) const {
    return computation_.at(user.operands[i]).shape;
  }
  const Elements& operand(const Instruction& user, size_t i) const {
    return values_.at(index_of(user.operands[i]));
  }
  /// An operand's element, a scalar one serving every index.
  double at(const Instruction& user, size_t i, const Index& index) const {
    const auto& dimensions = shape(user, i).dimensions;
    return operand(user,
                   i)[dimensions.empty() ? 0 : position(dimensions, index)];
  }
  std::function<double(double, double)> combiner(
      const Instruction& user) const {
    const Computation& called = module_.at(*called_computation(user));
    const Instruction* root = &called.at(called.root);
    if (root->opcode == Opcode::kConvert)  // Of a wider sum.
      root = &called.at(root->operands[0]);
    if (root->opcode == Opcode::kParameter)
      return [](double, double b) { return b; };
    return [opcode = root->opcode](double a, double b) {
      return binary(opcode, a, b);
    };
  }
  double convert(PrimitiveType type, double x) const {
    if (type == PrimitiveType::kPred) return x != 0;
    const auto name = primitive_type_name(type);
    if (name[0] == 'f' || name == "bf16") return x;
    return std::trunc(x);
  }

  Elements evaluate_one(const Instruction& op);
  Elements reduce(const Instruction& op);
  Elements reduce_window(const Instruction& op);
  Elements gather(const Instruction& op);
  Elements dot(const Instruction& op) const;
  Elements scatter(const Instruction& op);
  double element(const Instruction& op, const Index& index);
  double pad(const Instruction& op, const Index& index);
  double concatenate(const Instruction& op, Index index);
  double dynamic(const Instruction& op, const Index& index);
  double bitcast(const Instruction& op, const Index& index);

  const Module& module_;
  const Computation& computation_;
  const std::vector<Elements>& parameters_;
  std::map<uint32_t, Elements> values_;
};

double Evaluator::pad(const Instruction& op, const Index& index) {
  const auto dimensions = *pad_dimensions(op);
  Index inner;
  for (size_t d = 0; d < index.size(); ++d) {
    const int64_t shifted = index[d] - dimensions[d].low,
                  step = dimensions[d].interior + 1;
    if (shifted < 0 || shifted % step != 0 ||
        shifted / step >= shape(op, 0).dimensions[d]) {
      return operand(op, 1)[0];
    }
    inner.push_back(shifted / step);
  }
  return at(op, 0, inner);
}

double Evaluator::concatenate(const Instruction& op, Index index) {
  const size_t d = static_cast<size_t>(integer_list(op, "dimensions")[0]);
  for (size_t i = 0;; ++i) {
    if (index[d] < shape(op, i).dimensions[d]) return at(op, i, index);
    index[d] -= shape(op, i).dimensions[d];
  }
}

double Evaluator::dynamic(const Instruction& op, const Index& index) {
  const bool update = op.opcode == Opcode::kDynamicUpdateSlice;
  const auto& outer = shape(op, 0).dimensions;
  const auto& window = update ? shape(op, 1).dimensions : op.shape.dimensions;
  Index inner;
  for (size_t d = 0; d < index.size(); ++d) {
    const auto start =
        static_cast<int64_t>(operand(op, (update ? 2 : 1) + d)[0]);
    const int64_t clamped = std::clamp<int64_t>(start, 0, outer[d] - window[d]);
    inner.push_back(update ? index[d] - clamped : index[d] + clamped);
    if (update && (inner[d] < 0 || inner[d] >= window[d]))
      return at(op, 0, index);
  }
  return at(op, update ? 1 : 0, inner);
}

double Evaluator::bitcast(const Instruction& op, const Index& index) {
  const PrimitiveType from = shape(op, 0).type, to = op.shape.type;
  const int wide = primitive_type_bits(from), narrow = primitive_type_bits(to);
  Index inner = index;
  if (wide == narrow)
    return element_of_bits(to, bits_of_element(from, at(op, 0, inner)));
  uint64_t bits = 0;
  if (wide > narrow) {
    inner.pop_back();
    bits = bits_of_element(from, at(op, 0, inner)) >> (index.back() * narrow);
    return element_of_bits(to, bits & ((uint64_t{1} << narrow) - 1));
  }
  for (int part = 0; part < narrow / wide; ++part) {
    inner.push_back(part);
    bits |= bits_of_element(from, at(op, 0, inner)) << (part * wide);
    inner.pop_back();
  }
  return element_of_bits(to, bits);
}

double Evaluator::element(const Instruction& op, const Index& index) {
  Index inner;
  switch (op.opcode) {
    case Opcode::kIota:
      return static_cast<double>(
          index[static_cast<size_t>(integer_list(op, "iota_dimension")[0])]);
    case Opcode::kBroadcast:
      for (const int64_t d : integer_list(op, "dimensions"))
        inner.push_back(index[static_cast<size_t>(d)]);
      return at(op, 0, inner);
    case Opcode::kTranspose: {
      const auto permutation = integer_list(op, "dimensions");
      inner.resize(index.size());
      for (size_t d = 0; d < index.size(); ++d)
        inner[static_cast<size_t>(permutation[d])] = index[d];
      return at(op, 0, inner);
    }
    case Opcode::kReverse:
      inner = index;
      for (const int64_t d : integer_list(op, "dimensions")) {
        inner[static_cast<size_t>(d)] =
            op.shape.dimensions[static_cast<size_t>(d)] - 1 -
            inner[static_cast<size_t>(d)];
      }
      return at(op, 0, inner);
    case Opcode::kSlice: {
      const auto slices = *slice_dimensions(op);
      for (size_t d = 0; d < index.size(); ++d)
        inner.push_back(slices[d].start + slices[d].stride * index[d]);
      return at(op, 0, inner);
    }
    case Opcode::kPad:
      return pad(op, index);
    case Opcode::kConcatenate:
      return concatenate(op, index);
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
      return dynamic(op, index);
    case Opcode::kSelect:
      return at(op, 0, index) != 0 ? at(op, 1, index) : at(op, 2, index);
    case Opcode::kClamp:
      return std::min(std::max(at(op, 0, index), at(op, 1, index)),
                      at(op, 2, index));
    case Opcode::kMultiplyAdd:
      return multiply_add(op.shape.type, at(op, 0, index), at(op, 1, index),
                          at(op, 2, index));
    case Opcode::kMultiplySubtract:
      return multiply_add(op.shape.type, at(op, 0, index), at(op, 1, index),
                          -at(op, 2, index));
    case Opcode::kNegatedMultiplyAdd:
      return multiply_add(op.shape.type, -at(op, 0, index), at(op, 1, index),
                          at(op, 2, index));
    case Opcode::kCompare:
      return compare(compare_direction(op), at(op, 0, index), at(op, 1, index));
    case Opcode::kConvert:
      return convert(op.shape.type, at(op, 0, index));
    case Opcode::kBitcastConvert:
      return bitcast(op, index);
    case Opcode::kReducePrecision:
      return round_to_layout(
          at(op, 0, index),
          {static_cast<int>(integer_list(op, "exponent_bits")[0]),
           static_cast<int>(integer_list(op, "mantissa_bits")[0])},
          true);
    default:
      break;
  }
  const double result =
      op.operands.size() == 1
          ? unary(op.opcode, at(op, 0, index))
          : binary(op.opcode, at(op, 0, index), at(op, 1, index));
  return op.opcode == Opcode::kDivide ? convert(op.shape.type, result) : result;
}

Elements Evaluator::reduce(const Instruction& op) {
  const auto reduced = integer_list(op, "dimensions");
  const auto combine = combiner(op);
  Elements out(static_cast<size_t>(element_count(op.shape)), operand(op, 1)[0]);
  for_each(shape(op, 0).dimensions, [&](const Index& index) {
    Index kept;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!has(reduced, d)) kept.push_back(index[d]);
    }
    double& result = out[position(op.shape.dimensions, kept)];
    result = combine(result, at(op, 0, index));
  });
  return out;
}

Elements Evaluator::reduce_window(const Instruction& op) {
  const auto window = *window_dimensions(op);
  const auto combine = combiner(op);
  std::vector<int64_t> sizes;
  for (const WindowDimension& dimension : window)
    sizes.push_back(dimension.size);
  Elements out;
  for_each(op.shape.dimensions, [&](const Index& index) {
    double result = operand(op, 1)[0];
    for_each(sizes, [&](const Index& offset) {
      Index inner;
      for (size_t d = 0; d < index.size(); ++d) {
        const int64_t place = index[d] * window[d].stride +
                              offset[d] * window[d].window_dilation -
                              window[d].padding_low;
        if (place < 0 || place % window[d].base_dilation != 0 ||
            place / window[d].base_dilation >= shape(op, 0).dimensions[d]) {
          return;
        }
        inner.push_back(place / window[d].base_dilation);
      }
      result = combine(result, at(op, 0, inner));
    });
    out.push_back(result);
  });
  return out;
}

Elements Evaluator::gather(const Instruction& op) {
  const GatherDimensions g = gather_dimensions(op);
  const auto& outer = shape(op, 0).dimensions;
  Elements out;
  for_each(op.shape.dimensions, [&](const Index& index) {
    Index batch, offset;
    for (size_t d = 0; d < index.size(); ++d)
      (has(g.offset_dims, d) ? offset : batch).push_back(index[d]);
    Index inner(outer.size(), 0);
    for (size_t k = 0; k < g.start_index_map.size(); ++k) {
      Index from = batch;
      if (static_cast<size_t>(g.index_vector_dim) <
          shape(op, 1).dimensions.size()) {
        from.insert(from.begin() + g.index_vector_dim, static_cast<int64_t>(k));
      }
      const size_t d = static_cast<size_t>(g.start_index_map[k]);
      inner[d] = std::clamp<int64_t>(static_cast<int64_t>(at(op, 1, from)), 0,
                                     outer[d] - g.slice_sizes[d]);
    }
    size_t next = 0;
    for (size_t d = 0; d < inner.size(); ++d) {
      if (!has(g.collapsed_slice_dims, d)) inner[d] += offset[next++];
    }
    out.push_back(at(op, 0, inner));
  });
  return out;
}

Elements Evaluator::scatter(const Instruction& op) {
  const ScatterDimensions s = scatter_dimensions(op);
  const auto& outer = op.shape.dimensions;
  const auto combine = combiner(op);
  Elements out = operand(op, 0);
  for_each(shape(op, 2).dimensions, [&](const Index& index) {
    Index batch, inner(outer.size(), 0), sizes(outer.size(), 1);
    size_t next = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!has(s.update_window_dims, d)) {
        batch.push_back(index[d]);
        continue;
      }
      while (has(s.inserted_window_dims, next)) ++next;
      sizes[next] = shape(op, 2).dimensions[d];
      inner[next++] = index[d];
    }
    for (size_t k = 0; k < s.scatter_dims_to_operand_dims.size(); ++k) {
      Index from = batch;
      if (static_cast<size_t>(s.index_vector_dim) <
          shape(op, 1).dimensions.size()) {
        from.insert(from.begin() + s.index_vector_dim, static_cast<int64_t>(k));
      }
      const size_t d = static_cast<size_t>(s.scatter_dims_to_operand_dims[k]);
      const auto start = static_cast<int64_t>(at(op, 1, from));
      if (start < 0 || start + sizes[d] > outer[d]) return;
      inner[d] += start;
    }
    double& result = out[position(outer, inner)];
    result = combine(result, at(op, 2, index));
  });
  return out;
}

// Batch dimensions first, then the free ones of either side.
Elements Evaluator::dot(const Instruction& op) const {
  const DotDimensions dims = dot_dimensions(op);
  const auto& left = shape(op, 0).dimensions;
  const auto& right = shape(op, 1).dimensions;
  std::vector<int64_t> summed;
  for (const int64_t d : dims.lhs_contracting)
    summed.push_back(left[static_cast<size_t>(d)]);
  Elements out;
  for_each(op.shape.dimensions, [&](const Index& index) {
    double sum = 0;
    for_each(summed, [&](const Index& along) {
      Index a(left.size()), b(right.size());
      size_t next = 0;
      for (; next < dims.lhs_batch.size(); ++next) {
        a[static_cast<size_t>(dims.lhs_batch[next])] = index[next];
        b[static_cast<size_t>(dims.rhs_batch[next])] = index[next];
      }
      for (size_t k = 0; k < summed.size(); ++k) {
        a[static_cast<size_t>(dims.lhs_contracting[k])] = along[k];
        b[static_cast<size_t>(dims.rhs_contracting[k])] = along[k];
      }
      for (size_t d = 0; d < left.size(); ++d) {
        if (!has(dims.lhs_batch, d) && !has(dims.lhs_contracting, d))
          a[d] = index[next++];
      }
      for (size_t d = 0; d < right.size(); ++d) {
        if (!has(dims.rhs_batch, d) && !has(dims.rhs_contracting, d))
          b[d] = index[next++];
      }
      sum += operand(op, 0)[position(left, a)] *
             operand(op, 1)[position(right, b)];
    });
    out.push_back(sum);
  });
  return out;
}

Elements Evaluator::evaluate_one(const Instruction& op) {
  switch (op.opcode) {
    case Opcode::kParameter:
      return parameters_.at(static_cast<size_t>(op.parameter_number));
    case Opcode::kConstant:
      return *literal_values(op);
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kCopy:
      return operand(op, 0);
    case Opcode::kDot:
      return dot(op);
    case Opcode::kReduce:
      return reduce(op);
    case Opcode::kReduceWindow:
      return reduce_window(op);
    case Opcode::kGather:
      return gather(op);
    case Opcode::kScatter:
      return scatter(op);
    default:
      break;
  }
  Elements out;
  for_each(op.shape.dimensions,
           [&](const Index& index) { out.push_back(element(op, index)); });
  return out;
}

}  // namespace

std::map<uint32_t, Elements> evaluate(const Module& module,
                                      const Computation& computation,
                                      const std::vector<Elements>& parameters) {
  return Evaluator(module, computation, parameters).run();
}

}  // namespace reprise
