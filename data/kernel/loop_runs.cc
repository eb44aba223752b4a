// Two adjacent loops are one when in every expression the outer stride is the
// inner one times the inner extent, as loop coalescing in compilers asks. The
// innermost column loop also carries lanes: it may join only where its extent
// is whole lanes, since the lane of an element is its position mod kLanes.
#include "data/kernel/loop_runs.h"

#include <algorithm>
#include <cstdlib>

namespace reprise {

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
  for (const std::vector<int32_t>& run : runs_) {
    KernelLoop loop;
    for (const int32_t id : run)
      loop.extent *= loops[static_cast<size_t>(id)].extent;
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
    int64_t outer_stride = 0, inner_stride = 0;
    for (const IndexTerm& term : nest_.indices.at(expression).terms) {
      const IndexAtom& atom = nest_.indices.atom(term.atom);
      if (atom.kind != IndexAtom::Kind::kLoop) continue;
      if (atom.operand == outer.id) outer_stride = term.coefficient;
      if (atom.operand == inner.id) inner_stride = term.coefficient;
    }
    if (outer_stride != inner_stride * inner.extent) return false;
  }
  return true;
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
    const int32_t atom = translate_atom(nest_.indices.atom(term.atom), values);
    result = kernel_.indices.add(result,
                                 kernel_.indices.scale(atom, term.coefficient));
  }
  return result;
}

int32_t LoopRuns::translate_atom(const IndexAtom& atom,
                                 const std::vector<int32_t>& values) {
  IndexTable& indices = kernel_.indices;
  switch (atom.kind) {
    case IndexAtom::Kind::kLoop: {
      const size_t run =
          static_cast<size_t>(run_of_[static_cast<size_t>(atom.operand)]);
      if (runs_[run].back() != atom.operand) return indices.constant(0);
      const size_t loop = static_cast<size_t>(loops_[run]);
      return indices.loop(static_cast<int32_t>(loop),
                          kernel_.loops[loop].extent);
    }
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
