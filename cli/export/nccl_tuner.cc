// nccl-tuner: the file that NCCL's example tuner plugin reads, ten columns a
// row. Source: NVIDIA/nccl, plugins/tuner/example/plugin.c at 5067397: fields,
// words, lines below 256 characters, the first row that matches counts; bytes
// are of the larger of a rank's two buffers (src/enqueue.cc).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/export/export_target.h"
#include "data/number_text.h"
#include "replay/estimates/nccl_choices.h"
#include "replay/graph/trace_graph.h"

namespace reprise {
namespace {

/// A row: sizes that one configuration is for.
struct TunerRow {
  NcclChoice choice;  ///< Of the least size.
  int64_t low_bytes = 0, high_bytes = 0;
};

/// Where sizes leave one measurement for the next: in the middle by logarithm.
int64_t between(int64_t low_bytes, int64_t high_bytes) {
  return std::llround(std::sqrt(static_cast<double>(low_bytes)) *
                      std::sqrt(static_cast<double>(high_bytes)));
}

bool is_beside(const NcclChoice& a, const NcclChoice& b) {
  return a.kind == b.kind && a.group_size == b.group_size && a.nodes == b.nodes;
}

/// Each size reaches half the way to the next recorded one, not beyond what was
/// measured of its configuration; neighbours of one configuration are one row.
std::vector<TunerRow> rows_of(const NcclChoices& choices,
                              const NcclPrices& prices) {
  std::vector<TunerRow> rows;
  const std::vector<NcclChoice>& list = choices.list;
  for (size_t at = 0; at < list.size(); ++at) {
    const NcclChoice& own = list[at];
    if (!own.chosen.known()) continue;
    auto [low, high] = prices.range(own.kind, own.group_size, own.chosen);
    low = low == 0 ? own.bytes : std::min(low, own.bytes);
    high = std::max(high, own.bytes);
    if (at > 0 && is_beside(list[at - 1], own)) {
      low = std::max(low, between(list[at - 1].bytes, own.bytes) + 1);
    }
    if (at + 1 < list.size() && is_beside(own, list[at + 1])) {
      high = std::min(high, between(own.bytes, list[at + 1].bytes));
    }
    const bool joins = !rows.empty() && is_beside(rows.back().choice, own) &&
                       rows.back().choice.chosen == own.chosen &&
                       rows.back().high_bytes + 1 == low;
    if (joins) {
      rows.back().high_bytes = high;
    } else {
      rows.push_back({own, low, high});
    }
  }
  return rows;
}

std::string text_of(const TunerRow& row) {
  std::string kind(name_of(row.choice.kind));
  std::erase(kind, '-');
  return fmt::format("{},{},{},{},{},{},{},{},-1,-1\n", kind, row.low_bytes,
                     row.high_bytes, row.choice.chosen.algorithm,
                     row.choice.chosen.protocol, row.choice.chosen.channels,
                     row.choice.nodes, row.choice.group_size);
}

/// What the step says of each size, for people who read the file.
std::string remarks_of(const NcclChoices& choices) {
  std::string text;
  for (const NcclChoice& own : choices.list) {
    const std::string name(name_of(own.kind));
    const std::string recorded =
        own.recorded.known() ? own.recorded.text() : "an unknown choice";
    text += fmt::format("# {} of {} bytes, {} ranks, calls {}: ", name,
                        own.bytes, own.group_size, own.calls);
    text += own.kept ? fmt::format("{} {} stays\n", time_text(own.recorded_ns),
                                   recorded)
                     : fmt::format("{} by {}, was {} by {}\n",
                                   time_text(own.chosen_ns), own.chosen.text(),
                                   time_text(own.recorded_ns), recorded);
  }
  return text;
}

Result<NcclPrices> prices_of(const ExportRequest& request,
                             const AlignedTrace& trace) {
  NcclPrices prices;
  prices.add_recorded(trace);
  for (const std::string& points : request.points) {
    const size_t equals = std::min(points.find('='), points.size());
    const Result<NcclConfiguration> configuration =
        parse_nccl_configuration(std::string_view(points).substr(0, equals));
    if (!configuration) return pass(configuration.error(), "--points");
    if (equals >= points.size()) {
      return fail(ErrorKind::kInvalid, "--points {}: =TRACE is missing",
                  points);
    }
    const std::string path = points.substr(equals + 1);
    const Result<Trace> measured = read_trace(path);
    if (!measured) return pass(measured.error());
    if (prices.add_all(*measured, *configuration) == 0) {
      return fail(ErrorKind::kInvalid,
                  "{}: no measured collective in it; import a log of "
                  "nccl-tests that ran under NCCL_ALGO and NCCL_PROTO",
                  path);
    }
  }
  return prices;
}

Provenance provenance_of(const ExportRequest& request,
                         const NcclChoices& choices, bool counts_channels) {
  Provenance told;
  // The plugin reads lines of at most 255 bytes, comments too.
  constexpr size_t kLongestName = 60;
  const std::string& path = request.path;
  told.source = fmt::format(
      "{}; files of measured points: {}",
      path.substr(path.size() - std::min(path.size(), kLongestName)),
      request.points.size());
  const double gain = 1 - static_cast<double>(choices.predicted_ns) /
                              static_cast<double>(choices.recorded_ns);
  told.predicted = fmt::format(
      "{} of recorded work replays in {}, {} less; each size chosen by that, "
      "in {} replays.",
      time_text(choices.recorded_ns), time_text(choices.predicted_ns),
      share_text(std::max(0.0, gain)), choices.replays);
  told.trust =
      "points measured alone, scaled to the recorded run where its choice is "
      "among them; that fewer channels leave more to compute is not counted. "
      "Compare runs of both sides by `reprise verify`.";
  if (!counts_channels) {
    told.trust +=
        " Channels of -1 are 1 with the example plugin as it ships: set its "
        "default in pluginGetCollInfo to 0, which leaves them to NCCL; so too "
        "for sizes that no row matches.";
  }
  if (choices.unknown > 0) {
    told.trust += fmt::format(
        " {} calls of unknown size, or of which ranks lack, are left out.",
        choices.unknown);
  }
  told.check =
      "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING logs \"Loaded config\" a row "
      "and \"Applied config\" a call; a recording's kernels are named after "
      "the choice.";
  return told;
}

}  // namespace

Result<Artefact> make_nccl_tuner(const ExportRequest& request) {
  const Result<AlignedTrace> trace = AlignedTrace::read(request.file);
  if (!trace) return pass(trace.error());
  const Result<NcclPrices> prices = prices_of(request, *trace);
  if (!prices) return pass(prices.error());
  const Result<TimedGraph> graph = build_trace_graph(*trace);
  if (!graph) return pass(graph.error(), request.path);
  const NcclChoices choices = choose_nccl(*trace, *graph, *prices);
  const std::vector<TunerRow> rows = rows_of(choices, *prices);
  if (rows.empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: of none of its collectives is it known how NCCL could run "
                "them; give nccl-tests' points of their kinds and numbers of "
                "ranks by --points ring/simple=TRACE",
                request.path);
  }
  bool counts_channels = true;
  std::string text;
  for (const TunerRow& row : rows) {
    text += text_of(row);
    counts_channels &= row.choice.chosen.channels > 0;
  }
  const Provenance told = provenance_of(request, choices, counts_channels);
  constexpr std::string_view kColumns =
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,"
      "nNodes,nRanks,numPipeOps,regBuff\n";
  return Artefact{
      .files = {{"nccl_tuner.csv", comment_of(told) + remarks_of(choices) +
                                       std::string(kColumns) + text}},
      .advice =
          "NCCL 2.27 and newer with its example tuner plugin "
          "(plugins/tuner/example):\n"
          "  NCCL_TUNER_PLUGIN=libnccl-tuner-example.so "
          "NCCL_TUNER_CONFIG_FILE=$PWD/nccl_tuner.csv\n" +
          comment_of(told, "")};
}

}  // namespace reprise
