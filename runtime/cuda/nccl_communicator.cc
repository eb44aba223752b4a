// NCCL may block for ever where a peer is gone, in the call that connects too.
// So connecting and aborting have threads of their own that are waited for only
// so long (one that does not come back is left to itself), and while a step
// runs NCCL is asked for its asynchronous error. Source: NCCL documentation,
// "Fault Tolerance".
#include "runtime/cuda/nccl_communicator.h"

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

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(const NcclLibrary& nccl, ncclComm* communicator, int rank,
                   int ranks)
      : nccl_(nccl), communicator_(communicator), rank_(rank), ranks_(ranks) {}
  ~NcclCommunicator() override {
    if (ncclComm* left = take()) nccl_.destroy(left);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  Status attach(DeviceSpan, size_t) override { return {}; }
  Status check(const CollectiveSpec& spec) const override;
  bool is_host_staged() const override { return false; }
  Status enqueue(const CollectiveSpec& spec, uint64_t input, uint64_t output,
                 CUstream_st* stream) override;
  Status poll() override;
  void abort() override;

 private:
  ncclComm* take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(communicator_, nullptr);
  }
  int call(const CollectiveSpec& spec, const void* input, void* output,
           ncclComm* communicator, CUstream_st* stream) const;
  Status lost(int result, ncclComm* communicator);

  const NcclLibrary& nccl_;
  std::mutex mutex_;  ///< Of the handle, not of NCCL's work on it.
  ncclComm* communicator_;
  const int rank_, ranks_;
};

Status NcclCommunicator::check(const CollectiveSpec& spec) const {
  if (!facts_of(spec.kind).runs) {
    return fail(ErrorKind::kUnsupported, "{} does not run on a GPU",
                name_of(spec.kind));
  }
  if (!nccl_data_type(spec.type)) {
    return fail(ErrorKind::kUnsupported, "{} of {}", name_of(spec.kind),
                primitive_type_name(spec.type));
  }
  if (spec.groups.size() != 1 ||
      spec.groups[0].size() != static_cast<size_t>(ranks_)) {
    return fail(ErrorKind::kUnsupported, "{} among some of the ranks",
                name_of(spec.kind));
  }
  return {};
}

Status NcclCommunicator::lost(int result, ncclComm* communicator) {
  const std::string who =
      ranks_ == 2 ? fmt::format("rank {}", 1 - rank_) : "a rank";
  return fail(ErrorKind::kDevice, "rank {}: NCCL failed, {} may be lost: {}",
              rank_, who, nccl_.words(result, communicator));
}

int NcclCommunicator::call(const CollectiveSpec& spec, const void* input,
                           void* output, ncclComm* communicator,
                           CUstream_st* stream) const {
  const int type = *nccl_data_type(spec.type);
  const int reduction = nccl_operation(spec.reduction);
  const auto whole = static_cast<size_t>(spec.elements);
  const size_t part = whole / static_cast<size_t>(ranks_);
  switch (spec.kind) {
    case CollectiveKind::kAllReduce:
      return nccl_.all_reduce(input, output, whole, type, reduction,
                              communicator, stream);
    case CollectiveKind::kAllGather:
      return nccl_.all_gather(input, output, part, type, communicator, stream);
    case CollectiveKind::kReduceScatter:
      return nccl_.reduce_scatter(input, output, part, type, reduction,
                                  communicator, stream);
    default:
      break;
  }
  REPRISE_CHECK(false);  // `check` refuses it.
}

Status NcclCommunicator::enqueue(const CollectiveSpec& spec, uint64_t input,
                                 uint64_t output, CUstream_st* stream) {
  ncclComm* communicator = nullptr;
  {
    const std::lock_guard lock(mutex_);
    communicator = communicator_;
  }
  if (communicator == nullptr) {
    return fail(ErrorKind::kDevice, "rank {}: NCCL was aborted", rank_);
  }
  const int result = call(spec, std::bit_cast<const void*>(input),
                          std::bit_cast<void*>(output), communicator, stream);
  if (result == kNcclOk || result == kNcclWorking) return {};
  return lost(result, communicator);
}

Status NcclCommunicator::poll() {
  const std::lock_guard lock(mutex_);
  if (communicator_ == nullptr) {
    return fail(ErrorKind::kDevice, "rank {}: NCCL was aborted", rank_);
  }
  int error = kNcclOk;
  const int asked = nccl_.get_asynchronous_error(communicator_, &error);
  if (asked != kNcclOk) return lost(asked, communicator_);
  if (error == kNcclOk || error == kNcclWorking) return {};
  return lost(error, communicator_);
}

void NcclCommunicator::abort() {
  ncclComm* left = take();
  if (left == nullptr) return;
  run_within<int>(kAbortSeconds,
                  [nccl = &nccl_, left] { return nccl->abort(left); });
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

}  // namespace

Result<std::unique_ptr<DeviceCommunicator>> make_nccl_communicator(
    ProcessGroup& group, const std::function<Status()>& make_current,
    double timeout_s) {
  const Result<const NcclLibrary*> nccl = NcclLibrary::load();
  const Result<NcclUniqueId> id = share_id(nccl, group);
  if (!id) return pass(id.error());
  const Result<ncclComm*> connected =
      connect(**nccl, *id, group.rank(), group.size(), make_current, timeout_s);
  if (!connected) return pass(connected.error());
  return std::make_unique<NcclCommunicator>(**nccl, *connected, group.rank(),
                                            group.size());
}

}  // namespace reprise
