// NCCL ran collectives of a kind and size by several algorithms, protocols or
// numbers of channels, and one of them was slower. Said only where kernels'
// names or NCCL's profiler plugin tell which.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/median.h"
#include "replay/collectives/nccl_configuration.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr double kNotableChoice = 1.1;  ///< Slower than the best by this.
constexpr size_t kFewestSamples = 2;    ///< Of each choice.

/// Alike: kind, group, size to a quarter of a power of two and a bit.
using Alike = std::tuple<CollectiveKind, size_t, int64_t>;
struct Sample {
  uint32_t node = 0;
  double ns_per_byte = 0;
};
using Samples =
    std::map<Alike, std::map<NcclConfiguration, std::vector<Sample>>>;

Samples samples_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  const std::vector<NcclConfiguration> choices =
      nccl_configurations(input.trace, input.analysis.matching);
  Samples samples;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const MatchedCollective& one =
        input.analysis.matching
            .collectives[static_cast<size_t>(graph.collective[node])];
    // Waiting cannot be told from transferring where members lack.
    if (one.bytes <= 0 || one.members.size() < 2 || !one.missing.empty()) {
      continue;
    }
    const NcclConfiguration& choice =
        choices[static_cast<size_t>(graph.collective[node])];
    if (!choice.known()) continue;
    const double bytes = static_cast<double>(one.bytes);
    const Alike alike = {one.kind, one.members.size(),
                         std::llround(std::log2(bytes) * 2)};
    samples[alike][choice].push_back(
        {node, static_cast<double>(graph.duration[node]) / bytes});
  }
  return samples;
}

double typical(const std::vector<Sample>& samples) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples) values.push_back(sample.ns_per_byte);
  return lower_median(std::move(values));
}

/// Nodes that a better choice would shorten, and by which factor.
struct Slower {
  std::vector<std::pair<uint32_t, double>> nodes;
  double worst = 1;
  Alike alike{};
  NcclConfiguration best, used;
};

Slower find_slower(const Samples& samples) {
  Slower slower;
  for (const auto& [alike, choices] : samples) {
    const auto best = std::min_element(
        choices.begin(), choices.end(), [](const auto& a, const auto& b) {
          return typical(a.second) < typical(b.second);
        });
    if (best->second.size() < kFewestSamples || typical(best->second) <= 0)
      continue;
    for (const auto& [choice, own] : choices) {
      const double ratio = typical(own) / typical(best->second);
      if (own.size() < kFewestSamples || ratio < kNotableChoice) continue;
      for (const Sample& sample : own) {
        slower.nodes.emplace_back(sample.node, 1 / ratio);
      }
      if (ratio <= slower.worst) continue;
      slower.worst = ratio;
      slower.alike = alike;
      slower.best = best->first;
      slower.used = choice;
    }
  }
  return slower;
}

std::string command_for(std::string kind, const NcclConfiguration& used,
                        const NcclConfiguration& best) {
  std::erase(kind, '-');
  std::string algorithm = best.algorithm, command;
  std::erase(algorithm, '_');  // NCCL_ALGO's spelling.
  if (best.algorithm != used.algorithm || best.protocol != used.protocol) {
    command = fmt::format("NCCL_ALGO={}:{} NCCL_PROTO={}:{}", kind, algorithm,
                          kind, best.protocol);
  }
  if (best.channels > 0 && best.channels != used.channels) {
    command +=
        fmt::format("{}NCCL_MIN_CTAS={} NCCL_MAX_CTAS={}",
                    command.empty() ? "" : " ", best.channels, best.channels);
  }
  return command;
}

}  // namespace

void find_collective_choice(const FindingInput& input, Candidates& found) {
  Slower slower = find_slower(samples_of(input));
  if (slower.nodes.empty()) return;
  const std::string kind(name_of(std::get<0>(slower.alike)));
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.what =
      fmt::format("NCCL runs {}s by {} that {} runs {:.2g}x as fast", kind,
                  slower.used.text(), slower.best.text(), slower.worst);
  finding.where.collective = kind;
  finding.where.kernel = std::string(input.name(slower.nodes[0].first));
  finding.where.ranks = {input.rank_number(slower.nodes[0].first)};
  finding.evidence.push_back(fmt::format(
      "of about {:.3g} MB over {} ranks, both were recorded",
      std::exp2(static_cast<double>(std::get<2>(slower.alike)) / 2) / 1e6,
      std::get<1>(slower.alike)));
  finding.action = "let NCCL choose it for this size";
  finding.command = command_for(kind, slower.used, slower.best);
  candidate.remove = [nodes = std::move(slower.nodes)](TimedGraph& edited) {
    for (const auto& [node, factor] : nodes) {
      edited.duration[node] = static_cast<int64_t>(
          static_cast<double>(edited.duration[node]) * factor);
    }
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
