// NCCL ran collectives of a kind and size by several algorithms or protocols,
// and one of them was slower. Said only where kernels' names tell which.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "data/median.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr double kNotableChoice = 1.1;  ///< Slower than the best by this.
constexpr size_t kFewestSamples = 2;    ///< Of each choice.

struct Choice {
  std::string algorithm, protocol;  ///< As NCCL_ALGO and NCCL_PROTO say.
  auto operator<=>(const Choice&) const = default;
  bool known() const { return !algorithm.empty() && !protocol.empty(); }
  std::string text() const { return algorithm + "/" + protocol; }
};

/// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)": ring, ll.
Choice choice_of(std::string_view name) {
  struct Word {
    std::string_view part, word;
  };
  // Longer words before those that they contain.
  constexpr std::array<Word, 7> kAlgorithms = {
      {{"_NVLS_TREE", "nvlstree"},
       {"_NVLS", "nvls"},
       {"_COLLNET_DIRECT", "collnetdirect"},
       {"_COLLNET_CHAIN", "collnetchain"},
       {"_RING", "ring"},
       {"_TREE", "tree"},
       {"_PAT", "pat"}}};
  constexpr std::array<Word, 3> kProtocols = {
      {{"_LL128", "ll128"}, {"_LL", "ll"}, {"_SIMPLE", "simple"}}};
  Choice choice;
  if (!name.starts_with("nccl")) return choice;
  const auto find = [&](const auto& words, std::string& into) {
    for (const Word& word : words) {
      if (name.find(word.part) == std::string_view::npos) continue;
      into = word.word;
      return;
    }
  };
  find(kAlgorithms, choice.algorithm);
  find(kProtocols, choice.protocol);
  return choice;
}

/// Alike: kind, group, size to a quarter of a power of two and a bit.
using Alike = std::tuple<CollectiveKind, size_t, int64_t>;
struct Sample {
  uint32_t node = 0;
  double ns_per_byte = 0;
};
using Samples = std::map<Alike, std::map<Choice, std::vector<Sample>>>;

Samples samples_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
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
    const Choice choice = choice_of(input.name(node));
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
  Choice best, used;
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
  std::string word = kind;
  std::erase(word, '-');
  finding.command =
      fmt::format("NCCL_ALGO={}:{} NCCL_PROTO={}:{}", word,
                  slower.best.algorithm, word, slower.best.protocol);
  candidate.remove = [nodes = std::move(slower.nodes)](TimedGraph& edited) {
    for (const auto& [node, factor] : nodes) {
      edited.duration[node] = static_cast<int64_t>(
          static_cast<double>(edited.duration[node]) * factor);
    }
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
