// Sort by a comparator, stable always (which an unstable sort may be), and the
// k largest or smallest of each row. A comparator that has a key is called once
// for many elements; threads share rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/sort_key.h"
#include "data/schedule/called_program.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/row_order.h"
#include "runtime/cpu/scalar_function.h"

namespace reprise {
namespace {

/// Of one element's part in a comparison sort, measured: 2 ns with keys.
constexpr double kCompare_ns = 2;

double sort_ns(size_t rows, int64_t count) {
  const auto n = static_cast<double>(count);
  return kCompare_ns * static_cast<double>(rows) * n * std::log2(n + 1);
}

/// Rows of arrays along one dimension.
struct SortedRows {
  std::vector<int64_t> extents, strides;  ///< Of rows: the sorted one is 1.
  size_t rows = 1;
  int64_t count = 1, step = 1;  ///< Elements of a row, and between them.

  SortedRows(const Shape& shape, size_t dimension)
      : extents(shape.dimensions), strides(element_strides(shape)) {
    if (extents.empty()) return;  // A scalar is sorted.
    count = std::exchange(extents[dimension], 1);
    step = strides[dimension];
    for (const int64_t extent : extents) rows *= static_cast<size_t>(extent);
  }

  /// The first element of a row.
  int64_t start(size_t row) const {
    auto left = static_cast<int64_t>(row);
    int64_t offset = 0;
    for (size_t d = extents.size(); d-- > 0; left /= extents[d])
      offset += left % extents[d] * strides[d];
    return offset;
  }
};

/// to[i] = from[order(i)] of elements that lie `step` bytes apart.
template <typename Order>
void permute(const std::byte* from, std::byte* to, size_t bytes, size_t step,
             size_t count, const Order& order) {
  const auto move = [&](auto constant) {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(to + i * step, from + order(i) * step, constant());
  };
  if (bytes == 4) {
    move([] { return size_t{4}; });
  } else {
    move([bytes] { return bytes; });
  }
}

/// What one thread needs to sort rows of some arrays.
class RowSorter {
 public:
  RowSorter(const RoutineCall& call, const SortedRows& rows,
            ScalarFunction comparator)
      : call_(call),
        rows_(rows),
        first_(call.spec.first_read < 0
                   ? rows.count
                   : std::min(call.spec.first_read, rows.count)),
        comparator_(std::move(comparator)) {
    for (size_t a = 0; a < call.operands.size(); ++a)
      bytes_.push_back(element_bytes(call.operand_shape(a)));
  }

  /// `array`: whose elements have the key.
  void set_key(ScalarFunction key, size_t array, PrimitiveType type,
               const RowOrder::Options& options) {
    key_ = std::move(key);
    keyed_ = array;
    keyed_order_.emplace(static_cast<size_t>(rows_.count), type, options);
    key_bytes_ = static_cast<size_t>(primitive_type_bits(type)) / 8;
    keys_.resize(static_cast<size_t>(rows_.count) * key_bytes_);
  }

  void sort(size_t row) {
    start_ = rows_.start(row);
    if (keyed_order_ && sort_by_key()) return;
    comparator_.set_output(0, &less_);
    order_.resize(static_cast<size_t>(rows_.count));
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t x, uint32_t y) { return is_less(x, y); });
    write([&](size_t i) { return size_t{order_[i]}; });
  }

 private:
  /// False where a key has no place among the others.
  bool sort_by_key() {
    const auto count = static_cast<size_t>(rows_.count);
    for (size_t i = 0; i < count; i += key_->lanes()) {
      const size_t lanes = std::min(key_->lanes(), count - i);
      key_->set_output(0, keys_.data() + i * key_bytes_);
      key_->set_parameter(2 * keyed_, elements(i, lanes));
      key_->call(lanes);
    }
    if (!keyed_order_->set_keys(keys_.data())) return false;
    keyed_order_->sort(static_cast<size_t>(first_));
    write([&](size_t i) { return size_t{(*keyed_order_)[i]}; });
    return true;
  }

  /// So many that have the key, one after the other.
  const std::byte* elements(size_t begin, size_t lanes) {
    if (lanes == 1 || rows_.step == 1) return element(keyed_, begin);
    const size_t bytes = bytes_[keyed_];
    gathered_.resize(lanes * bytes);
    for (size_t i = 0; i < lanes; ++i) {
      std::memcpy(gathered_.data() + i * bytes, element(keyed_, begin + i),
                  bytes);
    }
    return gathered_.data();
  }

  template <typename Order>
  void write(const Order& order) {
    for (size_t a = 0; a < bytes_.size(); ++a) {
      if (call_.results[a].empty()) continue;
      const size_t first = static_cast<size_t>(start_) * bytes_[a];
      permute(call_.operands[a].data() + first, call_.results[a].data() + first,
              bytes_[a], static_cast<size_t>(rows_.step) * bytes_[a],
              static_cast<size_t>(first_), order);
    }
  }

  bool is_less(uint32_t x, uint32_t y) {
    for (size_t a = 0; a < bytes_.size(); ++a) {
      comparator_.set_parameter(2 * a, element(a, x));
      comparator_.set_parameter(2 * a + 1, element(a, y));
    }
    comparator_.call();
    return less_ != std::byte{0};
  }

  const std::byte* element(size_t a, size_t i) const {
    const size_t at =
        static_cast<size_t>(start_) + i * static_cast<size_t>(rows_.step);
    return call_.operands[a].data() + at * bytes_[a];
  }

  const RoutineCall& call_;
  const SortedRows& rows_;
  int64_t first_;  ///< So many have to be in their places; no more are.
  ScalarFunction comparator_;
  std::optional<ScalarFunction> key_;
  size_t keyed_ = 0;
  std::optional<RowOrder> keyed_order_;
  size_t key_bytes_ = 0;
  std::vector<std::byte> keys_, gathered_;
  std::vector<size_t> bytes_;  ///< [array] Of an element.
  std::vector<uint32_t> order_;
  int64_t start_ = 0;
  std::byte less_{};
};

/// Runs `work(part, row)` for all rows, each thread a part of them.
template <typename Work>
bool run_rows(size_t rows, SharedParts* shared, const Work& work) {
  const auto run = [&](size_t part, size_t parts) {
    const size_t end = rows * (part + 1) / parts;
    for (size_t row = rows * part / parts; row < end; ++row) work(part, row);
    return true;
  };
  return shared->run([&] { return run(0, 1); },
                     [&](size_t part) { return run(part, shared->count()); });
}

class Sort final : public Routine {
 public:
  Sort(const RoutineCall& call, size_t dimension)
      : call_(call), rows_(call.operand_shape(0), dimension) {
    shared_ = SharedParts(
        call.team,
        call.team.parts(sort_ns(rows_.rows, rows_.count), rows_.rows));
  }

  /// Errors: those of ScalarFunction::bind.
  Status bind() {
    const size_t arrays = call_.operands.size();
    Result<ScalarFunction> comparator =
        ScalarFunction::bind(call_, 0, 2 * arrays, 1);
    if (!comparator) return pass(comparator.error());
    for (size_t part = 0; part < shared_.count(); ++part)
      sorters_.emplace_back(call_, rows_, *comparator);
    if (call_.spec.callees.size() < 2) return {};
    Result<ScalarFunction> key = ScalarFunction::bind(call_, 1, 2 * arrays, 1);
    if (!key) return pass(key.error());
    const InlinedModule& module = call_.spec.callees[1].program->module;
    const Computation& entry = module.entry_computation();
    const PrimitiveType type = entry.at(entry.root).shape.elements[0].type;
    size_t array = 0;
    while (array < arrays && !key->reads(2 * array)) ++array;
    if (array == arrays) return fail(ErrorKind::kInvalid, "a key of nothing");
    const InlinedModule& compared = call_.spec.callees[0].program->module;
    const RowOrder::Options options{
        .is_descending = sorts_descending(compared),
        .is_partial = sorts_by_partial_order(compared)};
    for (RowSorter& sorter : sorters_)
      sorter.set_key(*key, array, type, options);
    return {};
  }

  bool run() override {
    return run_rows(rows_.rows, &shared_,
                    [&](size_t part, size_t row) { sorters_[part].sort(row); });
  }

 private:
  RoutineCall call_;
  SortedRows rows_;
  SharedParts shared_;
  std::vector<RowSorter> sorters_;  ///< [part]
};

class TopK final : public Routine {
 public:
  TopK(const RoutineCall& call, int64_t k, bool largest)
      : call_(call), k_(static_cast<size_t>(k)) {
    const Shape& shape = call.operand_shape(0);
    bytes_ = element_bytes(shape);
    count_ = static_cast<size_t>(shape.dimensions.back());
    rows_ = call.operands[0].size() / std::max<size_t>(count_ * bytes_, 1);
    shared_ = SharedParts(
        call.team,
        call.team.parts(sort_ns(rows_, shape.dimensions.back()), rows_));
    for (size_t part = 0; part < shared_.count(); ++part)
      orders_.emplace_back(count_, shape.type,
                           RowOrder::Options{.is_descending = largest});
  }

  bool run() override {
    return run_rows(rows_, &shared_, [&](size_t part, size_t row) {
      RowOrder& order = orders_[part];
      const std::byte* from = call_.operands[0].data() + row * count_ * bytes_;
      order.set_keys(from);
      order.sort(k_);
      write_row(row, from, order);
    });
  }

 private:
  void write_row(size_t row, const std::byte* from, const RowOrder& order) {
    if (!call_.results[0].empty()) {
      permute(from, call_.results[0].data() + row * k_ * bytes_, bytes_, bytes_,
              k_, [&](size_t i) { return size_t{order[i]}; });
    }
    if (call_.results[1].empty()) return;
    std::byte* to = call_.results[1].data() + row * k_ * sizeof(int32_t);
    for (size_t i = 0; i < k_; ++i) {
      const auto place = static_cast<int32_t>(order[i]);
      std::memcpy(to + i * sizeof place, &place, sizeof place);
    }
  }

  RoutineCall call_;
  size_t bytes_ = 4, count_ = 0, rows_ = 0, k_;
  SharedParts shared_;
  std::vector<RowOrder> orders_;  ///< [part]
};

std::string raw_value(const Instruction& instruction, const char* name) {
  const Attribute* found = instruction.find_attribute(name);
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string() : raw->text;
}

}  // namespace

Result<std::unique_ptr<Routine>> make_sort(const RoutineCall& call) {
  const size_t arrays = call.operands.size();
  const std::vector<int64_t> dimensions =
      integer_list(call.instruction, "dimensions");
  const size_t rank = call.operand_shape(0).dimensions.size();
  if (call.results.size() != arrays || dimensions.size() > 1 ||
      (rank > 0 && (dimensions.empty() || dimensions[0] < 0 ||
                    static_cast<size_t>(dimensions[0]) >= rank))) {
    return fail(ErrorKind::kInvalid, "a sort of {} arrays along {} dimensions",
                arrays, dimensions.size());
  }
  if (rank > 0 &&
      call.operand_shape(0).dimensions[static_cast<size_t>(dimensions[0])] >
          std::numeric_limits<uint32_t>::max())
    return fail(ErrorKind::kUnsupported, "a sort of more than 2^32 elements");
  auto sort = std::make_unique<Sort>(
      call, dimensions.empty() ? 0 : static_cast<size_t>(dimensions[0]));
  const Status bound = sort->bind();
  if (!bound) return pass(bound.error());
  return sort;
}

Result<std::unique_ptr<Routine>> make_top_k(const RoutineCall& call) {
  const Shape& shape = call.instruction.shape;
  const bool fits = call.operands.size() == 1 && shape.elements.size() == 2 &&
                    shape.elements[1].type == PrimitiveType::kS32 &&
                    !shape.elements[0].dimensions.empty() &&
                    call.operand_shape(0).dimensions.size() ==
                        shape.elements[0].dimensions.size() &&
                    shape.elements[0].dimensions.back() <=
                        call.operand_shape(0).dimensions.back();
  if (!fits) {
    return fail(ErrorKind::kUnsupported,
                "top-k other than of one array giving values and s32 indices");
  }
  const bool largest = raw_value(call.instruction, "largest") != "false";
  return std::make_unique<TopK>(call, shape.elements[0].dimensions.back(),
                                largest);
}

}  // namespace reprise
