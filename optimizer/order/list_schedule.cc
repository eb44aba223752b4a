// Serial list scheduling, non-delay: time steps from one end of an op to the
// next, and every free stream starts the ready op of highest priority. A heap
// a stream holds what is ready. A run is abandoned as soon as some op's end
// plus its tail passes the cutoff, which is what makes local search cheap.
//
// Cost of a run: O((ops + dependencies) log ops), no allocation after the
// first.
#include "optimizer/order/list_schedule.h"

#include <algorithm>
#include <limits>

namespace reprise {

ListScheduler::ListScheduler(const OrderGraph& graph)
    : graph_(&graph),
      initial_waiting_(graph.size()),
      start_(graph.size()),
      ready_(graph.streams()),
      running_(graph.streams()) {
  for (uint32_t op = 0; op < graph.size(); ++op) {
    initial_waiting_[op] = static_cast<uint32_t>(graph.predecessors(op).size());
  }
  sequence_.reserve(graph.size());
}

void ListScheduler::release(uint32_t op, std::span<const int64_t> priority) {
  auto& heap = ready_[graph_->stream(op)];
  heap.emplace_back(priority[op], ~op);
  std::push_heap(heap.begin(), heap.end());
}

bool ListScheduler::start_ready(int64_t now, int64_t cutoff) {
  for (uint32_t stream = 0; stream < ready_.size(); ++stream) {
    auto& heap = ready_[stream];
    if (running_[stream].busy || heap.empty()) continue;
    std::pop_heap(heap.begin(), heap.end());
    const uint32_t op = ~heap.back().second;
    heap.pop_back();
    start_[op] = now;
    sequence_.push_back(op);
    running_[stream] = {now + graph_->duration(op), op, true};
    makespan_ = std::max(makespan_, running_[stream].end);
    if (running_[stream].end + graph_->tails()[op] > cutoff) return false;
  }
  return true;
}

int64_t ListScheduler::next_end() const {
  int64_t next = kNever;
  for (const Running& running : running_) {
    if (running.busy) next = std::min(next, running.end);
  }
  return next;
}

int64_t ListScheduler::run(std::span<const int64_t> priority, int64_t cutoff) {
  waiting_ = initial_waiting_;
  sequence_.clear();
  makespan_ = 0;
  for (auto& heap : ready_) heap.clear();
  for (Running& running : running_) running.busy = false;
  for (uint32_t op = 0; op < graph_->size(); ++op) {
    if (waiting_[op] == 0) release(op, priority);
  }
  int64_t now = 0;
  while (true) {
    if (!start_ready(now, cutoff)) return kNever;
    const int64_t next = next_end();
    if (next == kNever) break;
    now = next;
    for (Running& running : running_) {
      if (!running.busy || running.end != now) continue;
      running.busy = false;
      for (const uint32_t after : graph_->successors(running.op)) {
        if (--waiting_[after] == 0) release(after, priority);
      }
    }
  }
  return makespan_;
}

OrderSolution ListScheduler::solution() const {
  return {sequence_, start_, makespan_};
}

OrderSolution schedule_by_critical_path(const OrderGraph& graph) {
  std::vector<int64_t> priority(graph.size());
  for (uint32_t op = 0; op < graph.size(); ++op) {
    priority[op] = graph.tails()[op] + graph.duration(op);
  }
  ListScheduler scheduler(graph);
  scheduler.run(priority, kNever);
  return scheduler.solution();
}

std::vector<int64_t> priorities_of(const std::vector<uint32_t>& sequence) {
  std::vector<int64_t> priority(sequence.size());
  for (size_t i = 0; i < sequence.size(); ++i) {
    priority[sequence[i]] = static_cast<int64_t>(sequence.size() - i);
  }
  return priority;
}

}  // namespace reprise
