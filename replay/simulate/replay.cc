#include "replay/simulate/replay.h"

#include "replay/graph/schedule_graph.h"
#include "replay/simulate/decide.h"

namespace reprise {

namespace {

Replay replay_graph(const PricedSchedule& priced, const RankClasses& classes,
                    const TimedGraph& graph) {
  const GraphTimes times = decide(graph);
  std::vector<std::vector<UnitTime>> of_class(
      classes.factor.size(),
      std::vector<UnitTime>(priced.schedule->units.size()));
  for (size_t node = 0; node < graph.size(); ++node) {
    const int64_t start_ns = times.start_ns[node];
    of_class[graph.rank[node]][graph.origin[node]] = {
        .start_ns = start_ns,
        .end_ns = times.end_ns[node],
        .wait_ns =
            graph.collective[node] < 0 ? 0 : times.begun_ns[node] - start_ns};
  }
  Replay replay;
  replay.step_time_ns = times.finish_ns;
  for (const uint32_t simulated : classes.class_of) {
    replay.times.push_back(of_class[simulated]);
  }
  replay.critical_path =
      critical_path(graph, times, NodeFacts(*priced.schedule));
  replay.sources = sources_of(replay.critical_path, &priced);
  return replay;
}

}  // namespace

Replay replay_step(const PricedSchedule& priced) {
  const RankClasses classes = fold_ranks(priced);
  return replay_graph(priced, classes, schedule_graph(priced, classes));
}

Result<Replay> replay_step(const PricedSchedule& priced, const Module* module,
                           std::span<const WhatIf> what_ifs) {
  const RankClasses classes =
      tells_ranks_apart(what_ifs) ? single_ranks(priced) : fold_ranks(priced);
  TimedGraph graph = schedule_graph(priced, classes);
  const NodeFacts facts(*priced.schedule, module);
  for (const WhatIf& what_if : what_ifs) {
    const Status applied = apply_what_if(what_if, facts, graph);
    if (!applied) return pass(applied.error());
  }
  return replay_graph(priced, classes, graph);
}

}  // namespace reprise
