// One of several alike groups or pairs of ranks moves the same sizes more
// slowly than the others: a link on its way is slower than theirs. Whose link
// that is, all collectives of the trace tell, not those of one step alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/median.h"
#include "replay/collectives/collectives.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr double kNotableLink = 1.5;  ///< Slower than its peers by this.
/// Its fastest transfer, too: what is slow now and then is no link.
constexpr double kAlwaysSlower = 1.25;
constexpr size_t kFewestTransfers = 2;  ///< Of a link, of one kind and size.
constexpr size_t kMostNamed = 4;        ///< Links in the sentence.

/// Ranks that it joins: a group, both sides of a message, or the one that waits
/// for its part of a permutation among more.
using Link = std::vector<uint32_t>;
/// What takes links of one speed as long.
struct LinkLoad {
  CollectiveKind kind = CollectiveKind::kUnknown;
  size_t ranks = 0, hosts = 0;
  int64_t half_powers = 0;  ///< Of two: about its bytes.
  auto operator<=>(const LinkLoad&) const = default;
};

struct Pace {
  double bytes = 0, ns_per_byte = 0;
  double bytes_per_s = 0;  ///< Of the bus, where its rule is known.
};
using Paces = std::map<LinkLoad, std::map<Link, std::vector<Pace>>>;

/// By place in the matching; of what tells nothing, no links.
struct Told {
  LinkLoad load;
  bool part_each = false;  ///< Each rank has a link of its own.
  bool usable = false;
};

std::map<uint32_t, std::string_view> hosts_of(const Trace& frame) {
  std::map<uint32_t, std::string_view> hosts;
  for (const RankInfo& rank : frame.ranks) hosts[rank.rank] = rank.host;
  return hosts;
}

Told told_of(const MatchedCollective& one,
             const std::map<uint32_t, std::string_view>& hosts) {
  // Waiting cannot be told from transferring where members lack.
  if (one.bytes <= 0 || one.members.size() < 2 || !one.missing.empty()) {
    return {};
  }
  std::set<std::string_view> own;
  for (const CollectiveMember& member : one.members) {
    const auto host = hosts.find(member.rank);
    if (host != hosts.end()) own.insert(host->second);
  }
  const double size = std::log2(static_cast<double>(one.bytes));
  return {.load = {.kind = one.kind,
                   .ranks = one.members.size(),
                   .hosts = own.size(),
                   .half_powers = std::llround(size * 2)},
          .part_each =
              one.kind == CollectiveKind::kPermute && one.members.size() > 2,
          .usable = true};
}

Link link_of(const MatchedCollective& one, const Told& told, uint32_t rank) {
  if (told.part_each) return {rank};
  Link link;
  link.reserve(one.members.size());
  for (const CollectiveMember& member : one.members) {
    link.push_back(member.rank);
  }
  return link;
}

void add_paces(const MatchedCollective& one, const Told& told,
               const Trace& frame, Paces& paces) {
  const CollectiveTimes times = times_of(one, frame);
  const double bytes = static_cast<double>(one.bytes);
  const auto add = [&](uint32_t rank, int64_t transfer_ns, double bytes_per_s) {
    if (transfer_ns <= 0) return;
    const double time_ns = static_cast<double>(transfer_ns);
    paces[told.load][link_of(one, told, rank)].push_back(
        {bytes, time_ns / bytes,
         bytes_per_s > 0 ? bytes_per_s : bytes / time_ns * 1e9});
  };
  if (!told.part_each) {
    add(0, times.transfer_ns, times.bus_bandwidth_bytes_per_s);
    return;
  }
  for (size_t at = 0; at < one.members.size(); ++at) {
    const CollectiveMember& member = one.members[at];
    // It arrived so long before the last one.
    const int64_t own_ns = member.end_ns - member.start_ns;
    add(member.rank, own_ns - times.wait_ns[at], 0);
  }
}

double typical(const std::vector<Pace>& paces, double Pace::*value) {
  std::vector<double> values;
  values.reserve(paces.size());
  for (const Pace& pace : paces) values.push_back(pace.*value);
  return lower_median(std::move(values));
}

double fastest(const std::vector<Pace>& paces) {
  double least = paces.front().ns_per_byte;
  for (const Pace& pace : paces) least = std::min(least, pace.ns_per_byte);
  return least;
}

struct SlowLink {
  double ratio = 1, bytes = 0;
  double bytes_per_s = 0, peers_bytes_per_s = 0;
  size_t transfers = 0, peers = 0;
};
using SlowLinks = std::map<std::pair<LinkLoad, Link>, SlowLink>;

SlowLinks slow_links(const Paces& paces) {
  SlowLinks slow;
  for (const auto& [load, links] : paces) {
    std::vector<double> ns_per_byte, bytes_per_s;
    for (const auto& [link, own] : links) {
      if (own.size() < kFewestTransfers) continue;
      ns_per_byte.push_back(typical(own, &Pace::ns_per_byte));
      bytes_per_s.push_back(typical(own, &Pace::bytes_per_s));
    }
    if (ns_per_byte.size() < 2) continue;
    const size_t peers = ns_per_byte.size() - 1;
    const double usual = lower_median(std::move(ns_per_byte));
    const double usual_bytes_per_s = median(std::move(bytes_per_s));
    for (const auto& [link, own] : links) {
      if (own.size() < kFewestTransfers) continue;
      const double ratio = typical(own, &Pace::ns_per_byte) / usual;
      if (ratio < kNotableLink || fastest(own) < kAlwaysSlower * usual)
        continue;
      slow[{load, link}] = {.ratio = ratio,
                            .bytes = typical(own, &Pace::bytes),
                            .bytes_per_s = typical(own, &Pace::bytes_per_s),
                            .peers_bytes_per_s = usual_bytes_per_s,
                            .transfers = own.size(),
                            .peers = peers};
    }
  }
  return slow;
}

std::string text_of(const Link& link) {
  if (link.size() == 2) return fmt::format("{} and {}", link[0], link[1]);
  return fmt::format("{}", fmt::join(link, ", "));
}

/// What is slow, by how much at most, the worst first.
std::vector<std::pair<Link, double>> worst_first(const SlowLinks& slow) {
  std::map<Link, double> ratios;
  for (const auto& [key, one] : slow) {
    double& ratio = ratios[key.second];
    ratio = std::max(ratio, one.ratio);
  }
  std::vector<std::pair<Link, double>> links(ratios.begin(), ratios.end());
  std::stable_sort(
      links.begin(), links.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  return links;
}

void describe(const SlowLinks& slow, Finding& finding) {
  const auto links = worst_first(slow);
  std::string names;
  for (size_t at = 0; at < std::min(links.size(), kMostNamed); ++at) {
    names += (at > 0 ? "; " : "") + text_of(links[at].first);
  }
  if (links.size() > kMostNamed) {
    names += fmt::format("; {} more", links.size() - kMostNamed);
  }
  const Link& worst = links[0].first;
  finding.what = fmt::format(
      "{} {}: transfers take up to {:.2g}x as long as between their "
      "peers",
      worst.size() == 1   ? "slow link at rank"
      : worst.size() == 2 ? "slow link between ranks"
                          : "slow link within ranks",
      names, links[0].second);
  finding.where.ranks = worst;
  for (const auto& [key, one] : slow) {
    if (key.second != worst || one.ratio < links[0].second) continue;
    const std::string kind(name_of(key.first.kind));
    finding.where.collective = kind;
    finding.evidence.push_back(
        fmt::format("{} of {:.3g} MB: {:.3g} GB/s in {} transfers, {:.3g} GB/s "
                    "among {}",
                    kind, one.bytes / 1e6, one.bytes_per_s / 1e9, one.transfers,
                    one.peers_bytes_per_s / 1e9,
                    one.peers == 1 ? std::string("the other")
                                   : fmt::format("{} others", one.peers)));
    return;
  }
}

}  // namespace

void find_slow_link(const FindingInput& input, Candidates& found) {
  const auto& collectives = input.analysis.matching.collectives;
  const Trace& frame = input.trace.frame();
  const auto hosts = hosts_of(frame);
  Paces paces;
  for (const MatchedCollective& one : collectives) {
    const Told told = told_of(one, hosts);
    if (told.usable) add_paces(one, told, frame, paces);
  }
  const SlowLinks slow = slow_links(paces);
  if (slow.empty()) return;
  const TimedGraph& graph = input.graph;
  std::vector<std::pair<uint32_t, double>> nodes;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const MatchedCollective& one =
        collectives[static_cast<size_t>(graph.collective[node])];
    const Told told = told_of(one, hosts);
    if (!told.usable) continue;
    const auto known =
        slow.find({told.load, link_of(one, told, input.rank_number(node))});
    if (known != slow.end()) nodes.emplace_back(node, 1 / known->second.ratio);
  }
  if (nodes.empty()) return;
  Candidate candidate;
  Finding& finding = candidate.finding;
  describe(slow, finding);
  finding.at_most = false;
  finding.action =
      "see which way these ranks' transfers go and whether a card, cable or "
      "switch port runs below its speed";
  finding.command =
      "nvidia-smi topo -m; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET; "
      "ibstat or ethtool";
  candidate.remove = [nodes = std::move(nodes)](TimedGraph& edited) {
    for (const auto& [node, factor] : nodes) {
      edited.duration[node] = static_cast<int64_t>(
          static_cast<double>(edited.duration[node]) * factor);
    }
  };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
