// NCCL may block for ever where a peer is gone, in the call that connects too.
// So connecting and aborting have threads of their own that are waited for only
// so long (one that does not come back is left to itself), and while a step
// runs NCCL is asked for its asynchronous error. Source: NCCL documentation,
// "Fault Tolerance".
#include "runtime/cuda/nccl_communicator.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/cuda/nccl_library.h"

namespace reprise {
namespace {

/// How long `abort` waits for NCCL to let go of the device.
constexpr double kAbortSeconds = 5;

/// ncclUint8: what only moves is bytes, whatever its type.
constexpr int kNcclBytes = 1;

/// Runs `call` on a thread of its own and waits at most `timeout_s` for its
/// result; nothing if it takes longer. Such a thread is left to itself.
template <typename T>
std::optional<T> run_within(double timeout_s, std::function<T()> call) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<T> result;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, call = std::move(call)] {
    T result = call();
    const std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->done.notify_one();
  }).detach();
  std::unique_lock lock(shared->mutex);
  shared->done.wait_for(lock, std::chrono::duration<double>(timeout_s),
                        [&] { return shared->result.has_value(); });
  return shared->result;
}

/// What connecting came to, as its thread leaves it.
struct Connected {
  int result = kNcclOk;
  ncclComm* communicator = nullptr;
  Status context;
};

Result<ncclComm*> connect(const NcclLibrary& nccl, const NcclUniqueId& id,
                          int rank, int ranks,
                          const std::function<Status()>& make_current,
                          double timeout_s) {
  const auto connected =
      run_within<Connected>(timeout_s, [&nccl, id, rank, ranks, make_current] {
        Connected made;
        made.context = make_current();
        if (made.context) {
          made.result = nccl.init_rank(&made.communicator, ranks, id, rank);
        }
        return made;
      });
  if (!connected) {
    return fail(ErrorKind::kDevice,
                "rank {}: NCCL did not connect within {} s: a rank is silent",
                rank, timeout_s);
  }
  if (!connected->context) return pass(connected->context.error());
  if (connected->result != kNcclOk) {
    return fail(ErrorKind::kDevice, "rank {}: NCCL cannot connect: {}", rank,
                nccl.words(connected->result, nullptr));
  }
  return connected->communicator;
}

/// Rank 0's unique id on every rank. Collective, also where NCCL is missing.
Result<NcclUniqueId> share_id(const Result<const NcclLibrary*>& nccl,
                              ProcessGroup& group) {
  NcclUniqueId id;
  std::string mine;
  Error error;
  if (!nccl) {
    error = nccl.error();
  } else if (group.rank() == 0) {
    const int made = (*nccl)->get_unique_id(&id);
    if (made != kNcclOk) error.message = (*nccl)->words(made, nullptr);
  }
  if (error.message.empty()) mine.assign(id.bytes.data(), id.bytes.size());
  const Result<std::vector<std::string>> all = group.all_gather(mine);
  if (!all) return pass(all.error());
  for (size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].size() == id.bytes.size()) continue;
    if (!error.message.empty()) {
      return fail(ErrorKind::kDevice, "rank {}: {}", group.rank(),
                  error.message);
    }
    return fail(ErrorKind::kDevice, "rank {} has no NCCL", rank);
  }
  std::memcpy(id.bytes.data(), (*all)[0].data(), id.bytes.size());
  return id;
}

/// NCCL's for the members of a group, or of all ranks.
struct JoinedRanks {
  std::vector<std::vector<int64_t>> groups;
  ncclComm* communicator = nullptr;  ///< Null where this rank is in no group.
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(const NcclLibrary& nccl, ncclComm* whole,
                   ProcessGroup& group, NcclDevice device, double timeout_s)
      : nccl_(nccl),
        group_(group),
        device_(std::move(device)),
        timeout_s_(timeout_s),
        rank_(group.rank()),
        ranks_(group.size()),
        joined_({{.groups = {}, .communicator = whole}}) {}
  ~NcclCommunicator() override {
    for (const JoinedRanks& left : take()) {
      if (left.communicator != nullptr) nccl_.destroy(left.communicator);
    }
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  Status attach(DeviceSpan, size_t) override { return {}; }
  Status check(const CollectiveSpec& spec) const override;
  Status join(const CollectiveSpec& spec) override;
  bool is_host_staged() const override { return false; }
  Status enqueue(const CollectiveSpec& spec,
                 std::span<const ArrayAddresses> arrays,
                 CUstream_st* stream) override;
  Status poll() override;
  void abort() override;

 private:
  /// All of them, which are then no longer there.
  std::vector<JoinedRanks> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(joined_, {});
  }
  bool joins_all(const CollectiveSpec& spec) const;
  std::vector<JoinedRanks>::const_iterator find(
      const CollectiveSpec& spec) const;
  int call(const CollectiveSpec& spec, const std::byte* input,
           std::byte* output, ncclComm* communicator,
           CUstream_st* stream) const;
  int call_together(const CollectiveSpec& spec,
                    std::span<const ArrayAddresses> arrays,
                    ncclComm* communicator, CUstream_st* stream) const;
  int exchange_parts(const CollectiveSpec& spec, const std::byte* input,
                     std::byte* output, ncclComm* communicator,
                     CUstream_st* stream) const;
  int permute(const CollectiveSpec& spec, const std::byte* input,
              std::byte* output, ncclComm* communicator,
              CUstream_st* stream) const;
  Status lost(int result, ncclComm* communicator);

  const NcclLibrary& nccl_;
  ProcessGroup& group_;
  const NcclDevice device_;
  const double timeout_s_;
  const int rank_, ranks_;
  std::mutex mutex_;  ///< Of the handles, not of NCCL's work on them.
  std::vector<JoinedRanks> joined_;  ///< All ranks first; empty: aborted.
};

/// Permutes go by messages between ranks, whoever meets.
bool NcclCommunicator::joins_all(const CollectiveSpec& spec) const {
  if (spec.kind == CollectiveKind::kPermute) return true;
  return spec.groups.size() == 1 &&
         spec.groups[0].size() == static_cast<size_t>(ranks_) &&
         std::is_sorted(spec.groups[0].begin(), spec.groups[0].end());
}

std::vector<JoinedRanks>::const_iterator NcclCommunicator::find(
    const CollectiveSpec& spec) const {
  if (joins_all(spec)) return joined_.begin();
  return std::find_if(
      joined_.begin(), joined_.end(),
      [&](const JoinedRanks& one) { return one.groups == spec.groups; });
}

Status NcclCommunicator::check(const CollectiveSpec& spec) const {
  const CollectiveFacts& facts = facts_of(spec.kind);
  if (!facts.runs) {
    return fail(ErrorKind::kUnsupported, "{} does not run on a GPU",
                facts.name);
  }
  if (facts.reduces && !nccl_data_type(spec.type)) {
    return fail(ErrorKind::kUnsupported, "{} of {}", facts.name,
                primitive_type_name(spec.type));
  }
  for (const std::vector<int64_t>& group : spec.groups) {
    for (const int64_t rank : group) {
      if (rank >= 0 && rank < ranks_) continue;
      return fail(ErrorKind::kInvalid, "{} with rank {} of {}", facts.name,
                  rank, ranks_);
    }
  }
  return {};
}

Status NcclCommunicator::lost(int result, ncclComm* communicator) {
  const std::string who =
      ranks_ == 2 ? fmt::format("rank {}", 1 - rank_) : "a rank";
  return fail(ErrorKind::kDevice, "rank {}: NCCL failed, {} may be lost: {}",
              rank_, who, nccl_.words(result, communicator));
}

/// Every member sends each other one part, in one group of calls. Source: NCCL
/// documentation, "Point-to-point communication".
int NcclCommunicator::exchange_parts(const CollectiveSpec& spec,
                                     const std::byte* input, std::byte* output,
                                     ncclComm* communicator,
                                     CUstream_st* stream) const {
  const auto members = static_cast<int>(group_of(spec, rank_)->size());
  const size_t part =
      static_cast<size_t>(spec.bytes) / static_cast<size_t>(members);
  int result = nccl_.start_group();
  for (int peer = 0; peer < members && result == kNcclOk; ++peer) {
    const size_t at = part * static_cast<size_t>(peer);
    result =
        nccl_.send(input + at, part, kNcclBytes, peer, communicator, stream);
    if (result != kNcclOk) break;
    result = nccl_.receive(output + at, part, kNcclBytes, peer, communicator,
                           stream);
  }
  const int ended = nccl_.end_group();
  return result == kNcclOk ? ended : result;
}

int NcclCommunicator::permute(const CollectiveSpec& spec,
                              const std::byte* input, std::byte* output,
                              ncclComm* communicator,
                              CUstream_st* stream) const {
  const auto bytes = static_cast<size_t>(spec.bytes);
  int result = nccl_.start_group();
  for (const auto& [source, target] : spec.pairs) {
    if (source == rank_ && result == kNcclOk) {
      result = nccl_.send(input, bytes, kNcclBytes, static_cast<int>(target),
                          communicator, stream);
    }
    if (target == rank_ && result == kNcclOk) {
      result = nccl_.receive(output, bytes, kNcclBytes,
                             static_cast<int>(source), communicator, stream);
    }
  }
  const int ended = nccl_.end_group();
  return result == kNcclOk ? ended : result;
}

int NcclCommunicator::call(const CollectiveSpec& spec, const std::byte* input,
                           std::byte* output, ncclComm* communicator,
                           CUstream_st* stream) const {
  const auto bytes = static_cast<size_t>(spec.bytes);
  const auto elements = static_cast<size_t>(spec.elements);
  const auto members = [&] { return group_of(spec, rank_)->size(); };
  const int type = nccl_data_type(spec.type).value_or(kNcclBytes);
  const int reduction = nccl_operation(spec.reduction);
  switch (spec.kind) {
    case CollectiveKind::kAllReduce:
      return nccl_.all_reduce(input, output, elements, type, reduction,
                              communicator, stream);
    case CollectiveKind::kAllGather:
      return nccl_.all_gather(input, output, bytes / members(), kNcclBytes,
                              communicator, stream);
    case CollectiveKind::kReduceScatter:
      return nccl_.reduce_scatter(input, output, elements / members(), type,
                                  reduction, communicator, stream);
    case CollectiveKind::kBroadcast:
      return nccl_.broadcast(input, output, bytes, kNcclBytes, 0, communicator,
                             stream);
    case CollectiveKind::kAllToAll:
      return exchange_parts(spec, input, output, communicator, stream);
    case CollectiveKind::kPermute:
      return permute(spec, input, output, communicator, stream);
    default:
      break;
  }
  REPRISE_CHECK(false);  // `check` refuses it.
}

/// A bucket of arrays of their own is one group of calls, which NCCL runs in
/// one kernel. Source: NCCL documentation, "Group Calls".
int NcclCommunicator::call_together(const CollectiveSpec& spec,
                                    std::span<const ArrayAddresses> arrays,
                                    ncclComm* communicator,
                                    CUstream_st* stream) const {
  int result = nccl_.start_group();
  CollectiveSpec one;
  one.kind = spec.kind;
  one.reduction = spec.reduction;
  one.type = spec.type;
  one.groups = spec.groups;
  for (size_t a = 0; a < arrays.size() && result == kNcclOk; ++a) {
    const CollectiveArray& array = spec.arrays[a];
    one.bytes = std::max(array.input.size_bytes, array.output.size_bytes);
    one.elements = one.bytes * 8 / primitive_type_bits(spec.type);
    result =
        call(one, std::bit_cast<const std::byte*>(arrays[a].input),
             std::bit_cast<std::byte*>(arrays[a].output), communicator, stream);
  }
  const int ended = nccl_.end_group();
  return result == kNcclOk ? ended : result;
}

Status NcclCommunicator::enqueue(const CollectiveSpec& spec,
                                 std::span<const ArrayAddresses> arrays,
                                 CUstream_st* stream) {
  ncclComm* communicator = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (joined_.empty()) {
      return fail(ErrorKind::kDevice, "rank {}: NCCL was aborted", rank_);
    }
    const auto found = find(spec);
    REPRISE_CHECK(found != joined_.end());  // It was joined.
    communicator = found->communicator;
  }
  if (spec.bytes == 0) return {};
  const bool is_member = group_of(spec, rank_) != nullptr;
  const bool receives =
      spec.kind == CollectiveKind::kPermute
          ? std::any_of(spec.pairs.begin(), spec.pairs.end(),
                        [&](const auto& pair) { return pair.second == rank_; })
          : is_member;
  if (!receives && fills_with_zeros(spec.kind)) {
    const Status cleared = device_.clear(
        arrays[0].output, static_cast<size_t>(spec.bytes), stream);
    if (!cleared) return cleared;
  }
  if (!is_member) return {};
  const int result =
      arrays.size() > 1
          ? call_together(spec, arrays, communicator, stream)
          : call(spec, std::bit_cast<const std::byte*>(arrays[0].input),
                 std::bit_cast<std::byte*>(arrays[0].output), communicator,
                 stream);
  if (result == kNcclOk || result == kNcclWorking) return {};
  return lost(result, communicator);
}

Status NcclCommunicator::poll() {
  const std::lock_guard lock(mutex_);
  if (joined_.empty()) {
    return fail(ErrorKind::kDevice, "rank {}: NCCL was aborted", rank_);
  }
  for (const JoinedRanks& one : joined_) {
    if (one.communicator == nullptr) continue;
    int error = kNcclOk;
    const int asked = nccl_.get_asynchronous_error(one.communicator, &error);
    if (asked != kNcclOk) return lost(asked, one.communicator);
    if (error != kNcclOk && error != kNcclWorking)
      return lost(error, one.communicator);
  }
  return {};
}

void NcclCommunicator::abort() {
  for (const JoinedRanks& left : take()) {
    if (left.communicator == nullptr) continue;
    run_within<int>(kAbortSeconds,
                    [nccl = &nccl_, communicator = left.communicator] {
                      return nccl->abort(communicator);
                    });
  }
}

/// By an id that the first rank of each group makes: what ncclCommSplit does,
/// for every version that has the rest.
Status NcclCommunicator::join(const CollectiveSpec& spec) {
  if (find(spec) != joined_.end()) return {};
  const std::vector<int64_t>* const members = group_of(spec, rank_);
  NcclUniqueId id;
  std::string mine;
  if (members != nullptr && members->front() == rank_) {
    const int made = nccl_.get_unique_id(&id);
    if (made == kNcclOk) mine.assign(id.bytes.data(), id.bytes.size());
  }
  const Result<std::vector<std::string>> all = group_.all_gather(mine);
  if (!all) return pass(all.error());
  JoinedRanks joined{.groups = spec.groups, .communicator = nullptr};
  if (members != nullptr) {
    const std::string& theirs = (*all)[static_cast<size_t>(members->front())];
    if (theirs.size() != id.bytes.size()) {
      return fail(ErrorKind::kDevice, "rank {} cannot make an id of NCCL",
                  members->front());
    }
    std::memcpy(id.bytes.data(), theirs.data(), id.bytes.size());
    const auto place = std::find(members->begin(), members->end(), rank_);
    const Result<ncclComm*> connected = connect(
        nccl_, id, static_cast<int>(place - members->begin()),
        static_cast<int>(members->size()), device_.make_current, timeout_s_);
    if (!connected) return pass(connected.error());
    joined.communicator = *connected;
  }
  const std::lock_guard lock(mutex_);
  joined_.push_back(std::move(joined));
  return {};
}

}  // namespace

Result<std::unique_ptr<DeviceCommunicator>> make_nccl_communicator(
    ProcessGroup& group, const NcclDevice& device, double timeout_s) {
  const Result<const NcclLibrary*> nccl = NcclLibrary::load();
  const Result<NcclUniqueId> id = share_id(nccl, group);
  if (!id) return pass(id.error());
  const Result<ncclComm*> connected = connect(
      **nccl, *id, group.rank(), group.size(), device.make_current, timeout_s);
  if (!connected) return pass(connected.error());
  return std::make_unique<NcclCommunicator>(**nccl, *connected, group, device,
                                            timeout_s);
}

}  // namespace reprise
