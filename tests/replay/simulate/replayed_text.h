// Traces of a few lines, replayed: what tests of the replay of traces share.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "replay/simulate/trace_replay.h"
#include "tests/replay/graph/trace_text.h"

namespace reprise {

struct Replayed {
  Trace trace;
  TimedGraph graph;
  TraceReplay replay;

  int64_t predicted_us() const { return replay.predicted_ns / 1000; }
};

inline WhatIf parsed(const std::string& text) {
  const Result<WhatIf> what_if = parse_what_if(text);
  EXPECT_TRUE(what_if) << text;
  return what_if ? *what_if : WhatIf{};
}

inline Replayed replayed(Trace trace, const std::vector<std::string>& what_ifs,
                         const TraceWindow& window = {}) {
  Replayed result;
  result.trace = std::move(trace);
  Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(result.trace), window);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  if (!graph) return result;
  result.graph = *std::move(graph);
  std::vector<WhatIf> changes;
  for (const std::string& what_if : what_ifs) {
    changes.push_back(parsed(what_if));
  }
  Result<TraceReplay> replay =
      replay_trace(result.trace, result.graph, changes);
  EXPECT_TRUE(replay) << (replay ? "" : replay.error().message);
  if (replay) result.replay = *std::move(replay);
  return result;
}

inline Replayed replayed(const std::string& text,
                         const std::vector<std::string>& what_ifs = {},
                         const TraceWindow& window = {}) {
  return replayed(parse_trace_text(text), what_ifs, window);
}

inline std::string refusal(const Trace& trace, const std::string& what_if) {
  const Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(trace));
  EXPECT_TRUE(graph);
  const WhatIf change = parsed(what_if);
  const Result<TraceReplay> replay =
      replay_trace(trace, *graph, std::span(&change, 1));
  return replay ? "" : replay.error().message;
}

inline std::string refusal(const std::string& text,
                           const std::string& what_if) {
  return refusal(parse_trace_text(text), what_if);
}

}  // namespace reprise
