#include "data/formats/nsys/nsys_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "data/formats/spool_tables.h"

namespace reprise {
namespace {

struct DeviceTable {
  std::string_view name;
  bool kernels;
};
using enum NsysColumn;

constexpr DeviceTable kDeviceTables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL", true},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", true},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", false},
    {"CUPTI_ACTIVITY_KIND_MEMSET", false}};

/// Most (process, device) pairs, contexts and streams that are kept apart.
constexpr size_t kMaxKeys = size_t{1} << 16;

int32_t ordinal(int64_t device) {
  const bool fits =
      device >= 0 && device <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(device) : -1;
}

}  // namespace

void NsysRanks::find(NsysDatabase& database) {
  for (const DeviceTable& table : kDeviceTables) {
    walk(database, table.name, table.kernels);
  }
  if (devices_.empty()) {
    std::set<NsysProcess> processes;
    NsysRows calls = database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", {kTid});
    while (calls.next() && processes.size() < kMaxKeys) {
      if (const auto tid = calls.integer(kTid))
        processes.insert(process_of(*tid));
    }
    for (const NsysProcess process : processes) add_rank({process, -1});
  }
  add_ranks();
  find_correlations(database);
}

void NsysRanks::walk(NsysDatabase& database, std::string_view table,
                     bool kernels) {
  NsysRows rows = database.rows(table, {kPid, kDevice, kContext});
  while (rows.next()) {
    const auto pid = rows.integer(kPid);
    const auto device = rows.integer(kDevice);
    if (!pid || !device || devices_.size() >= kMaxKeys) continue;
    const NsysProcess process = process_of(*pid);
    bool& ran_kernels = devices_[{process, *device}];
    ran_kernels = ran_kernels || kernels;
    const auto context = rows.integer(kContext);
    if (context && device_of_context_.size() < kMaxKeys) {
      device_of_context_.emplace(std::pair(process, *context), *device);
    }
  }
}

void NsysRanks::add_rank(const DeviceKey& key) {
  const auto rank = static_cast<uint32_t>(ranks_.size());
  rank_of_device_[key] = rank;
  ranks_of_process_[key.first].push_back(rank);
  ranks_.push_back({key.first, key.second});
  add_unknown_rank(spool_, "capture", pid_of(key.first));
}

void NsysRanks::add_ranks() {
  std::set<NsysProcess> with_kernels;
  for (const auto& [key, ran_kernels] : devices_) {
    if (ran_kernels) with_kernels.insert(key.first);
  }
  for (const auto& [key, ran_kernels] : devices_) {
    if (ran_kernels || !with_kernels.contains(key.first)) add_rank(key);
  }
  for (const auto& [key, ran_kernels] : devices_) {
    rank_of_device_.try_emplace(key, ranks_of(key.first).front());
  }
}

void NsysRanks::find_correlations(NsysDatabase& database) {
  for (const auto& [process, ranks] : ranks_of_process_) {
    if (ranks.size() > 1) correlations_[process];
  }
  if (correlations_.empty()) return;
  const auto note = [&](NsysProcess process, std::optional<int64_t> device,
                        std::optional<int64_t> correlation) {
    const auto found = correlations_.find(process);
    if (found == correlations_.end() || !device || !correlation) return;
    const auto rank = rank_of(process, *device);
    if (rank) found->second.emplace_back(*correlation, *rank);
  };
  for (const DeviceTable& table : kDeviceTables) {
    NsysRows rows = database.rows(table.name, {kPid, kDevice, kCorrelation});
    while (rows.next()) {
      note(process_of(rows.integer_or(kPid, -1)), rows.integer(kDevice),
           rows.integer(kCorrelation));
    }
  }
  NsysRows waits = database.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                 {kPid, kContext, kCorrelation});
  while (waits.next()) {
    const NsysProcess process = process_of(waits.integer_or(kPid, -1));
    note(process, device_of(process, waits.integer_or(kContext, -1)),
         waits.integer(kCorrelation));
  }
  for (auto& [process, pairs] : correlations_) {
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  }
  find_threads(database);
}

std::optional<uint32_t> NsysRanks::rank_of(NsysProcess process,
                                           int64_t device) const {
  const auto found = rank_of_device_.find({process, device});
  if (found == rank_of_device_.end()) return std::nullopt;
  return found->second;
}

// JAX, say, drives each device of a process by a thread of its own.
void NsysRanks::find_threads(NsysDatabase& database) {
  std::set<int64_t> of_several;
  NsysRows calls =
      database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", {kTid, kCorrelation});
  while (calls.next() && rank_of_thread_.size() < kMaxKeys) {
    const auto tid = calls.integer(kTid);
    if (!tid) continue;
    const auto rank =
        rank_of_work(process_of(*tid), calls.integer_or(kCorrelation, -1));
    if (!rank) continue;
    const auto [known, is_new] = rank_of_thread_.try_emplace(*tid, *rank);
    if (!is_new && known->second != *rank) of_several.insert(*tid);
  }
  for (const int64_t tid : of_several) rank_of_thread_.erase(tid);
}

std::optional<uint32_t> NsysRanks::rank_of_work(NsysProcess process,
                                                int64_t correlation) const {
  const auto several = correlations_.find(process);
  if (several == correlations_.end()) return std::nullopt;
  const auto found =
      std::lower_bound(several->second.begin(), several->second.end(),
                       std::pair(correlation, uint32_t{0}));
  if (found == several->second.end() || found->first != correlation)
    return std::nullopt;
  return found->second;
}

std::optional<uint32_t> NsysRanks::rank_of_thread(int64_t global_tid) const {
  const auto found = rank_of_thread_.find(global_tid);
  if (found == rank_of_thread_.end()) return std::nullopt;
  return found->second;
}

std::optional<uint32_t> NsysRanks::rank_of_call(int64_t global_tid,
                                                int64_t correlation) const {
  const NsysProcess process = process_of(global_tid);
  if (const auto rank = rank_of_work(process, correlation)) return rank;
  if (const auto rank = rank_of_thread(global_tid)) return rank;
  const std::vector<uint32_t>& ranks = ranks_of(process);
  if (ranks.empty()) return std::nullopt;
  return ranks.front();
}

const std::vector<uint32_t>& NsysRanks::ranks_of(NsysProcess process) const {
  static const std::vector<uint32_t> none;
  const auto found = ranks_of_process_.find(process);
  return found == ranks_of_process_.end() ? none : found->second;
}

std::optional<int64_t> NsysRanks::device_of(NsysProcess process,
                                            int64_t context) const {
  const auto found = device_of_context_.find({process, context});
  if (found != device_of_context_.end()) return found->second;
  const std::vector<uint32_t>& ranks = ranks_of(process);
  if (ranks.size() != 1) return std::nullopt;
  return ranks_[ranks.front()].device;
}

uint32_t NsysRanks::device_stream(uint32_t rank, int64_t device,
                                  int64_t stream) {
  if (device_streams_.size() >= kMaxKeys) stream = -1;
  const auto [at, is_new] =
      device_streams_.try_emplace({rank, {device, stream}}, 0);
  if (is_new) {
    std::string name = stream < 0 ? std::string("synchronization")
                                  : fmt::format("stream {}", stream);
    if (device != ranks_[rank].device)
      name += fmt::format(" of device {}", device);
    at->second = spool_.add_stream({.rank = rank,
                                    .name = std::move(name),
                                    .kind = StreamKind::kDeviceStream,
                                    .process = pid_of(ranks_[rank].process),
                                    .device = ordinal(device),
                                    .number = stream});
  }
  return at->second;
}

uint32_t NsysRanks::host_thread(uint32_t rank, int64_t global_tid,
                                NsysDatabase& database) {
  if (host_threads_.size() >= kMaxKeys) global_tid &= ~int64_t{0xffffff};
  const auto [at, is_new] = host_threads_.try_emplace({rank, global_tid}, 0);
  if (!is_new) return at->second;
  if (!thread_names_read_) find_thread_names(database);
  const int64_t number = global_tid & 0xffffff;
  std::string name = fmt::format("thread {}", number);
  const auto known = thread_names_.find(global_tid);
  if (known != thread_names_.end()) {
    if (const auto text = database.string_of(known->second)) {
      name += fmt::format(" ({})", *text);
    }
  }
  at->second = spool_.add_stream({.rank = rank,
                                  .name = std::move(name),
                                  .kind = StreamKind::kHostThread,
                                  .process = pid_of(process_of(global_tid)),
                                  .device = -1,
                                  .number = number});
  return at->second;
}

void NsysRanks::find_thread_names(NsysDatabase& database) {
  thread_names_read_ = true;
  NsysRows rows = database.rows("ThreadNames", {kTid, kNameId});
  while (rows.next()) {
    const auto tid = rows.integer(kTid);
    const auto name = rows.integer(kNameId);
    if (tid && name) thread_names_[*tid] = *name;
  }
}

}  // namespace reprise
