// Lowering, second half: places the nodes of a nest in loops and phases.
//
// A row runs phases, one for each level of lane reductions; a column value that
// several phases need is computed again when cheap and kept in a scratch array
// when not. This is the fusion of reductions by recomputation that softmax and
// normalization need: `exponential(x - max)` is made in the phase that sums it
// and again, or from scratch, in the phase that divides by the sum. Cost:
// linear in nodes × phases.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "data/kernel/loop_runs.h"
#include "data/kernel/nest.h"

namespace reprise {
namespace {

/// Column values up to this weight are computed again in each phase.
constexpr int32_t kCheapColumnWeight = 6;
constexpr int64_t kMaxScratchElements = 1 << 14;
constexpr int64_t kMaxScratchBytes = 1 << 18;

class NestEmitter {
 public:
  NestEmitter(const Nest& nest, Kernel& kernel, std::vector<int32_t>& arguments)
      : nest_(nest),
        trace_(*nest.trace),
        kernel_(kernel),
        arguments_(arguments) {}

  void emit();

 private:
  using Block = std::vector<KernelStatement>;

  const Node& node(int32_t id) const {
    return trace_.nodes()[static_cast<size_t>(id)];
  }
  std::vector<int32_t> inputs_of(const Sink& sink) const;
  /// Phase in which a sink runs.
  int32_t level_of(const Sink& sink) const;
  void find_needs();
  std::vector<int32_t> needed_expressions() const;
  void need(int32_t id, uint64_t phases);
  bool keep(int32_t id, uint64_t phases);
  void let(int32_t id, Block& block);
  void let_scratch(int32_t id, Block& block);
  void store(const Sink& sink, Block& block);
  size_t place_in_phase(int32_t id);
  void emit_phase(int32_t phase, Block& row);
  void emit_rows(std::vector<Block>& rows, int32_t level);
  Block close(std::vector<Block>& blocks, size_t first_run);

  const Nest& nest_;
  const ElementTrace& trace_;
  Kernel& kernel_;
  /// Source -> argument, -1 when not used yet.
  std::vector<int32_t>& arguments_;
  std::vector<uint64_t> needs_;    ///< Column node: phases; else 0 or 1.
  std::vector<int32_t> scratch_;   ///< Node -> scratch, or -1.
  std::vector<bool> accumulated_;  ///< Accumulators in use.
  std::optional<LoopRuns> runs_;
  int32_t levels_ = 0;
  std::vector<int32_t> values_;  ///< Node -> value of the kernel in scope.
  std::vector<size_t> places_;   ///< Column node -> column runs around it.
  std::vector<int32_t> accumulator_of_;
  int64_t scratch_bytes_ = 0;
};

std::vector<int32_t> NestEmitter::inputs_of(const Sink& sink) const {
  std::vector<int32_t> inputs{sink.node};
  if (sink.guard >= 0) inputs.push_back(sink.guard);
  std::vector<int32_t> expressions;
  collect_expressions(nest_.indices, sink.index, expressions);
  for (const int32_t expression : expressions) {
    for (const IndexTerm& term : nest_.indices.at(expression).terms) {
      const IndexAtom& atom = nest_.indices.atom(term.atom);
      if (atom.kind == IndexAtom::Kind::kValue) inputs.push_back(atom.operand);
    }
  }
  return inputs;
}

int32_t NestEmitter::level_of(const Sink& sink) const {
  int32_t level = 0;
  for (const int32_t id : inputs_of(sink))
    level = std::max(level, node(id).level);
  return level;
}

void NestEmitter::need(int32_t id, uint64_t phases) {
  if (id < 0) return;
  needs_[static_cast<size_t>(id)] |= trace_.is_column(id) ? phases : 1;
}

bool NestEmitter::keep(int32_t id, uint64_t phases) {
  if (std::popcount(phases) < 2 || node(id).weight <= kCheapColumnWeight)
    return false;
  int64_t elements = 1;
  for (const NestSpace::Loop& loop : nest_.space.loops) {
    if (loop.column) elements *= loop.extent;
  }
  const int64_t bytes =
      elements * (primitive_type_bits(node(id).value.type) / 8);
  if (elements > kMaxScratchElements ||
      scratch_bytes_ + bytes > kMaxScratchBytes)
    return false;
  scratch_bytes_ += bytes;
  KernelScratch scratch;
  scratch.type = node(id).value.type;
  scratch.elements = elements;
  scratch_[static_cast<size_t>(id)] =
      static_cast<int32_t>(kernel_.scratches.size());
  kernel_.scratches.push_back(scratch);
  return true;
}

void NestEmitter::find_needs() {
  const size_t count = trace_.nodes().size();
  needs_.assign(count, 0);
  scratch_.assign(count, -1);
  accumulated_.assign(trace_.accumulators().size(), false);
  for (const Sink& sink : nest_.sinks) {
    const int32_t level = level_of(sink);
    levels_ = std::max(levels_, level);
    for (const int32_t id : inputs_of(sink)) need(id, uint64_t{1} << level);
  }
  for (size_t i = count; i-- > 0;) {
    const int32_t id = static_cast<int32_t>(i);
    if (needs_[i] == 0) continue;
    const Node& current = node(id);
    if (current.value.kind == KernelValue::Kind::kTotal) {
      const size_t slot = static_cast<size_t>(current.value.source);
      const int32_t operand = trace_.accumulated()[slot];
      accumulated_[slot] = true;
      need(operand, uint64_t{1} << node(operand).level);
      levels_ = std::max(levels_, current.level);
      continue;
    }
    uint64_t phases = needs_[i];
    if (trace_.is_column(id) && keep(id, phases)) phases &= ~phases + 1;
    for (const int32_t operand : current.value.operands) need(operand, phases);
    for (const int32_t value : current.index_values) need(value, phases);
  }
}

std::vector<int32_t> NestEmitter::needed_expressions() const {
  std::vector<int32_t> expressions;
  for (size_t i = 0; i < needs_.size(); ++i) {
    if (needs_[i] == 0) continue;
    collect_expressions(nest_.indices, trace_.nodes()[i].value.index,
                        expressions);
  }
  for (const Sink& sink : nest_.sinks)
    collect_expressions(nest_.indices, sink.index, expressions);
  return expressions;
}

void NestEmitter::let(int32_t id, Block& block) {
  KernelValue value = node(id).value;
  for (int32_t& operand : value.operands) {
    if (operand >= 0) operand = values_[static_cast<size_t>(operand)];
  }
  if (value.index >= 0) value.index = runs_->translate(value.index, values_);
  if (value.kind == KernelValue::Kind::kTotal) {
    value.source = accumulator_of_[static_cast<size_t>(value.source)];
  } else if (value.kind == KernelValue::Kind::kLoad) {
    int32_t& argument = arguments_[static_cast<size_t>(value.source)];
    if (argument < 0) {
      argument = static_cast<int32_t>(kernel_.arguments.size());
      kernel_.arguments.emplace_back();
    }
    value.source = argument;
  }
  values_[static_cast<size_t>(id)] =
      static_cast<int32_t>(kernel_.values.size());
  kernel_.values.push_back(value);
  KernelStatement statement;
  statement.value = values_[static_cast<size_t>(id)];
  block.push_back(statement);
}

void NestEmitter::let_scratch(int32_t id, Block& block) {
  KernelValue value;
  value.kind = KernelValue::Kind::kScratch;
  value.type = node(id).value.type;
  value.source = scratch_[static_cast<size_t>(id)];
  value.index = runs_->columns_position();
  values_[static_cast<size_t>(id)] =
      static_cast<int32_t>(kernel_.values.size());
  kernel_.values.push_back(value);
  KernelStatement statement;
  statement.value = values_[static_cast<size_t>(id)];
  block.push_back(statement);
}

void NestEmitter::store(const Sink& sink, Block& block) {
  KernelStatement statement;
  statement.kind = KernelStatement::Kind::kStore;
  statement.combine = sink.combine;
  statement.value = values_[static_cast<size_t>(sink.node)];
  statement.target = -1 - static_cast<int32_t>(sink.output);
  statement.index = runs_->translate(sink.index, values_);
  if (sink.guard >= 0)
    statement.guard = values_[static_cast<size_t>(sink.guard)];
  block.push_back(statement);
}

NestEmitter::Block NestEmitter::close(std::vector<Block>& blocks,
                                      size_t first_run) {
  for (size_t i = blocks.size(); i-- > 1;) {
    KernelStatement loop;
    loop.kind = KernelStatement::Kind::kLoop;
    loop.target = runs_->loop(first_run + i - 1);
    loop.body = std::move(blocks[i]);
    blocks[i - 1].push_back(std::move(loop));
  }
  return std::move(blocks[0]);
}

/// How many column runs stand around a column node in the phase that is being
/// emitted: all of a kept one, and as many of what is computed from it.
size_t NestEmitter::place_in_phase(int32_t id) {
  size_t& place = places_[static_cast<size_t>(id)];
  if (scratch_[static_cast<size_t>(id)] >= 0)
    return place = runs_->size() - runs_->rows();
  place = runs_->depth_of(node(id).loops) - runs_->rows();
  for (const int32_t operand : node(id).value.operands) {
    if (operand >= 0)
      place = std::max(place, places_[static_cast<size_t>(operand)]);
  }
  for (const int32_t value : node(id).index_values)
    place = std::max(place, places_[static_cast<size_t>(value)]);
  return place;
}

void NestEmitter::emit_phase(int32_t phase, Block& row) {
  const uint64_t bit = uint64_t{1} << phase;
  std::vector<Block> blocks(runs_->size() - runs_->rows() + 1);
  Block& inner = blocks.back();
  bool used = false;
  for (size_t i = 0; i < needs_.size(); ++i) {
    const int32_t id = static_cast<int32_t>(i);
    if ((needs_[i] & bit) == 0 || !trace_.is_column(id)) continue;
    used = true;
    const bool first = (needs_[i] & (bit - 1)) == 0;
    const size_t place = place_in_phase(id);
    if (scratch_[i] >= 0 && !first) {
      let_scratch(id, inner);
      continue;
    }
    let(id, blocks[place]);
    if (scratch_[i] < 0) continue;
    KernelStatement keep_statement;
    keep_statement.kind = KernelStatement::Kind::kScratchStore;
    keep_statement.value = values_[i];
    keep_statement.target = scratch_[i];
    keep_statement.index = runs_->columns_position();
    inner.push_back(keep_statement);
  }
  for (size_t slot = 0; slot < accumulated_.size(); ++slot) {
    const int32_t operand = trace_.accumulated()[slot];
    if (!accumulated_[slot] || node(operand).level != phase) continue;
    used = true;
    KernelAccumulator accumulator = trace_.accumulators()[slot];
    accumulator.lane_loop = runs_->innermost();
    accumulator_of_[slot] = static_cast<int32_t>(kernel_.accumulators.size());
    kernel_.accumulators.push_back(accumulator);
    KernelStatement reset;
    reset.kind = KernelStatement::Kind::kReset;
    reset.target = accumulator_of_[slot];
    row.push_back(reset);
    KernelStatement accumulate;
    accumulate.kind = KernelStatement::Kind::kAccumulate;
    accumulate.target = accumulator_of_[slot];
    accumulate.value = values_[static_cast<size_t>(operand)];
    inner.push_back(accumulate);
  }
  for (const Sink& sink : nest_.sinks) {
    if (level_of(sink) != phase || runs_->depth_of(sink.loops) <= runs_->rows())
      continue;
    used = true;
    store(sink, inner);
  }
  if (!used) return;
  Block phase_block = close(blocks, runs_->rows());
  std::move(phase_block.begin(), phase_block.end(), std::back_inserter(row));
}

void NestEmitter::emit_rows(std::vector<Block>& rows, int32_t level) {
  for (size_t i = 0; i < needs_.size(); ++i) {
    const int32_t id = static_cast<int32_t>(i);
    if (needs_[i] == 0 || trace_.is_column(id) || node(id).level != level)
      continue;
    let(id, level > 0 ? rows.back() : rows[runs_->depth_of(node(id).loops)]);
  }
  for (const Sink& sink : nest_.sinks) {
    const size_t depth = runs_->depth_of(sink.loops);
    if (level_of(sink) == level && depth <= runs_->rows())
      store(sink, rows[depth]);
  }
}

void NestEmitter::emit() {
  find_needs();
  runs_.emplace(nest_, needed_expressions(), kernel_);
  values_.assign(needs_.size(), -1);
  places_.assign(needs_.size(), 0);
  accumulator_of_.assign(accumulated_.size(), -1);
  std::vector<Block> rows(runs_->rows() + 1);
  emit_rows(rows, 0);
  const bool columns = runs_->size() > runs_->rows();
  for (int32_t phase = 0; columns && phase <= levels_; ++phase) {
    emit_phase(phase, rows.back());
    emit_rows(rows, phase + 1);
  }
  Block top = close(rows, 0);
  std::move(top.begin(), top.end(), std::back_inserter(kernel_.body));
}

void number_outputs(std::vector<KernelStatement>& block, int32_t inputs) {
  for (KernelStatement& statement : block) {
    if (statement.kind == KernelStatement::Kind::kStore) {
      statement.target = inputs - 1 - statement.target;
    }
    number_outputs(statement.body, inputs);
  }
}

}  // namespace

void emit_nests(const Group& group, const NestList& list, Kernel& kernel) {
  std::vector<int32_t> arguments(list.sources.size(), -1);
  for (const auto& nest : list.nests)
    NestEmitter(*nest, kernel, arguments).emit();
  const auto describe = [&group](KernelArgument& argument, InstructionId id) {
    argument.instruction = id;
    argument.type = group.at(id).shape.type;
    argument.elements = element_count(group.at(id).shape);
  };
  for (size_t source = 0; source < arguments.size(); ++source) {
    if (arguments[source] < 0) continue;
    describe(kernel.arguments[static_cast<size_t>(arguments[source])],
             list.sources[source]);
  }
  number_outputs(kernel.body, static_cast<int32_t>(kernel.arguments.size()));
  for (const InstructionId output : group.outputs()) {
    KernelArgument argument;
    describe(argument, output);
    argument.is_output = true;
    kernel.arguments.push_back(argument);
  }
}

}  // namespace reprise
