// libreprise-nccl-preload.so: NCCL's entry points by LD_PRELOAD, for versions
// before its profiler plugin (2.27). Each calls NCCL's own function exactly
// once and returns what that returned.
//
// It cannot see an NCCL that is linked statically, nor calls through pointers
// that the host program looked up in NCCL's handle itself (XLA).
#include <cerrno>
#include <cstring>
#include <vector>

#include "profiler/nccl/preload_session.h"

namespace reprise {
namespace {

struct UniqueId {
  char bytes[128];
};

/// The start of ncclConfig_t; `name` is there from 2.27 on. Source: nccl.h.
struct Config {
  size_t size_bytes;
  unsigned magic;
  unsigned version;
  int unused[4];
  const char* network;
  int unused_too[2];
  const char* name;
};
static_assert(offsetof(Config, name) == 48);

const char* name_in(const Config* config) {
  const bool has_name = config != nullptr && config->magic == 0xcafebeef &&
                        config->version >= 22700 &&
                        config->size_bytes >= sizeof(Config);
  return has_name ? config->name : nullptr;
}

/// NCCL may call its own entry points through us; only the outermost counts.
thread_local bool is_inside = false;

/// Sets `is_inside`, and leaves errno as NCCL left it.
class Inside {
 public:
  Inside() { is_inside = true; }
  ~Inside() { is_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};
class KeptErrno {
 public:
  KeptErrno() : value_(errno) {}
  ~KeptErrno() { errno = value_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int value_;
};

/// Runs NCCL's function, then `then(session, start_ns, end_ns)` if NCCL
/// accepted the call.
template <typename Run, typename Then>
int around(Run&& run, Then&& then) {
  PreloadSession* session = is_inside ? nullptr : PreloadSession::instance();
  if (session == nullptr) return run();
  const int64_t start_ns = ProcessRecorder::now_ns();
  int result = 0;
  {
    const Inside inside;
    result = run();
  }
  const KeptErrno kept;
  if (nccl_accepted(result)) {
    then(*session, start_ns, ProcessRecorder::now_ns());
  }
  return result;
}

template <typename Run>
int recorded(const PreloadCall& call, Run&& run) {
  bool in_window = true;
  return around(
      [&] {
        in_window = PreloadSession::is_window_open();
        return run();
      },
      [&](PreloadSession& session, int64_t start_ns, int64_t end_ns) {
        session.record(call, in_window, start_ns, end_ns);
      });
}

/// A communicator whose handle NCCL writes when the group ends.
struct Pending {
  void** handle;
  uint64_t hash;
  std::string name;
  int rank, ranks;
};
thread_local std::vector<Pending>* pending = nullptr;

void add_communicator(PreloadSession& session, const Pending& made) {
  if (made.handle == nullptr || *made.handle == nullptr) return;
  session.communicators().add(*made.handle, made.hash, made.name.c_str(),
                              made.rank, made.ranks);
}

void register_communicator(PreloadSession& session, Pending made) try {
  if (!PreloadSession::in_group()) return add_communicator(session, made);
  if (pending == nullptr) pending = new std::vector<Pending>;
  pending->push_back(std::move(made));
} catch (...) {
}

void register_pending(PreloadSession& session) try {
  if (pending == nullptr) return;
  for (const Pending& made : *pending) add_communicator(session, made);
  pending->clear();
} catch (...) {
}

/// Makes a communicator by `run`; it has `hash` on all of its ranks.
template <typename Run>
int making(void** handle, uint64_t hash, const char* name, int rank, int ranks,
           Run&& run) {
  return around(run, [&](PreloadSession& session, int64_t, int64_t) {
    register_communicator(
        session, {handle, hash, name == nullptr ? "" : name, rank, ranks});
  });
}

/// Of the next communicator that `parent` makes: the same number on all ranks,
/// as all of them make the same ones in the same order.
uint64_t child_hash(void* parent, const void* key, size_t size) {
  PreloadSession* session = PreloadSession::instance();
  if (session == nullptr) return 0;
  PreloadCommunicator* known = session->communicators().find(parent);
  if (known == nullptr) return 0;
  const uint64_t number = known->children.fetch_add(1);
  return stable_hash(key, size,
                     stable_hash(&number, sizeof number, known->hash));
}

void forget(void* communicator) {
  const KeptErrno kept;
  if (PreloadSession* session = PreloadSession::instance()) {
    session->communicators().remove(communicator);
  }
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(next_nccl_function(name));
}

[[gnu::destructor]] void finish_shard() { PreloadSession::finish(); }

}  // namespace
}  // namespace reprise

// NCCL's function `name` as `real`; without one, NCCL is too old for the call.
#define REPRISE_NEXT(name)                                       \
  static const auto real = reprise::next<decltype(name)>(#name); \
  if (real == nullptr) return reprise::kNcclInvalidUsage

// NOLINTBEGIN(google-objc-function-naming): these are NCCL's names.
extern "C" {
#pragma GCC visibility push(default)

/// For the profiler plugin: 1 when this library records nothing from now on.
int reprise_nccl_preload_yield() {
  reprise::PreloadSession* session = reprise::PreloadSession::instance();
  return session == nullptr || session->yield() ? 1 : 0;
}

int ncclAllReduce(const void* send, void* receive, size_t count, int type,
                  int operation, void* communicator, void* stream) {
  REPRISE_NEXT(ncclAllReduce);
  return reprise::recorded({"AllReduce", communicator, stream, count, type},
                           [&] {
                             return real(send, receive, count, type, operation,
                                         communicator, stream);
                           });
}

int ncclReduce(const void* send, void* receive, size_t count, int type,
               int operation, int root, void* communicator, void* stream) {
  REPRISE_NEXT(ncclReduce);
  return reprise::recorded({"Reduce", communicator, stream, count, type, root},
                           [&] {
                             return real(send, receive, count, type, operation,
                                         root, communicator, stream);
                           });
}

int ncclBcast(void* buffer, size_t count, int type, int root,
              void* communicator, void* stream) {
  REPRISE_NEXT(ncclBcast);
  return reprise::recorded(
      {"Broadcast", communicator, stream, count, type, root},
      [&] { return real(buffer, count, type, root, communicator, stream); });
}

int ncclBroadcast(const void* send, void* receive, size_t count, int type,
                  int root, void* communicator, void* stream) {
  REPRISE_NEXT(ncclBroadcast);
  return reprise::recorded(
      {"Broadcast", communicator, stream, count, type, root}, [&] {
        return real(send, receive, count, type, root, communicator, stream);
      });
}

int ncclAllGather(const void* send, void* receive, size_t count, int type,
                  void* communicator, void* stream) {
  REPRISE_NEXT(ncclAllGather);
  return reprise::recorded(
      {"AllGather", communicator, stream, count, type},
      [&] { return real(send, receive, count, type, communicator, stream); });
}

int ncclReduceScatter(const void* send, void* receive, size_t count, int type,
                      int operation, void* communicator, void* stream) {
  REPRISE_NEXT(ncclReduceScatter);
  return reprise::recorded({"ReduceScatter", communicator, stream, count, type},
                           [&] {
                             return real(send, receive, count, type, operation,
                                         communicator, stream);
                           });
}

int ncclAlltoAll(const void* send, void* receive, size_t count, int type,
                 void* communicator, void* stream) {
  REPRISE_NEXT(ncclAlltoAll);
  return reprise::recorded(
      {"AlltoAll", communicator, stream, count, type},
      [&] { return real(send, receive, count, type, communicator, stream); });
}

int ncclGather(const void* send, void* receive, size_t count, int type,
               int root, void* communicator, void* stream) {
  REPRISE_NEXT(ncclGather);
  return reprise::recorded(
      {"Gather", communicator, stream, count, type, root}, [&] {
        return real(send, receive, count, type, root, communicator, stream);
      });
}

int ncclScatter(const void* send, void* receive, size_t count, int type,
                int root, void* communicator, void* stream) {
  REPRISE_NEXT(ncclScatter);
  return reprise::recorded(
      {"Scatter", communicator, stream, count, type, root}, [&] {
        return real(send, receive, count, type, root, communicator, stream);
      });
}

int ncclSend(const void* buffer, size_t count, int type, int peer,
             void* communicator, void* stream) {
  REPRISE_NEXT(ncclSend);
  return reprise::recorded(
      {"Send", communicator, stream, count, type, peer, true},
      [&] { return real(buffer, count, type, peer, communicator, stream); });
}

int ncclRecv(void* buffer, size_t count, int type, int peer, void* communicator,
             void* stream) {
  REPRISE_NEXT(ncclRecv);
  return reprise::recorded(
      {"Recv", communicator, stream, count, type, peer, true},
      [&] { return real(buffer, count, type, peer, communicator, stream); });
}

int ncclGroupStart() {
  REPRISE_NEXT(ncclGroupStart);
  return reprise::around([&] { return real(); },
                         [](reprise::PreloadSession& session, int64_t start_ns,
                            int64_t) { session.begin_group(start_ns); });
}

int ncclGroupEnd() {
  REPRISE_NEXT(ncclGroupEnd);
  reprise::PreloadSession* session =
      reprise::is_inside ? nullptr : reprise::PreloadSession::instance();
  if (session == nullptr) return real();
  int result = 0;
  {
    const reprise::Inside inside;
    result = real();
  }
  // An error ends the group too.
  const reprise::KeptErrno kept;
  if (session->end_group(reprise::ProcessRecorder::now_ns())) {
    reprise::register_pending(*session);
  }
  return result;
}

int ncclCommInitRank(void** communicator, int ranks, reprise::UniqueId id,
                     int rank) {
  REPRISE_NEXT(ncclCommInitRank);
  return reprise::making(communicator, reprise::stable_hash(&id, sizeof id),
                         nullptr, rank, ranks,
                         [&] { return real(communicator, ranks, id, rank); });
}

int ncclCommInitRankConfig(void** communicator, int ranks, reprise::UniqueId id,
                           int rank, reprise::Config* config) {
  REPRISE_NEXT(ncclCommInitRankConfig);
  return reprise::making(communicator, reprise::stable_hash(&id, sizeof id),
                         reprise::name_in(config), rank, ranks, [&] {
                           return real(communicator, ranks, id, rank, config);
                         });
}

int ncclCommInitRankScalable(void** communicator, int ranks, int rank,
                             int id_count, reprise::UniqueId* ids,
                             reprise::Config* config) {
  REPRISE_NEXT(ncclCommInitRankScalable);
  const uint64_t hash = ids == nullptr || id_count < 1
                            ? 0
                            : reprise::stable_hash(ids, sizeof *ids);
  return reprise::making(
      communicator, hash, reprise::name_in(config), rank, ranks,
      [&] { return real(communicator, ranks, rank, id_count, ids, config); });
}

int ncclCommInitAll(void** communicators, int count, const int* devices) {
  REPRISE_NEXT(ncclCommInitAll);
  return reprise::around(
      [&] { return real(communicators, count, devices); },
      [&](reprise::PreloadSession& session, int64_t start_ns, int64_t) {
        // All ranks are here, so any number that nobody else has will do.
        const int64_t own[] = {start_ns, reprise::ProcessRecorder::thread_id()};
        const uint64_t hash = reprise::stable_hash(own, sizeof own);
        for (int rank = 0; communicators != nullptr && rank < count; ++rank) {
          reprise::register_communicator(
              session, {communicators + rank, hash, "", rank, count});
        }
      });
}

int ncclCommSplit(void* communicator, int color, int key, void** made,
                  reprise::Config* config) {
  REPRISE_NEXT(ncclCommSplit);
  return reprise::making(
      made, reprise::child_hash(communicator, &color, sizeof color),
      reprise::name_in(config), -1, -1,
      [&] { return real(communicator, color, key, made, config); });
}

int ncclCommShrink(void* communicator, int* excluded, int excluded_count,
                   void** made, reprise::Config* config, int flags) {
  REPRISE_NEXT(ncclCommShrink);
  const size_t listed = excluded == nullptr || excluded_count < 0
                            ? 0
                            : static_cast<size_t>(excluded_count);
  return reprise::making(
      made, reprise::child_hash(communicator, excluded, listed * sizeof(int)),
      reprise::name_in(config), -1, -1, [&] {
        return real(communicator, excluded, excluded_count, made, config,
                    flags);
      });
}

int ncclCommDestroy(void* communicator) {
  REPRISE_NEXT(ncclCommDestroy);
  reprise::forget(communicator);
  return real(communicator);
}

int ncclCommAbort(void* communicator) {
  REPRISE_NEXT(ncclCommAbort);
  reprise::forget(communicator);
  return real(communicator);
}

#pragma GCC visibility pop
}
// NOLINTEND(google-objc-function-naming)
