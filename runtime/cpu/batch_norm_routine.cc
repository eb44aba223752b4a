// batch-norm-training, -inference and -grad, feature by feature, as XLA's
// expander defines them (xla/service/batchnorm_expander.cc); sums in f64.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/matrix_product.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

double attribute_value(const Instruction& instruction, const char* name) {
  const Attribute* found = instruction.find_attribute(name);
  if (found == nullptr) return 0;
  if (const auto* raw = std::get_if<RawText>(&found->value))
    return std::strtod(raw->text.c_str(), nullptr);
  const std::vector<int64_t> whole = integer_list(instruction, name);
  return whole.empty() ? 0 : static_cast<double>(whole[0]);
}

class BatchNorm final : public Routine {
 public:
  BatchNorm(const RoutineCall& call, size_t feature)
      : call_(call),
        opcode_(call.instruction.opcode),
        type_(call.operand_shape(0).type),
        epsilon_(attribute_value(call.instruction, "epsilon")) {
    const Shape& shape = call.operand_shape(0);
    strides_ = element_strides(shape);
    extents_ = shape.dimensions;
    features_ = std::exchange(extents_[feature], 1);
    step_ = strides_[feature];
    count_ = element_count(shape) / features_;
  }

  bool run() override {
    for (int64_t f = 0; f < features_; ++f) {
      switch (opcode_) {
        case Opcode::kBatchNormTraining:
          train(f);
          break;
        case Opcode::kBatchNormInference:
          normalize(f, at(3, f), at(4, f));
          break;
        default:
          differentiate(f);
      }
    }
    return true;
  }

 private:
  double at(size_t operand, int64_t place) const {
    double value = 0;
    load_sums(
        SumType::kF64, type_,
        call_.operands[operand].data() + place * primitive_type_bits(type_) / 8,
        1, 1, reinterpret_cast<std::byte*>(&value));
    return value;
  }
  void put(size_t result, int64_t place, double value) const {
    if (call_.results[result].empty()) return;
    store_sums(
        SumType::kF64, reinterpret_cast<const std::byte*>(&value), 1, type_,
        call_.results[result].data() + place * primitive_type_bits(type_) / 8,
        1);
  }

  template <typename Visit>
  void each(int64_t feature, const Visit& visit) const {
    IndexCounter index(extents_);
    do {
      visit(feature * step_ + offset_of(index, strides_));
    } while (index.next());
  }

  double mean_of(int64_t feature, double from, bool squares) const {
    double sum = 0;
    each(feature, [&](int64_t place) {
      const double difference = at(0, place) - from;
      sum += squares ? difference * difference : difference;
    });
    return sum / static_cast<double>(count_);
  }

  void train(int64_t feature) {
    const double mean = mean_of(feature, 0, false);
    const double variance = mean_of(feature, mean, true);
    normalize(feature, mean, variance);
    put(1, feature, mean);
    put(2, feature, variance);
  }

  void normalize(int64_t feature, double mean, double variance) {
    const double scale = at(1, feature) / std::sqrt(variance + epsilon_);
    const double shift = at(2, feature);
    each(feature, [&](int64_t place) {
      put(0, place, (at(0, place) - mean) * scale + shift);
    });
  }

  /// Operands: activations, scale, mean, variance, gradient of the result.
  void differentiate(int64_t feature) {
    const double mean = at(2, feature);
    const double inverse = 1 / std::sqrt(at(3, feature) + epsilon_);
    double sum = 0, moment = 0;
    each(feature, [&](int64_t place) {
      sum += at(4, place);
      moment += at(4, place) * (at(0, place) - mean);
    });
    const auto count = static_cast<double>(count_);
    const double scale = at(1, feature) * inverse;
    each(feature, [&](int64_t place) {
      const double centred = at(0, place) - mean;
      put(0, place,
          scale * (at(4, place) - sum / count -
                   centred * inverse * inverse * moment / count));
    });
    put(1, feature, moment * inverse);
    put(2, feature, sum);
  }

  RoutineCall call_;
  Opcode opcode_;
  PrimitiveType type_;
  double epsilon_;
  std::vector<int64_t> strides_, extents_;
  int64_t features_ = 1, step_ = 1, count_ = 1;
};

}  // namespace

Result<std::unique_ptr<Routine>> make_batch_norm(const RoutineCall& call) {
  const bool trains = call.instruction.opcode == Opcode::kBatchNormTraining;
  const Shape& shape = call.operand_shape(0);
  const auto feature =
      static_cast<int64_t>(attribute_value(call.instruction, "feature_index"));
  bool fits = call.operands.size() == (trains ? 3 : 5) && feature >= 0 &&
              feature < static_cast<int64_t>(shape.dimensions.size());
  for (size_t i = 1; fits && i < call.operands.size(); ++i) {
    const bool gradient =
        i == 4 && call.instruction.opcode == Opcode::kBatchNormGrad;
    fits = call.operand_shape(i).type == shape.type &&
           element_count(call.operand_shape(i)) ==
               (gradient ? element_count(shape)
                         : shape.dimensions[static_cast<size_t>(feature)]);
  }
  if (!fits || !is_kernel_type(shape.type))
    return fail(ErrorKind::kInvalid, "its operands do not fit together");
  return std::make_unique<BatchNorm>(call, static_cast<size_t>(feature));
}

}  // namespace reprise
