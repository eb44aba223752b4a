// Two adjacent loops are one when in every expression the outer stride is the
// inner one times the inner extent, as loop coalescing in compilers asks. The
// innermost column loop also carries lanes: it may join only where its extent
// is whole lanes, since the lane of an element is its position mod kLanes.
//
// Where group norm or a broadcast over heads splits the minor dimension, the
// innermost loop has two or four iterations. Where those compute something
// transcendental, they join the loops around them if every store still goes on
// from element to element; what else they index takes its part of the common
// position by division: a gather at worst, which a copy would not be worth.
#include "data/kernel/loop_runs.h"

#include <algorithm>
#include <cstdlib>

namespace reprise {
namespace {

/// Innermost loops below half a vector's lanes run as scalars.
constexpr int64_t kShortLoop = 8;
/// Folded ones are long enough from a few vectors on.
constexpr int64_t kLongLoop = 64;
/// From here on an op, or all of them, cost more than the gathers: an
/// exponential is 12, rounds of ThreeFry are over 20.
constexpr int32_t kHeavyOp = 8, kHeavyOps = 16;

}  // namespace

void collect_expressions(const IndexTable& indices, int32_t expression,
                         std::vector<int32_t>& found) {
  if (expression < 0 ||
      std::find(found.begin(), found.end(), expression) != found.end())
    return;
  found.push_back(expression);
  for (const IndexTerm& term : indices.at(expression).terms) {
    const IndexAtom& atom = indices.atom(term.atom);
    if (atom.kind != IndexAtom::Kind::kLoop &&
        atom.kind != IndexAtom::Kind::kValue) {
      collect_expressions(indices, atom.operand, found);
    }
  }
}

LoopRuns::LoopRuns(const Nest& nest, const std::vector<int32_t>& expressions,
                   Kernel& kernel)
    : nest_(nest), kernel_(kernel) {
  const std::vector<NestSpace::Loop>& loops = nest_.space.loops;
  run_of_.assign(loops.size(), 0);
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i == 0 || !mergeable(loops[i - 1], loops[i], expressions))
      runs_.emplace_back();
    runs_.back().push_back(loops[i].id);
    run_of_[i] = static_cast<int32_t>(runs_.size() - 1);
    if (!loops[i].column) rows_ = runs_.size();
  }
  fold_short_runs();
  for (const std::vector<int32_t>& run : runs_) {
    KernelLoop loop;
    loop.extent = extent_of(run);
    loop.independent = independent(run);
    loops_.push_back(static_cast<int32_t>(kernel_.loops.size()));
    kernel_.loops.push_back(loop);
  }
}

bool LoopRuns::mergeable(const NestSpace::Loop& outer,
                         const NestSpace::Loop& inner,
                         const std::vector<int32_t>& expressions) const {
  if (outer.column != inner.column) return false;
  const bool lanes =
      inner.column && inner.id + 1 == static_cast<int32_t>(run_of_.size());
  if (lanes && inner.extent % kLanes != 0) return false;
  for (const int32_t expression : expressions) {
    const std::vector<int64_t> strides =
        strides_in(expression, {outer.id, inner.id});
    if (strides[0] != strides[1] * inner.extent) return false;
  }
  return true;
}

int64_t LoopRuns::extent_of(const std::vector<int32_t>& run) const {
  int64_t extent = 1;
  for (const int32_t id : run)
    extent *= nest_.space.loops[static_cast<size_t>(id)].extent;
  return extent;
}

std::vector<int64_t> LoopRuns::strides_in(
    int32_t expression, const std::vector<int32_t>& run) const {
  std::vector<int64_t> strides(run.size(), 0);
  for (const IndexTerm& term : nest_.indices.at(expression).terms) {
    const IndexAtom& atom = nest_.indices.atom(term.atom);
    if (atom.kind != IndexAtom::Kind::kLoop) continue;
    const auto place = std::find(run.begin(), run.end(), atom.operand);
    if (place != run.end())
      strides[static_cast<size_t>(place - run.begin())] = term.coefficient;
  }
  return strides;
}

bool LoopRuns::is_stored_in_order(const std::vector<int32_t>& run) const {
  return std::all_of(
      nest_.sinks.begin(), nest_.sinks.end(), [&](const Sink& sink) {
        const std::vector<int64_t> strides = strides_in(sink.index, run);
        int64_t dense = 1;
        for (size_t i = run.size(); i-- > 0;) {
          if (strides[i] != dense) return false;
          dense *= extent_of({run[i]});
        }
        return true;
      });
}

bool LoopRuns::is_heavy(const std::vector<int32_t>& run) const {
  int32_t all = 0;
  for (const Node& node : nest_.trace->nodes()) {
    if (node.value.kind != KernelValue::Kind::kApply ||
        (node.loops >> run.back() & 1) == 0)
      continue;
    const int32_t weight = facts_of(node.value.opcode).weight;
    all += weight;
    if (weight >= kHeavyOp || all >= kHeavyOps) return true;
  }
  return false;
}

void LoopRuns::fold_short_runs() {
  if (rows_ != runs_.size() || runs_.empty() ||
      extent_of(runs_.back()) >= kShortLoop || !is_heavy(runs_.back()))
    return;
  for (const Sink& sink : nest_.sinks) {
    if (sink.ordered || sink.guard >= 0 || sink.combine != Opcode::kParameter ||
        sink.loops != nest_.space.rows)
      return;
  }
  while (runs_.size() > 1 && extent_of(runs_.back()) < kLongLoop) {
    std::vector<int32_t> folded = runs_[runs_.size() - 2];
    folded.insert(folded.end(), runs_.back().begin(), runs_.back().end());
    if (!is_stored_in_order(folded)) return;
    runs_.pop_back();
    runs_.back() = std::move(folded);
    for (const int32_t id : runs_.back())
      run_of_[static_cast<size_t>(id)] = static_cast<int32_t>(runs_.size() - 1);
    rows_ = runs_.size();
  }
}

bool LoopRuns::independent(const std::vector<int32_t>& run) const {
  for (const Sink& sink : nest_.sinks) {
    if (!sink.ordered) continue;
    for (const int32_t loop : run) {
      bool direct = false;
      for (const IndexTerm& term : nest_.indices.at(sink.index).terms) {
        const IndexAtom& atom = nest_.indices.atom(term.atom);
        if ((atom.loops >> loop & 1) == 0) continue;
        if (atom.kind != IndexAtom::Kind::kLoop) return false;
        direct = true;
      }
      if (!direct) return false;
    }
  }
  return true;
}

size_t LoopRuns::depth_of(uint64_t loops) const {
  size_t depth = 0;
  for (size_t loop = 0; loop < run_of_.size(); ++loop) {
    if ((loops >> loop & 1) != 0)
      depth = std::max(depth, static_cast<size_t>(run_of_[loop]) + 1);
  }
  return depth;
}

int32_t LoopRuns::translate(int32_t expression,
                            const std::vector<int32_t>& values) {
  const IndexExpression& source = nest_.indices.at(expression);
  int32_t result = kernel_.indices.constant(source.constant);
  for (const IndexTerm& term : source.terms) {
    const IndexAtom& of_nest = nest_.indices.atom(term.atom);
    const int32_t atom = of_nest.kind == IndexAtom::Kind::kLoop
                             ? translate_loop(of_nest.operand, expression)
                             : translate_atom(of_nest, values);
    result = kernel_.indices.add(result,
                                 kernel_.indices.scale(atom, term.coefficient));
  }
  return result;
}

int32_t LoopRuns::translate_loop(int32_t loop, int32_t expression) {
  IndexTable& indices = kernel_.indices;
  const size_t place = static_cast<size_t>(run_of_[static_cast<size_t>(loop)]);
  const std::vector<int32_t>& run = runs_[place];
  const std::vector<int64_t> strides = strides_in(expression, run);
  const int32_t position = indices.loop(
      loops_[place], kernel_.loops[static_cast<size_t>(loops_[place])].extent);
  int64_t inside = 1;  // Iterations of the run for one of the loops at hand.
  for (size_t end = run.size(); end > 0;) {
    size_t begin = end - 1;
    int64_t extent = extent_of({run[begin]});
    while (begin > 0 && strides[begin - 1] == strides[end - 1] * extent)
      extent *= extent_of({run[--begin]});
    if (run[end - 1] == loop)
      return indices.mod(indices.floor_div(position, inside), extent);
    inside *= extent;
    end = begin;
  }
  return indices.constant(0);
}

int32_t LoopRuns::translate_atom(const IndexAtom& atom,
                                 const std::vector<int32_t>& values) {
  IndexTable& indices = kernel_.indices;
  switch (atom.kind) {
    case IndexAtom::Kind::kLoop:
      break;
    case IndexAtom::Kind::kValue:
      return indices.value(values[static_cast<size_t>(atom.operand)], atom.low,
                           atom.high, 0);
    case IndexAtom::Kind::kFloorDiv:
      return indices.floor_div(translate(atom.operand, values), atom.divisor);
    case IndexAtom::Kind::kMod:
      return indices.mod(translate(atom.operand, values), atom.divisor);
    case IndexAtom::Kind::kClamp:
      return indices.clamp(translate(atom.operand, values), atom.low,
                           atom.high);
  }
  std::abort();
}

int32_t LoopRuns::columns_position() {
  int32_t position = kernel_.indices.constant(0);
  for (size_t run = rows_; run < runs_.size(); ++run) {
    const int32_t loop = loops_[run];
    const int64_t extent = kernel_.loops[static_cast<size_t>(loop)].extent;
    position = kernel_.indices.add(kernel_.indices.scale(position, extent),
                                   kernel_.indices.loop(loop, extent));
  }
  return position;
}

}  // namespace reprise
