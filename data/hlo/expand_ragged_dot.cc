#include "data/hlo/expand_ragged_dot.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

bool has_dimension(const Dimensions& dimensions, int64_t d) {
  return std::ranges::find(dimensions, d) != dimensions.end();
}

size_t place_in(const Dimensions& dimensions, int64_t d) {
  return static_cast<size_t>(std::ranges::find(dimensions, d) -
                             dimensions.begin());
}

/// Those of a side before its ragged one, by which groups may differ: the
/// batch, and of `rest` what stands before it.
Dimensions prefix_of(const Dimensions& batch, const Dimensions& rest,
                     int64_t ragged) {
  Dimensions prefix = batch;
  prefix.insert(prefix.end(), rest.begin(),
                rest.begin() + static_cast<ptrdiff_t>(place_in(rest, ragged)));
  return prefix;
}

/// Behind a new first dimension.
Dimensions shifted(Dimensions dimensions) {
  for (int64_t& d : dimensions) ++d;
  return dimensions;
}

class RaggedDot {
 public:
  RaggedDot(const Computation& around, const Instruction& dot,
            RebuiltModule* rebuilt, Computation* to)
      : around_(around),
        dot_(dot),
        rebuilt_(*rebuilt),
        ops_(dot, &to->instructions),
        by_(dot_dimensions(dot)),
        ragged_(integer_list(dot, "lhs_ragged_dims")),
        group_(integer_list(dot, "rhs_group_dims")) {}

  std::optional<InstructionId> run() {
    if (!is_valid()) return std::nullopt;
    const int64_t ragged = ragged_[0];
    if (has_dimension(by_.lhs_batch, ragged))
      return append(dot_.operands[0], dot_.operands[1]);
    const bool is_summed = has_dimension(by_.lhs_contracting, ragged);
    if (group_.size() != (is_summed ? 0U : 1U)) return std::nullopt;
    return is_summed ? sum_by_group() : sum_over_groups();
  }

 private:
  const Dimensions& extents(size_t operand) const {
    return ops_.shape(dot_.operands[operand]).dimensions;
  }

  bool is_valid() const {
    if (dot_.operands.size() != 3 || ragged_.size() != 1 ||
        by_.lhs_contracting.size() != by_.rhs_contracting.size())
      return false;
    const auto is_within = [&](const Dimensions& dimensions, size_t operand) {
      return std::ranges::all_of(dimensions, [&](int64_t d) {
        return d >= 0 && d < std::ssize(extents(operand));
      });
    };
    return is_within(ragged_, 0) && is_within(by_.lhs_batch, 0) &&
           is_within(by_.lhs_contracting, 0) && is_within(group_, 1) &&
           is_within(by_.rhs_batch, 1) && is_within(by_.rhs_contracting, 1) &&
           !extents(2).empty();
  }

  /// Dimensions of the left side that stay.
  Dimensions kept() const {
    Dimensions kept;
    for (int64_t d = 0; d < std::ssize(extents(0)); ++d) {
      if (!has_dimension(by_.lhs_batch, d) &&
          !has_dimension(by_.lhs_contracting, d))
        kept.push_back(d);
    }
    return kept;
  }

  std::optional<InstructionId> sum_over_groups() {
    const auto lhs =
        parted(0, ragged_[0], prefix_of(by_.lhs_batch, kept(), ragged_[0]));
    if (!lhs) return std::nullopt;
    by_.lhs_batch = shifted(by_.lhs_batch);
    by_.lhs_contracting = shifted(by_.lhs_contracting);
    by_.lhs_contracting.push_back(0);
    by_.rhs_contracting.push_back(group_[0]);
    return append(*lhs, dot_.operands[1]);
  }

  std::optional<InstructionId> sum_by_group() {
    const int64_t rhs_ragged =
        by_.rhs_contracting[place_in(by_.lhs_contracting, ragged_[0])];
    const auto lhs =
        parted(0, ragged_[0],
               prefix_of(by_.lhs_batch, by_.lhs_contracting, ragged_[0]));
    const auto rhs =
        parted(1, rhs_ragged,
               prefix_of(by_.rhs_batch, by_.rhs_contracting, rhs_ragged));
    if (!lhs || !rhs) return std::nullopt;
    by_.lhs_contracting = shifted(by_.lhs_contracting);
    by_.rhs_contracting = shifted(by_.rhs_contracting);
    by_.lhs_batch = shifted(by_.lhs_batch);
    by_.rhs_batch = shifted(by_.rhs_batch);
    by_.lhs_batch.insert(by_.lhs_batch.begin(), 0);
    by_.rhs_batch.insert(by_.rhs_batch.begin(), 0);
    return append(*lhs, *rhs);
  }

  /// An operand once a group, along a new first dimension: its own rows along
  /// `ragged`, zeros for all others.
  std::optional<InstructionId> parted(size_t operand, int64_t ragged,
                                      const Dimensions& prefix) {
    const Shape& whole = ops_.shape(dot_.operands[operand]);
    const Shape sizes = ops_.shape(dot_.operands[2]);
    Shape all = array_of(whole.type, whole.dimensions);
    all.dimensions.insert(all.dimensions.begin(), sizes.dimensions.back());
    // Where the sizes' dimensions stand in it: the groups are their last.
    Dimensions places = shifted(prefix);
    if (sizes.dimensions.size() == 1) places.clear();
    places.push_back(0);
    for (size_t i = 0; i < sizes.dimensions.size(); ++i) {
      if (places.size() != sizes.dimensions.size() ||
          all.dimensions[static_cast<size_t>(places[i])] != sizes.dimensions[i])
        return std::nullopt;
    }
    Shape numbers = all;
    numbers.type = sizes.type;
    const InstructionId end = spread(ends(), places, numbers);
    const InstructionId begin = spread(begins(), places, numbers);
    const InstructionId row =
        ops_.op(Opcode::kIota, {}, numbers,
                {{"iota_dimension", Dimensions{ragged + 1}}});
    Shape truth = all;
    truth.type = PrimitiveType::kPred;
    const InstructionId is_own = ops_.op(
        Opcode::kAnd,
        {ops_.compare("LE", begin, row), ops_.compare("LT", row, end)}, truth);
    Dimensions behind(all.dimensions.size() - 1);
    std::iota(behind.begin(), behind.end(), 1);
    const InstructionId once =
        ops_.broadcast(dot_.operands[operand], std::move(behind), all);
    return ops_.op(Opcode::kSelect, {is_own, once, ops_.zeros(all)}, all);
  }

  /// Where groups end: the row behind.
  InstructionId ends() {
    if (ends_) return *ends_;
    const Shape sizes = ops_.shape(dot_.operands[2]);
    const InstructionId zero = ops_.number(0, array_of(sizes.type));
    ends_ = ops_.append(cumulative_reduce_window(
        array_of(sizes.type, sizes.dimensions), sizes.dimensions.size() - 1,
        false, dot_.operands[2], zero,
        rebuilt_.combiner(around_, dot_, Opcode::kAdd, sizes.type)));
    return *ends_;
  }
  InstructionId begins() {
    if (!begins_) {
      const Shape shape = ops_.shape(ends());
      begins_ = ops_.op(Opcode::kSubtract, {ends(), dot_.operands[2]}, shape);
    }
    return *begins_;
  }

  /// `value` along those dimensions of an array, in ascending order.
  InstructionId spread(InstructionId value, const Dimensions& places,
                       const Shape& shape) {
    Dimensions order(places.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(
        order, {}, [&](int64_t i) { return places[static_cast<size_t>(i)]; });
    Dimensions sorted = places;
    std::ranges::sort(sorted);
    if (sorted != places) value = ops_.transposed(value, std::move(order));
    return ops_.broadcast(value, std::move(sorted), shape);
  }

  InstructionId append(InstructionId lhs, InstructionId rhs) {
    Instruction made = dot_;
    made.opcode = Opcode::kDot;
    made.operands = {lhs, rhs};
    std::erase_if(made.attributes, [](const Attribute& attribute) {
      return attribute.name.starts_with("lhs_") ||
             attribute.name.starts_with("rhs_");
    });
    const auto add = [&](const char* name, const Dimensions& dimensions) {
      if (!dimensions.empty()) made.attributes.push_back({name, dimensions});
    };
    add("lhs_batch_dims", by_.lhs_batch);
    add("lhs_contracting_dims", by_.lhs_contracting);
    add("rhs_batch_dims", by_.rhs_batch);
    add("rhs_contracting_dims", by_.rhs_contracting);
    return ops_.append(std::move(made));
  }

  const Computation& around_;
  const Instruction& dot_;
  RebuiltModule& rebuilt_;
  ExpansionOps ops_;
  DotDimensions by_;
  Dimensions ragged_, group_;
  std::optional<InstructionId> ends_, begins_;
};

}  // namespace

std::optional<InstructionId> expand_ragged_dot(const Computation& around,
                                               const Instruction& dot,
                                               RebuiltModule* rebuilt,
                                               Computation* to) {
  return RaggedDot(around, dot, rebuilt, to).run();
}

}  // namespace reprise
