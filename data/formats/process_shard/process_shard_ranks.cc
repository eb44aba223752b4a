// Every process of a job inherits its launcher's rank number: the trainer, but
// also its shell and its data workers. So of the processes with one number that
// which ran most kernels (then: that trained, that recorded most) is the rank,
// and the others belong to it by the chain of parents. Where no launcher
// counted, the processes that trained are numbered by the largest communicator
// that holds them all, else by their start; where nobody trained, a host is a
// rank.
#include "data/formats/process_shard/process_shard_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "data/formats/ranks.h"

namespace reprise {
namespace {

/// Chains of parents are short; a file may claim anything.
constexpr int kMostAncestors = 64;

/// Processes of one host (or container) and boot have numbers of their own.
using BootKey = std::pair<std::string, std::string>;
BootKey boot_of(const ProcessIdentity& identity) {
  return {identity.host, identity.boot_id};
}

/// How much a process looks like the one that trained: the more, the greater.
auto weight_of(const RecordedProcess& process) {
  int64_t kernels = 0;
  for (const auto& [device, count] : process.kernels) kernels += count;
  return std::tuple(kernels, process.has_training_work, process.records);
}

class Ranking {
 public:
  explicit Ranking(const std::vector<SurveyedShard>& shards) : shards_(shards) {
    find_processes();
  }

  RankedProcesses run() {
    if (!rank_by_launcher() && !rank_by_work()) rank_by_host();
    relate_others();
    number_ranks();
    return std::move(result_);
  }

 private:
  using Processes = std::vector<size_t>;  // Places.

  void find_processes();
  void add_shard(RecordedProcess& process, size_t shard);
  bool rank_by_launcher();
  void note_absent_ranks(const std::map<int64_t, Processes>& claims);
  bool rank_by_work();
  void rank_by_host();
  bool order_by_communicator(Processes& workers) const;
  void add_rank(size_t main, const Processes& members);
  void relate_others();
  int32_t rank_of_ancestor(size_t place) const;
  std::optional<size_t> parent_of(size_t place) const;
  void number_ranks();
  size_t heaviest(const Processes& members) const;
  RecordedProcess& at(size_t place) { return result_.processes[place]; }
  const RecordedProcess& at(size_t place) const {
    return result_.processes[place];
  }

  const std::vector<SurveyedShard>& shards_;
  RankedProcesses result_;
  std::map<std::pair<BootKey, int64_t>, size_t> places_;
  std::vector<int64_t> claimed_;  ///< [rank] the launcher's number, or -1.
};

void Ranking::add_shard(RecordedProcess& process, size_t shard) {
  const SurveyedShard& added = shards_[shard];
  const ProcessIdentity& identity = added.contents.identity();
  const bool is_later =
      process.shards.empty() || identity.start_ns > process.identity.start_ns;
  // An exec changes the program, and what a launcher said stays said.
  const ProcessIdentity before = process.identity;
  if (is_later) process.identity = identity;
  if (process.identity.rank < 0 && !process.shards.empty()) {
    const ProcessIdentity& other = is_later ? before : identity;
    process.identity.rank = other.rank;
    process.identity.ranks = other.ranks;
    process.identity.local_rank = other.local_rank;
  }
  process.shards.push_back(shard);
  for (const auto& [device, count] : added.survey.kernels) {
    process.kernels[device] += count;
  }
  process.records += added.contents.record_count();
  process.has_training_work |= added.survey.has_training_work();
  process.communicators.insert(added.survey.communicators.begin(),
                               added.survey.communicators.end());
}

void Ranking::find_processes() {
  std::vector<size_t> order(shards_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](size_t i) {
    const ProcessIdentity& identity = shards_[i].contents.identity();
    const std::string_view source = identity.source;
    return std::tuple(boot_of(identity), identity.start_ns, identity.process,
                      source, i);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return key(a) < key(b); });
  for (const size_t shard : order) {
    const ProcessIdentity& identity = shards_[shard].contents.identity();
    const auto [place, is_new] = places_.try_emplace(
        {boot_of(identity), identity.process}, result_.processes.size());
    if (is_new) result_.processes.emplace_back();
    add_shard(result_.processes[place->second], shard);
  }
}

size_t Ranking::heaviest(const Processes& members) const {
  return *std::max_element(
      members.begin(), members.end(),
      [&](size_t a, size_t b) { return weight_of(at(a)) < weight_of(at(b)); });
}

void Ranking::add_rank(size_t main, const Processes& members) {
  const auto number = static_cast<int32_t>(result_.ranks.size());
  JobRank rank;
  rank.process = main;
  std::set<int32_t> devices;
  for (const size_t member : members) {
    at(member).rank = number;
    for (const auto& [device, count] : at(member).kernels) {
      devices.insert(device);
    }
  }
  at(main).is_main = true;
  rank.devices.assign(devices.begin(), devices.end());
  result_.ranks.push_back(std::move(rank));
  claimed_.push_back(at(main).identity.rank);
}

/// A launcher's number is inherited: shells, the trainer and its data workers
/// have the same one.
bool Ranking::rank_by_launcher() {
  std::map<int64_t, Processes> claims;
  for (size_t i = 0; i < result_.processes.size(); ++i) {
    const int64_t rank = at(i).identity.rank;
    if (rank >= 0 && rank < kLargestRank) claims[rank].push_back(i);
  }
  for (const auto& [rank, members] : claims) {
    const size_t main = heaviest(members);
    add_rank(main, members);
    const auto trained =
        std::count_if(members.begin(), members.end(),
                      [&](size_t place) { return !at(place).kernels.empty(); });
    if (trained > 1) {
      result_.notes.push_back(fmt::format(
          "{} processes of rank {} ran kernels; {} counts as the rank.",
          trained, rank, at(main).name()));
    }
  }
  if (!claims.empty()) note_absent_ranks(claims);
  return !claims.empty();
}

/// Of the ranks that the launcher counts: those of other hosts, most often.
void Ranking::note_absent_ranks(const std::map<int64_t, Processes>& claims) {
  int64_t ranks = 0;
  for (const auto& [rank, members] : claims) {
    for (const size_t member : members) {
      ranks = std::max(ranks, at(member).identity.ranks);
    }
  }
  std::vector<uint32_t> absent;
  for (int64_t rank = 0; rank < std::min<int64_t>(ranks, kLargestRank);
       ++rank) {
    if (!claims.contains(rank)) absent.push_back(static_cast<uint32_t>(rank));
  }
  if (absent.empty()) return;
  result_.notes.push_back(fmt::format(
      "Of {} ranks, rank {} left no shard here. Where hosts do not share the "
      "directory of shards, profile on each (--keep-shards), copy what they "
      "keep below one directory and import that.",
      ranks, rank_list(absent)));
}

/// True when all workers have a place of their own in one communicator.
bool Ranking::order_by_communicator(Processes& workers) const {
  std::map<std::string, int64_t> sizes;
  for (const size_t worker : workers) {
    for (const auto& [name, place] : at(worker).communicators) {
      sizes[name] = std::max(sizes[name], place.second);
    }
  }
  const auto largest = std::max_element(
      sizes.begin(), sizes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == sizes.end()) return false;
  std::map<int64_t, size_t> ordered;
  for (const size_t worker : workers) {
    const auto found = at(worker).communicators.find(largest->first);
    if (found == at(worker).communicators.end()) return false;
    ordered.emplace(found->second.first, worker);
  }
  if (ordered.size() != workers.size()) return false;
  workers.clear();
  for (const auto& [rank, worker] : ordered) workers.push_back(worker);
  return true;
}

bool Ranking::rank_by_work() {
  Processes workers;
  for (size_t i = 0; i < result_.processes.size(); ++i) {
    if (at(i).has_training_work) workers.push_back(i);
  }
  if (workers.size() > 1 && !order_by_communicator(workers)) {
    result_.notes.push_back(fmt::format(
        "No launcher and no communicator numbers the {} processes that "
        "trained; their ranks are in the order of their start.",
        workers.size()));
  }
  for (const size_t worker : workers) add_rank(worker, {worker});
  return !workers.empty();
}

/// Nobody trained: what ran on one host is one rank.
void Ranking::rank_by_host() {
  std::map<BootKey, Processes> hosts;
  for (size_t i = 0; i < result_.processes.size(); ++i) {
    hosts[boot_of(at(i).identity)].push_back(i);
  }
  for (const auto& [host, members] : hosts)
    add_rank(heaviest(members), members);
}

std::optional<size_t> Ranking::parent_of(size_t place) const {
  const ProcessIdentity& identity = at(place).identity;
  const auto parent = places_.find({boot_of(identity), identity.parent});
  if (parent == places_.end() || parent->second == place) return std::nullopt;
  return parent->second;
}

int32_t Ranking::rank_of_ancestor(size_t place) const {
  std::optional<size_t> ancestor = parent_of(place);
  for (int i = 0; i < kMostAncestors && ancestor; ++i) {
    if (at(*ancestor).rank >= 0) return at(*ancestor).rank;
    ancestor = parent_of(*ancestor);
  }
  return -1;
}

void Ranking::relate_others() {
  // Of each process the ranks below it, found from the ranks upwards.
  std::map<size_t, std::set<int32_t>> below;
  for (const JobRank& rank : result_.ranks) {
    std::optional<size_t> ancestor = parent_of(rank.process);
    for (int i = 0; i < kMostAncestors && ancestor; ++i) {
      below[*ancestor].insert(at(rank.process).rank);
      ancestor = parent_of(*ancestor);
    }
  }
  std::vector<std::pair<size_t, int32_t>> found;
  for (size_t i = 0; i < result_.processes.size(); ++i) {
    if (at(i).rank >= 0) continue;
    int32_t rank = rank_of_ancestor(i);
    const auto descendants = below.find(i);
    if (rank < 0 && descendants != below.end() &&
        descendants->second.size() == 1) {
      rank = *descendants->second.begin();
    }
    found.emplace_back(i, rank);
  }
  for (const auto& [place, rank] : found) at(place).rank = rank;
}

/// By the launcher's numbers, unless a process is several ranks.
void Ranking::number_ranks() {
  const bool split =
      std::any_of(result_.ranks.begin(), result_.ranks.end(),
                  [](const JobRank& rank) { return rank.devices.size() > 1; });
  uint32_t next = 0;
  for (size_t i = 0; i < result_.ranks.size(); ++i) {
    JobRank& rank = result_.ranks[i];
    const bool is_claimed = claimed_[i] >= 0 && !split;
    rank.first_number = is_claimed ? static_cast<uint32_t>(claimed_[i]) : next;
    next += static_cast<uint32_t>(std::max<size_t>(1, rank.devices.size()));
  }
  if (split) {
    result_.notes.emplace_back(
        "Processes with kernels on several devices are a rank a device, and "
        "all ranks are numbered in that order.");
  }
}

}  // namespace

std::string RecordedProcess::name() const {
  const std::string& path = identity.program;
  return fmt::format("{} {} {}", identity.host, identity.process,
                     path.substr(path.find_last_of('/') + 1));
}

RankedProcesses rank_processes(const std::vector<SurveyedShard>& shards) {
  return Ranking(shards).run();
}

}  // namespace reprise
