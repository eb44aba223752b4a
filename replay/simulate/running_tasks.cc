#include "replay/simulate/running_tasks.h"

#include <algorithm>

namespace reprise {

using Transfer = TimedGraph::Transfer;

RunningTasks::RunningTasks(const TimedGraph& graph)
    : graph_(graph), ranks_(graph.ranks.size()), events_(0) {
  for (const uint32_t resource : graph.resource) {
    resources_ = std::max(resources_, resource + 1);
  }
  slots_.resize(resources_);
  events_.grow(resources_);
  for (const Transfer& transfer : graph.transfers) {
    if (transfer.link == Transfer::kNoLink) continue;
    if (transfer.link >= links_.size()) links_.resize(transfer.link + 1);
  }
}

uint32_t RunningTasks::take_slot(uint32_t node) {
  if (!graph_.resource.empty()) {
    const uint32_t own = graph_.resource[node];
    if (slots_[own].phase == TaskPhase::kFree) return own;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
    events_.grow(slots_.size());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void RunningTasks::wait(uint32_t node, TaskPhase phase, int64_t time_ns) {
  const uint32_t index = take_slot(node);
  slots_[index].node = node;
  slots_[index].count = 0;
  slots_[index].phase = phase;
  events_.set(index, time_ns);
}

const RunningTasks::Task& RunningTasks::run(uint32_t node, uint32_t count,
                                            TaskPhase phase, int64_t work,
                                            int64_t now_ns) {
  const uint32_t index = take_slot(node);
  Slot& slot = slots_[index];
  slot.node = node;
  slot.count = count;
  slot.phase = phase;
  slot.task = {work, now_ns, kAlone};
  if (phase == TaskPhase::kTransfer) begin_latency(slot);
  for (uint32_t at = node; at < node + count; ++at) {
    if (!contends(at)) continue;
    Busy& rank = ranks_[graph_.rank[at]];
    const bool compute = phase == TaskPhase::kCompute;
    std::vector<uint32_t>& own = compute ? rank.compute : rank.transfers;
    own.push_back(index);
    if (own.size() == 1) mark(compute ? rank.transfers : rank.compute);
  }
  slot.task.slowdown = slowdown_of(slot);
  events_.set(index, end_of(slot.task));
  return slot.task;
}

// What of a transfer is on its link comes after what is not.
void RunningTasks::begin_latency(Slot& slot) const {
  if (links_.empty() || graph_.collective[slot.node] < 0) return;
  const Transfer& transfer =
      graph_.transfers[static_cast<size_t>(graph_.collective[slot.node])];
  if (transfer.link == Transfer::kNoLink) return;
  const int64_t apart =
      std::min(slot.task.remaining, (transfer.latency_ns + transfer.absent_ns)
                                        << graph_.tick_bits);
  slot.phase = TaskPhase::kLatency;
  slot.shared_work = slot.task.remaining - apart;
  slot.task.remaining = apart;
}

void RunningTasks::enter_link(uint32_t index, int64_t now_ns) {
  Slot& slot = slots_[index];
  slot.phase = TaskPhase::kTransfer;
  slot.task.remaining = slot.shared_work;
  slot.task.since_ns = now_ns;
  std::vector<uint32_t>* link = link_of(slot);
  link->push_back(index);
  mark(*link);
}

std::vector<uint32_t>* RunningTasks::link_of(const Slot& slot) {
  if (links_.empty() || slot.phase != TaskPhase::kTransfer) return nullptr;
  if (graph_.collective[slot.node] < 0) return nullptr;
  const uint32_t link =
      graph_.transfers[static_cast<size_t>(graph_.collective[slot.node])].link;
  return link == Transfer::kNoLink ? nullptr : &links_[link];
}

RunningTasks::Slot RunningTasks::finish(uint32_t index) {
  const Slot slot = slots_[index];
  for (uint32_t at = slot.node; at < slot.node + slot.count; ++at) {
    if (contends(at)) leave(index, at);
  }
  if (std::vector<uint32_t>* link = link_of(slot)) {
    std::erase(*link, index);
    mark(*link);
  }
  slots_[index].phase = TaskPhase::kFree;
  events_.set(index, EarliestEvent::kNever);
  if (index >= resources_) free_.push_back(index);
  return slot;
}

void RunningTasks::leave(uint32_t index, uint32_t node) {
  Busy& rank = ranks_[graph_.rank[node]];
  const bool compute = slots_[index].phase == TaskPhase::kCompute;
  std::vector<uint32_t>& own = compute ? rank.compute : rank.transfers;
  if (own.size() == 1) {
    own.clear();
    mark(compute ? rank.transfers : rank.compute);
  } else {
    std::erase(own, index);
  }
}

void RunningTasks::mark(const std::vector<uint32_t>& slots) {
  for (const uint32_t slot : slots) {
    if (slots_[slot].stale) continue;
    slots_[slot].stale = true;
    stale_.push_back(slot);
  }
}

void RunningTasks::refresh(int64_t now_ns) {
  for (const uint32_t index : stale_) {
    Slot& slot = slots_[index];
    slot.stale = false;
    if (slot.phase < TaskPhase::kCompute) continue;
    const int64_t slowdown = slowdown_of(slot);
    // What has just come onto its link has no event yet.
    if (slowdown == slot.task.slowdown && slot.task.since_ns != now_ns) {
      continue;
    }
    slot.task.rebase(now_ns, slowdown, shift_);
    events_.set(index, end_of(slot.task));
  }
  stale_.clear();
}

int64_t RunningTasks::slowdown_of(const Slot& slot) {
  if (graph_.slowdown.empty() && links_.empty()) return kAlone;
  int64_t slowdown = kAlone;
  if (contends(slot.node) && is_beside_other(slot)) {
    slowdown = graph_.slowdown[slot.node];
  }
  if (const std::vector<uint32_t>* link = link_of(slot)) {
    slowdown *= static_cast<int64_t>(std::max<size_t>(1, link->size()));
  }
  return slowdown;
}

bool RunningTasks::is_beside_other(const Slot& slot) const {
  if (slot.phase == TaskPhase::kCompute) {
    return !ranks_[graph_.rank[slot.node]].transfers.empty();
  }
  for (uint32_t at = slot.node; at < slot.node + slot.count; ++at) {
    if (!ranks_[graph_.rank[at]].compute.empty()) return true;
  }
  return false;
}

}  // namespace reprise
