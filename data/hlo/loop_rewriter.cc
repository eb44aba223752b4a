#include "data/hlo/loop_rewriter.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/loop_steps.h"

namespace reprise {
namespace {

void set_index(size_t element, Instruction* picked) {
  for (Attribute& attribute : picked->attributes) {
    if (attribute.name == "index")
      attribute.value = RawText{std::to_string(element)};
  }
}

/// What only left products read: ops without any effect but their value.
bool may_go(const Instruction& op) {
  switch (op.opcode) {
    case Opcode::kAdd:
    case Opcode::kConstant:
    case Opcode::kDot:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGetTupleElement:
    case Opcode::kReshape:
    case Opcode::kSlice:
    case Opcode::kTranspose:
      return true;
    default:
      return false;
  }
}

void drop_sharding(Instruction* op) {
  std::erase_if(op->attributes, [](const Attribute& attribute) {
    return attribute.name == "sharding";
  });
}

/// The loop's state from now on.
struct NewState {
  NewState(const LoopBody& body, const LeavingProducts& leaving,
           const CountedLoop& loop, const Shape& old)
      : removed(old.elements.size(), false) {
    for (const LeavingSum& sum : leaving.sums) {
      for (const SumSink& sink : sum.sinks) removed[sink.element] = true;
    }
    for (const LeavingKept& kept : leaving.kept) removed[kept.element] = true;
    shape.type = PrimitiveType::kTuple;
    for (size_t k = 0; k < removed.size(); ++k) {
      place.push_back(shape.elements.size());
      if (!removed[k]) shape.elements.push_back(old.elements[k]);
    }
    first_rows = shape.elements.size();
    for (const auto& [key, rows] : leaving.rows)
      shape.elements.push_back(
          with_steps(body.at(rows.value).shape, loop.trips));
    first_read = shape.elements.size();
    for (const LeavingRead& read : leaving.read)
      shape.elements.push_back(
          with_steps(body.at(read.product).shape, loop.trips));
  }

  Shape shape;
  std::vector<bool> removed;  ///< [old element]
  std::vector<size_t> place;  ///< [old element] in the new state.
  size_t first_rows = 0, first_read = 0;
};

/// Writes condition and body.
class BodyWriter {
 public:
  BodyWriter(const LoopBody& body, const LeavingProducts& leaving,
             const NewState& state)
      : body_(body), leaving_(leaving), state_(state) {
    for (size_t r = 0; r < leaving.read.size(); ++r)
      read_place_.emplace(leaving.read[r].product, r);
  }

  /// Requires: reads_counter_alone.
  void write_condition(size_t counter, Computation* made) const {
    Computation& condition = *made;
    drop_unread(may_go, &condition);
    for (Instruction& op : condition.instructions) {
      if (op.opcode == Opcode::kParameter) {
        op.shape = state_.shape;
        drop_sharding(&op);
      } else if (!op.operands.empty() &&
                 condition.at(op.operands[0]).opcode == Opcode::kParameter) {
        set_index(state_.place[counter], &op);
      }
    }
  }

  Computation written() const {
    const Computation& old = body_.read();
    Computation made = old;
    made.instructions.clear();
    std::vector<InstructionId> now;
    InstructionId parameter{};
    for (uint32_t i = 0; i < old.instructions.size(); ++i) {
      const InstructionId id{i};
      Instruction op = old.at(id);
      LoopSteps steps(op, 'l', &made.instructions);
      if (const auto found = read_place_.find(id); found != read_place_.end()) {
        const size_t read = found->second;
        now.push_back(
            steps.row(steps.picked(parameter, state_.first_read + read),
                      now[index_of(leaving_.read[read].at.index)]));
        continue;
      }
      if (const auto element = body_.element(id))
        set_index(state_.place[*element], &op);
      if (op.opcode == Opcode::kParameter) {
        op.shape = state_.shape;
        drop_sharding(&op);
        parameter =
            InstructionId{static_cast<uint32_t>(made.instructions.size())};
      }
      if (id == old.root) {
        now.push_back(parameter);  // Written last.
        continue;
      }
      renumber_references(now, &op);
      now.push_back(
          InstructionId{static_cast<uint32_t>(made.instructions.size())});
      made.instructions.push_back(std::move(op));
    }
    write_root(now, parameter, &made);
    drop_unread(may_go, &made);
    return made;
  }

 private:
  void write_root(const std::vector<InstructionId>& now,
                  InstructionId parameter, Computation* made) const {
    Instruction root = body_.at(body_.read().root);
    std::vector<InstructionId> next;
    for (size_t k = 0; k < state_.removed.size(); ++k) {
      if (!state_.removed[k]) next.push_back(now[index_of(root.operands[k])]);
    }
    LoopSteps steps(root, 'l', &made->instructions);
    size_t place = state_.first_rows;
    for (const auto& [key, rows] : leaving_.rows) {
      next.push_back(steps.with_row(steps.picked(parameter, place++),
                                    now[index_of(rows.value)],
                                    now[index_of(rows.at.index)]));
    }
    for (size_t r = 0; r < leaving_.read.size(); ++r)
      next.push_back(steps.picked(parameter, state_.first_read + r));
    root.operands = std::move(next);
    root.shape = state_.shape;
    drop_sharding(&root);
    made->root =
        InstructionId{static_cast<uint32_t>(made->instructions.size())};
    made->instructions.push_back(std::move(root));
  }

  const LoopBody& body_;
  const LeavingProducts& leaving_;
  const NewState& state_;
  std::map<InstructionId, size_t> read_place_;  ///< product -> in `read`.
};

/// Writes what stands before and after the loop.
class EntryWriter {
 public:
  EntryWriter(const LoopBody& body, const LeavingProducts& leaving,
              const CountedLoop& loop, const NewState& state,
              Computation* entry)
      : body_(body),
        leaving_(leaving),
        loop_(loop),
        state_(state),
        entry_(*entry) {}

  /// Returns the loop's new place.
  InstructionId run() {
    std::vector<Instruction> old = std::move(entry_.instructions);
    entry_.instructions.clear();
    const InstructionId state = old[index_of(loop_.loop)].operands[0];
    for (uint32_t i = 0; i < old.size(); ++i) {
      const InstructionId id{i};
      Instruction& op = old[i];
      if (id == loop_.loop) {
        first_ = old[index_of(state)].operands;
        write_loop(op);
        continue;
      }
      const auto element = picked_element(op);
      const bool picks = element && op.operands[0] == loop_.loop;
      if (picks && state_.removed[*element]) {
        now_.push_back(results_[*element]);
        continue;
      }
      if (id == state) {
        now_.push_back(InstructionId{});  // Nothing else reads it.
        continue;
      }
      if (picks) set_index(state_.place[*element], &op);
      renumber_references(now_, &op);
      now_.push_back(next_id());
      entry_.instructions.push_back(std::move(op));
    }
    entry_.root = now_[index_of(entry_.root)];
    return now_[index_of(loop_.loop)];
  }

 private:
  InstructionId next_id() {
    return InstructionId{static_cast<uint32_t>(entry_.instructions.size())};
  }

  void write_loop(const Instruction& old) {
    LoopSteps steps(old, 'l', &entry_.instructions);
    std::vector<InstructionId> operands;
    for (size_t k = 0; k < state_.removed.size(); ++k) {
      if (!state_.removed[k]) operands.push_back(first(k));
    }
    for (const auto& [key, rows] : leaving_.rows)
      operands.push_back(
          steps.number(0, with_steps(body_.at(rows.value).shape, loop_.trips)));
    for (const LeavingRead& read : leaving_.read) {
      const InstructionId factor = body_.at(read.product).operands[0];
      operands.push_back(of_all_steps(
          read.product, read_rows(factor, &steps),
          with_steps(body_.at(read.product).shape, loop_.trips).dimensions,
          &steps));
    }
    Instruction loop = old;
    loop.operands = {
        steps.op(Opcode::kTuple, std::move(operands), state_.shape)};
    loop.shape = state_.shape;
    drop_sharding(&loop);
    loop_now_ = next_id();
    entry_.instructions.push_back(std::move(loop));
    results_.resize(state_.removed.size());
    for (const LeavingSum& sum : leaving_.sums) write_sum(sum, &steps);
    for (const LeavingKept& kept : leaving_.kept) {
      const InstructionId factor = body_.at(kept.product).operands[0];
      results_[kept.element] =
          of_all_steps(kept.product, rows_of(factor, kept.at, &steps),
                       old.shape.elements[kept.element].dimensions, &steps);
    }
    now_.push_back(loop_now_);
  }

  /// What the loop begins with.
  InstructionId first(size_t element) const {
    return now_[index_of(first_[element])];
  }

  /// [steps, row …] of an array that the loop reads.
  InstructionId read_rows(InstructionId factor, LoopSteps* steps) {
    return steps->reshaped(
        first(body_.row(factor)->element),
        with_steps(body_.at(factor).shape, loop_.trips).dimensions);
  }

  /// The same, of one that it has written where it reads none.
  InstructionId rows_of(InstructionId factor, const RowIndex& at,
                        LoopSteps* steps) {
    const auto read = body_.row(factor);
    if (read && read->place == at.place) return read_rows(factor, steps);
    const auto found = leaving_.rows.find({factor, at.place.sign});
    return steps->picked(
        loop_now_, state_.first_rows + static_cast<size_t>(std::distance(
                                           leaving_.rows.begin(), found)));
  }

  /// The product of [steps, rows, k] with weights, in `dimensions`.
  InstructionId of_all_steps(InstructionId product, InstructionId rows,
                             std::vector<int64_t> dimensions,
                             LoopSteps* steps) {
    const Shape& shape = body_.at(product).shape;
    const int64_t depth = entry_.at(rows).shape.dimensions[2],
                  count = loop_.trips * shape.dimensions[0];
    Instruction all = body_.at(product);
    all.name.clear();
    all.shape = array_of(shape.type, {count, shape.dimensions[1]});
    all.operands = {steps->reshaped(rows, {count, depth}),
                    copied(all.operands[1], steps)};
    return steps->reshaped(steps->append(std::move(all)),
                           std::move(dimensions));
  }

  /// An op of the body that moves kept elements, in the entry.
  InstructionId copied(InstructionId id, LoopSteps* steps) {
    if (const auto element = body_.element(id)) return first(*element);
    Instruction op = body_.at(id);
    op.name.clear();
    for (InstructionId& operand : op.operands) operand = copied(operand, steps);
    return steps->append(std::move(op));
  }

  void write_sum(const LeavingSum& sum, LoopSteps* steps) {
    Instruction all = body_.at(sum.product);
    all.name.clear();
    all.operands = {summed(sum.lhs, sum.at, steps),
                    summed(sum.rhs, sum.at, steps)};
    for (Attribute& attribute : all.attributes) {
      if (attribute.name == "lhs_contracting_dims" ||
          attribute.name == "rhs_contracting_dims")
        attribute.value = std::vector<int64_t>{0};
    }
    const InstructionId product = steps->append(std::move(all));
    for (const SumSink& sink : sum.sinks) {
      InstructionId last = product;
      for (const InstructionId id : sink.views) {
        Instruction view = body_.at(id);
        view.name.clear();
        view.operands = {last};
        last = steps->append(std::move(view));
      }
      results_[sink.element] =
          steps->op(Opcode::kAdd, {first(sink.element), last},
                    array_of(entry_.at(last).shape.type,
                             entry_.at(last).shape.dimensions));
    }
  }

  /// [steps * k, n] of the rows of a factor, k what is summed over.
  InstructionId summed(const Factor& factor, const RowIndex& at,
                       LoopSteps* steps) {
    InstructionId rows = rows_of(factor.value, at, steps);
    if (factor.contracting == 1) rows = steps->transposed(rows, {0, 2, 1});
    const std::vector<int64_t> all = entry_.at(rows).shape.dimensions;
    return steps->reshaped(rows, {all[0] * all[1], all[2]});
  }

  const LoopBody& body_;
  const LeavingProducts& leaving_;
  const CountedLoop& loop_;
  const NewState& state_;
  Computation& entry_;
  std::vector<InstructionId> now_;      ///< [old instruction]
  std::vector<InstructionId> first_;    ///< [old element] before the loop, old.
  std::vector<InstructionId> results_;  ///< [old element] where it is removed.
  InstructionId loop_now_{};
};

}  // namespace

bool reads_counter_alone(const Computation& condition,
                         const CountedLoop& loop) {
  const std::vector<uint32_t> uses = use_counts(condition);
  for (size_t i = 0; i < uses.size(); ++i) {
    const Instruction& op = condition.instructions[i];
    const bool takes_state = std::any_of(
        op.operands.begin(), op.operands.end(), [&](InstructionId id) {
          return condition.at(id).opcode == Opcode::kParameter;
        });
    if (!takes_state) continue;
    const auto element = picked_element(op);
    if (!element || (uses[i] > 0 && element != loop.counter)) return false;
  }
  return true;
}

InstructionId rewrite_loop(const LoopBody& body, const LeavingProducts& leaving,
                           const CountedLoop& loop, Module* module) {
  Computation& entry = module->entry_computation();
  const NewState state(body, leaving, loop, entry.at(loop.loop).shape);
  const BodyWriter writer(body, leaving, state);
  writer.write_condition(loop.counter,
                         &module->computations[index_of(loop.condition)]);
  module->computations[index_of(loop.body)] = writer.written();
  return EntryWriter(body, leaving, loop, state, &entry).run();
}

}  // namespace reprise
