// One loop after the other: what can leave it is found in the body as LoopBody
// reads it, then body, condition and entry are written anew.
#include "data/hlo/loop_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/loop_body.h"
#include "data/hlo/loop_rewriter.h"

namespace reprise {
namespace {

/// More rows than this fill a core as they are.
constexpr int64_t kMostRows = 64;

/// New arrays may be this part of a loop's state, which is most of what a
/// recurrent step needs: a GRU (128 steps of 8 rows of 128) takes 1.08 times
/// XLA's memory by it, 1.13 times by half.
constexpr int64_t kPartOfState = 4;

/// Views between a product and what it is added to, or a factor and what is
/// transposed to it; more are not looked through.
constexpr size_t kMostViews = 16;

class Finder {
 public:
  Finder(const LoopBody& body, int64_t most_new_bytes)
      : body_(body),
        bytes_left_(most_new_bytes),
        taken_(body.read().instructions.size(), false) {}

  LeavingProducts run() {
    // Sums first: what they keep rows of, the others may read.
    for (const auto find :
         {&Finder::add_sum, &Finder::add_kept, &Finder::add_read}) {
      for (uint32_t i = 0; i < body_.read().instructions.size(); ++i) {
        const InstructionId id{i};
        if (!taken_[i] && is_matrix_product(body_.at(id))) (this->*find)(id);
      }
    }
    return std::move(found_);
  }

 private:
  /// Whether an instruction is a product of two matrices, `[rows, k] x [k, n]`
  /// in any order of their dimensions.
  bool is_matrix_product(const Instruction& op) const {
    return op.opcode == Opcode::kDot &&
           body_.at(op.operands[0]).shape.dimensions.size() == 2 &&
           body_.at(op.operands[1]).shape.dimensions.size() == 2 &&
           op.shape.dimensions.size() == 2 &&
           dot_dimensions(op).lhs_batch.empty();
  }

  /// The sinks that a value reaches by views alone; false where it reaches
  /// anything else.
  bool find_sinks(InstructionId id, const std::vector<InstructionId>& views,
                  std::vector<SumSink>* sinks) const {
    for (const InstructionId user : body_.users(id)) {
      const Instruction& op = body_.at(user);
      if (op.opcode == Opcode::kTranspose || op.opcode == Opcode::kReshape ||
          op.opcode == Opcode::kSlice) {
        if (views.size() == kMostViews) return false;
        std::vector<InstructionId> further = views;
        further.push_back(user);
        if (!find_sinks(user, further, sinks)) return false;
        continue;
      }
      const auto element = summed_element(user, id);
      if (!element) return false;
      sinks->push_back({*element, views});
    }
    return true;
  }

  /// The element of the state that is only ever `element + value`.
  std::optional<size_t> summed_element(InstructionId sum,
                                       InstructionId value) const {
    const Instruction& op = body_.at(sum);
    if (op.opcode != Opcode::kAdd || op.operands[0] == op.operands[1])
      return std::nullopt;
    const auto element =
        body_.element(op.operands[op.operands[0] == value ? 1 : 0]);
    if (!element || !becomes(*element, sum)) return std::nullopt;
    return element;
  }

  /// Whether `last` alone reads the element, and is what it becomes.
  bool becomes(size_t element, InstructionId last) const {
    return body_.only_reader(element) == last && body_.only_user(last) &&
           body_.only_user(last) == body_.read().root &&
           body_.next(element) == last;
  }

  /// A factor before it was transposed.
  Factor factor(InstructionId id, int64_t contracting) const {
    for (size_t i = 0;
         i < kMostViews && body_.at(id).opcode == Opcode::kTranspose; ++i) {
      const std::vector<int64_t> order =
          integer_list(body_.at(id), "dimensions");
      contracting = order[static_cast<size_t>(contracting)];
      id = body_.at(id).operands[0];
    }
    return {id, contracting};
  }

  void add_sum(InstructionId id) {
    const Instruction& product = body_.at(id);
    if (product.shape.type != PrimitiveType::kF32 &&
        product.shape.type != PrimitiveType::kF64)
      return;
    const int64_t factors = element_count(body_.at(product.operands[0]).shape) +
                            element_count(body_.at(product.operands[1]).shape);
    LeavingSum sum;
    sum.product = id;
    if (factors > element_count(product.shape) ||
        !find_sinks(id, {}, &sum.sinks) || sum.sinks.empty())
      return;
    const DotDimensions dimensions = dot_dimensions(product);
    sum.lhs = factor(product.operands[0], dimensions.lhs_contracting[0]);
    sum.rhs = factor(product.operands[1], dimensions.rhs_contracting[0]);
    const auto lhs = body_.row(sum.lhs.value), rhs = body_.row(sum.rhs.value);
    const RowIndex at = lhs   ? RowIndex{lhs->place, lhs->index}
                        : rhs ? RowIndex{rhs->place, rhs->index}
                              : RowIndex{{}, body_.counter()};
    if (!keep_rows({sum.lhs.value, sum.rhs.value}, at)) return;
    sum.at = at;
    taken_[index_of(id)] = true;
    found_.sums.push_back(std::move(sum));
  }

  /// Few rows with all of an invariant matrix.
  bool is_of_weights(const Instruction& product) const {
    const Shape& rows = body_.at(product.operands[0]).shape;
    return dot_dimensions(product).lhs_contracting[0] == 1 &&
           rows.dimensions[0] <= kMostRows &&
           !body_.is_invariant(product.operands[0]) &&
           body_.is_invariant(product.operands[1]);
  }

  void add_kept(InstructionId id) {
    if (!is_of_weights(body_.at(id))) return;
    InstructionId last = id;
    auto user = body_.only_user(last);
    while (user && body_.at(*user).opcode == Opcode::kReshape) {
      last = *user;
      user = body_.only_user(last);
    }
    if (!user || body_.at(*user).opcode != Opcode::kDynamicUpdateSlice ||
        body_.at(*user).operands[1] != last)
      return;
    const auto element = body_.element(body_.at(*user).operands[0]);
    const auto index = body_.row_index(*user);
    if (!element || !index || !becomes(*element, *user)) return;
    const auto place = body_.place(*index);
    if (!place) return;
    const RowIndex at{*place, *index};
    if (!keep_rows({body_.at(id).operands[0]}, at)) return;
    taken_[index_of(id)] = true;
    found_.kept.push_back({id, *element, at});
  }

  void add_read(InstructionId id) {
    const Instruction& product = body_.at(id);
    if (!is_of_weights(product)) return;
    const auto row = body_.row(product.operands[0]);
    if (!row || !take_bytes(product.shape)) return;
    found_.read.push_back({id, {row->place, row->index}});
  }

  /// Notes which values need arrays of their own; false where these would be
  /// too large.
  bool keep_rows(const std::vector<InstructionId>& values, const RowIndex& at) {
    const int64_t before = bytes_left_;
    std::map<RowKey, LoopRows> more;
    for (const InstructionId value : values) {
      const RowKey key{value, at.place.sign};
      const auto row = body_.row(value);
      if ((row && row->place == at.place) || found_.rows.contains(key) ||
          more.contains(key))
        continue;
      if (!take_bytes(body_.at(value).shape)) {
        bytes_left_ = before;
        return false;
      }
      more.emplace(key, LoopRows{value, at});
    }
    found_.rows.merge(more);
    return true;
  }

  /// For an array of a row a step; false where it would be too large.
  bool take_bytes(const Shape& row) {
    const int64_t bytes = byte_size(row);
    if (bytes > bytes_left_ / body_.trips()) return false;
    bytes_left_ -= bytes * body_.trips();
    return true;
  }

  const LoopBody& body_;
  int64_t bytes_left_;
  std::vector<bool> taken_;  ///< [instruction] Leaves.
  LeavingProducts found_;
};

/// Whether all that reads an instruction picks an element of it.
bool is_only_picked(const Computation& entry, InstructionId id) {
  return entry.root != id &&
         std::all_of(entry.instructions.begin(), entry.instructions.end(),
                     [&](const Instruction& op) {
                       return op.opcode == Opcode::kGetTupleElement ||
                              std::find(op.operands.begin(), op.operands.end(),
                                        id) == op.operands.end();
                     });
}

/// Loops of an entry that are looked at: each costs a pass over the entry.
constexpr int kMostLoops = 1000;

/// The loop that a while of the entry is, over a tuple that nothing else reads.
std::optional<CountedLoop> counted_loop(const Module& module, InstructionId id,
                                        const std::vector<int>& callers) {
  const Computation& entry = module.entry_computation();
  const Instruction& loop = entry.at(id);
  if (use_counts(entry)[index_of(loop.operands[0])] != 1 ||
      entry.at(loop.operands[0]).opcode != Opcode::kTuple ||
      !is_only_picked(entry, id))
    return std::nullopt;
  const auto counter = proven_counter(module, entry, loop);
  const auto condition = called_computation(loop, "condition"),
             body = called_computation(loop, "body");
  if (!counter || counter->limit < 2 || counter->step != 1 || !condition ||
      !body || callers[index_of(*condition)] != 1 ||
      callers[index_of(*body)] != 1)
    return std::nullopt;
  return CountedLoop{id, *condition, *body, counter->index, counter->limit};
}

std::vector<std::optional<int64_t>> first_integers(const Computation& entry,
                                                   const CountedLoop& loop) {
  std::vector<std::optional<int64_t>> first;
  for (const InstructionId id :
       entry.at(entry.at(loop.loop).operands[0]).operands)
    first.push_back(integer_constant(entry.at(id)));
  return first;
}

}  // namespace

void batch_loop_products(
    const std::function<Result<Computation>(ComputationId)>& flat,
    Module* module) {
  const std::vector<int> callers = caller_counts(*module);
  int looked_at = 0;
  for (uint32_t i = 0; i < module->entry_computation().instructions.size();
       ++i) {
    if (module->entry_computation().instructions[i].opcode != Opcode::kWhile ||
        ++looked_at > kMostLoops)
      continue;
    const auto loop = counted_loop(*module, InstructionId{i}, callers);
    if (!loop || !reads_counter_alone(module->at(loop->condition), *loop))
      continue;
    const Result<Computation> whole_body = flat(loop->body);
    if (!whole_body) continue;
    const LoopBody body(*whole_body, loop->counter, loop->trips,
                        first_integers(module->entry_computation(), *loop));
    if (!body.is_valid()) continue;
    const Instruction& whole = module->entry_computation().at(loop->loop);
    const LeavingProducts leaving =
        Finder(body, byte_size(whole.shape) / kPartOfState).run();
    if (leaving.empty()) continue;
    i = index_of(rewrite_loop(body, leaving, *loop, module));
  }
}

}  // namespace reprise
