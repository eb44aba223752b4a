#include "cli/report/what_if_grid.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "replay/simulate/trace_replay.h"
#include "replay/simulate/what_if.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// Nodes of all replays together: a second or two.
constexpr size_t kMostWork = 40'000'000;

struct Axis {
  const char* name;
  const char* title;
  WhatIfKind kind;
  bool speed;  ///< A value of 2 halves times.
};
constexpr std::array<Axis, 3> kAxes = {
    {{"bandwidth", "network bandwidth", WhatIfKind::kBandwidth, false},
     {"device", "speed of kernels", WhatIfKind::kDevice, true},
     {"host", "speed of the host", WhatIfKind::kHost, true}}};
constexpr std::array<double, 5> kValues = {0.5, 1, 1.5, 2, 4};

WhatIf what_if_of(const Axis& axis, double value) {
  WhatIf what_if;
  what_if.kind = axis.kind;
  what_if.factor = axis.speed ? 1 / value : value;
  return what_if;
}

/// Fills `step_ns` in the order of the axes, the last one fastest.
void replay_all(const NodeFacts& facts, const std::vector<Axis>& axes,
                size_t axis, const TimedGraph& graph,
                std::vector<int64_t>& step_ns) {
  if (axis == axes.size()) {
    step_ns.push_back(replayed_span_ns(graph, evaluate(graph)));
    return;
  }
  for (const double value : kValues) {
    TimedGraph edited = graph;
    if (value != 1) {
      const Status applied =
          apply_what_if(what_if_of(axes[axis], value), facts, edited);
      static_cast<void>(applied);  // The axis is there: it applied before.
    }
    replay_all(facts, axes, axis + 1, edited, step_ns);
  }
}

}  // namespace

std::optional<Json> what_if_grid(const NodeFacts& facts,
                                 const TimedGraph& graph) {
  std::vector<Axis> axes;
  size_t replays = 1;
  for (const Axis& axis : kAxes) {
    TimedGraph edited = graph;
    if (!apply_what_if(what_if_of(axis, 2), facts, edited)) continue;
    if (replays * kValues.size() * graph.size() > kMostWork) break;
    axes.push_back(axis);
    replays *= kValues.size();
  }
  if (axes.empty()) return std::nullopt;
  std::vector<int64_t> step_ns;
  replay_all(facts, axes, 0, graph, step_ns);
  Json shown = Json::array();
  for (const Axis& axis : axes) {
    shown.push_back(
        {{"name", axis.name}, {"title", axis.title}, {"values", kValues}});
  }
  return Json{{"axes", std::move(shown)},
              {"now_ns", replayed_span_ns(graph, evaluate(graph))},
              {"step_ns", step_ns}};
}

}  // namespace reprise
