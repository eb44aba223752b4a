// Dependencies within one step as adjacency lists, and what follows from them:
// which units some collective waits for (forward and backward), which
// collectives nothing else waits for (gradients). Linear in the dependencies.
#include "optimizer/pricing/step_graph.h"

#include <algorithm>
#include <deque>

#include "data/schedule/dependencies.h"
#include "optimizer/order/order_graph.h"

namespace reprise {

StepGraph step_graph(const Schedule& schedule) {
  const size_t count = schedule.units.size();
  StepGraph graph{.schedule = &schedule,
                  .before = std::vector<std::vector<uint32_t>>(count),
                  .after = std::vector<std::vector<uint32_t>>(count),
                  .is_early = std::vector<bool>(count),
                  .is_gradient = std::vector<bool>(count),
                  .depth = collectives_before(schedule)};
  for (const Dependency& dependency : schedule.dependencies) {
    if (dependency.steps > 0 || dependency.paces) continue;
    graph.before[index_of(dependency.after)].push_back(
        index_of(dependency.before));
    graph.after[index_of(dependency.before)].push_back(
        index_of(dependency.after));
  }
  std::vector<bool> reaches_collective(count);
  for (size_t u = count; u-- > 0;) {  // Units stand in a topological order.
    const bool is_collective = schedule.units[u].kind == UnitKind::kCollective;
    for (const uint32_t next : graph.after[u]) {
      if (graph.is_early[next]) reaches_collective[u] = true;
    }
    graph.is_early[u] = is_collective || reaches_collective[u];
    graph.is_gradient[u] = is_collective && !reaches_collective[u];
  }
  return graph;
}

std::vector<uint32_t> eager_order(const StepGraph& graph) {
  const auto count = static_cast<uint32_t>(graph.before.size());
  std::vector<uint32_t> order, waiting(count);
  std::deque<uint32_t> ready;
  const auto release = [&](uint32_t unit) {
    const bool is_collective =
        graph.schedule->units[unit].kind == UnitKind::kCollective;
    is_collective ? ready.push_front(unit) : ready.push_back(unit);
  };
  for (uint32_t unit = 0; unit < count; ++unit) {
    waiting[unit] = static_cast<uint32_t>(graph.before[unit].size());
    if (waiting[unit] == 0 && graph.is_early[unit]) release(unit);
  }
  while (!ready.empty()) {
    const uint32_t unit = ready.front();
    ready.pop_front();
    order.push_back(unit);
    for (const uint32_t next : graph.after[unit]) {
      if (--waiting[next] == 0 && graph.is_early[next]) release(next);
    }
  }
  for (uint32_t unit = 0; unit < count; ++unit) {
    if (!graph.is_early[unit]) order.push_back(unit);
  }
  return order;
}

Result<OrderGraph> order_graph_of(const StepGraph& graph,
                                  const std::vector<double>& duration_ns) {
  OrderInstance instance;
  for (uint32_t unit = 0; unit < graph.before.size(); ++unit) {
    instance.stream.push_back(
        graph.schedule->units[unit].stream == Stream::kCompute ? 0 : 1);
    instance.duration.push_back(static_cast<int64_t>(duration_ns[unit]) /
                                kOrderUnit_ns);
    for (const uint32_t before : graph.before[unit]) {
      instance.dependencies.emplace_back(before, unit);
    }
  }
  return OrderGraph::make(std::move(instance));
}

namespace {

/// What replay puts before every compute unit.
void add_gaps(const PricedSchedule& priced, std::vector<double>& durations) {
  const std::vector<uint32_t>& compute = priced.order.compute;
  if (compute.empty()) return;
  const double gap_ns =
      priced.dispatch_ns +
      priced.unexplained_ns / static_cast<double>(compute.size());
  for (const uint32_t unit : compute) durations[unit] += gap_ns;
}

}  // namespace

std::vector<double> alone_durations(const PricedSchedule& priced) {
  std::vector<double> durations = priced.duration_ns;
  add_gaps(priced, durations);
  return durations;
}

std::vector<double> replayed_durations(const PricedSchedule& priced,
                                       const Replay& replay) {
  std::vector<double> durations(priced.duration_ns.size());
  for (size_t unit = 0; unit < durations.size(); ++unit) {
    const UnitTime& time = replay.times.front()[unit];
    durations[unit] =
        static_cast<double>(time.end_ns - time.start_ns - time.wait_ns);
  }
  add_gaps(priced, durations);
  return durations;
}

std::vector<UnitRef> order_of(const Schedule& schedule,
                              const std::vector<uint32_t>& sequence) {
  std::vector<UnitRef> order;
  for (const uint32_t unit : sequence) {
    const UnitRef ref = schedule.units[unit].ref;
    if (ref.kind != UnitRef::Kind::kCopy) order.push_back(ref);
  }
  return order;
}

}  // namespace reprise
