// ProcessGroup over MPI. Waits poll and sleep: ranks that share a core with one
// that still compiles must not burn it. A thread of each rank sends a sign of
// life now and then, so that who compiles for minutes is told from who is
// stopped; it and the main thread take turns at MPI (MPI_THREAD_SERIALIZED).
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "profiler/recorder.h"
#include "runtime/process/process_group.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

enum Tag : int { kPing = 7, kRollCall = 8, kGather = 9, kSignOfLife = 10 };
constexpr useconds_t kMpiPollMicroseconds = 100;
/// Before polls sleep: what a ping takes must not depend on how they do.
constexpr std::chrono::milliseconds kSpinning{20};
/// Of the time limit, between two signs of life.
constexpr double kSignShare = 0.1;

Status check(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return fail(ErrorKind::kDevice, "{}: {}", what, text);
}

/// Bytes to or from one peer, underway.
struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  int peer = 0;
  bool begun = false, done = false;
};

class MpiProcessGroup : public ProcessGroup {
 public:
  explicit MpiProcessGroup(double timeout_s) : timeout_(timeout_s) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_,
                        MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local_rank_);
    MPI_Comm_size(host, &local_size_);
    MPI_Comm_free(&host);
    heard_.assign(static_cast<size_t>(size_), Clock::now());
    signs_ = std::thread([this] { give_signs(); });
  }
  ~MpiProcessGroup() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_one();
    signs_.join();
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

  Result<std::vector<std::string>> all_gather(std::string_view bytes) override {
    std::vector<std::string> result(static_cast<size_t>(size_));
    result[static_cast<size_t>(rank_)] = bytes;
    std::vector<Transfer> sends, receives;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      sends.push_back({.peer = peer});
      receives.push_back({.peer = peer});
    }
    const Status done = wait_for([&]() -> Result<int> {
      for (Transfer& send : sends) {
        Status sent = advance_send(send, bytes);
        if (!sent) return pass(sent.error());
      }
      for (Transfer& receive : receives) {
        Status got =
            advance_receive(receive, result[static_cast<size_t>(receive.peer)]);
        if (!got) return pass(got.error());
      }
      for (const auto* transfers : {&receives, &sends}) {
        for (const Transfer& each : *transfers) {
          if (!each.done) return each.peer;
        }
      }
      return rank_;
    });
    if (!done) return pass(done.error());
    return result;
  }

  Result<int64_t> ping(int peer) override {
    int64_t stamp = 0;
    Status sent = exchange(peer, {.sends = true});
    if (sent) sent = exchange(peer, {.value = &stamp});
    if (!sent) return pass(sent.error());
    return stamp;
  }

  Status answer_ping(int peer) override {
    Status asked = exchange(peer, {});
    if (!asked) return asked;
    int64_t stamp = Recorder::now_ns();
    return exchange(peer, {.value = &stamp, .sends = true});
  }

  std::vector<int> roll_call(double wait_s) override {
    const size_t ranks = static_cast<size_t>(size_);
    std::vector<MPI_Request> sends(ranks), receives(ranks);
    std::vector<bool> present(ranks, false);
    char byte = 0;
    std::unique_lock lock(mutex_);
    for (int peer = 0; peer < size_; ++peer) {
      const size_t p = static_cast<size_t>(peer);
      MPI_Irecv(&byte, 0, MPI_CHAR, peer, kRollCall, MPI_COMM_WORLD,
                &receives[p]);
      MPI_Isend(&byte, 0, MPI_CHAR, peer, kRollCall, MPI_COMM_WORLD, &sends[p]);
    }
    for (double waited = 0; waited < wait_s; waited += 1e-3) {
      for (size_t p = 0; p < ranks; ++p) {
        int done = 0;
        if (present[p]) continue;
        MPI_Test(&receives[p], &done, MPI_STATUS_IGNORE);
        present[p] = done != 0;
      }
      ::usleep(1000);
    }
    std::vector<int> missing;
    for (size_t p = 0; p < ranks; ++p) {
      if (!present[p]) missing.push_back(static_cast<int>(p));
    }
    return missing;
  }

  void abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  /// One message of a ping: `value`, or nothing.
  struct Message {
    int64_t* value = nullptr;
    bool sends = false;
  };

  void give_signs() {
    const auto period = std::chrono::duration<double>(timeout_ * kSignShare);
    std::unique_lock lock(mutex_);
    while (!ending_) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        MPI_Request request;
        if (MPI_Isend(nullptr, 0, MPI_CHAR, peer, kSignOfLife, MPI_COMM_WORLD,
                      &request) == MPI_SUCCESS) {
          MPI_Request_free(&request);
        }
      }
      hear_signs();
      wake_.wait_for(lock, period);
    }
  }

  /// Requires: the lock.
  void hear_signs() {
    for (;;) {
      int found = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, kSignOfLife, MPI_COMM_WORLD, &found,
                     &status) != MPI_SUCCESS ||
          found == 0) {
        return;
      }
      MPI_Recv(nullptr, 0, MPI_CHAR, status.MPI_SOURCE, kSignOfLife,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      heard_[static_cast<size_t>(status.MPI_SOURCE)] = Clock::now();
    }
  }

  /// Calls `poll`, locked, until it returns this rank; it returns who is waited
  /// for. Errors: its own; kDevice when that one gives no sign of life.
  template <typename Poll>
  Status wait_for(Poll poll, Clock::duration spinning = {}) {
    const Clock::time_point sleep_from = Clock::now() + spinning;
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        const Result<int> peer = poll();
        if (!peer) return pass(peer.error());
        if (*peer == rank_) return {};
        hear_signs();
        const std::chrono::duration<double> silence =
            Clock::now() - heard_[static_cast<size_t>(*peer)];
        if (silence.count() > timeout_) {
          return fail(ErrorKind::kDevice,
                      "rank {} was lost or stopped: no sign of life for {} s "
                      "before the first step or after the last",
                      *peer, timeout_);
        }
      }
      if (Clock::now() >= sleep_from) ::usleep(kMpiPollMicroseconds);
    }
  }

  static Status advance_send(Transfer& send, std::string_view bytes) {
    if (!send.begun) {
      send.begun = true;
      Status begun = check(
          MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_CHAR,
                    send.peer, kGather, MPI_COMM_WORLD, &send.request),
          "MPI_Isend");
      if (!begun) return begun;
    }
    return test(send);
  }

  static Status advance_receive(Transfer& receive, std::string& bytes) {
    if (!receive.begun) {
      int found = 0, size = 0;
      MPI_Status status;
      Status probed = check(
          MPI_Iprobe(receive.peer, kGather, MPI_COMM_WORLD, &found, &status),
          "MPI_Iprobe");
      if (!probed || found == 0) return probed;
      MPI_Get_count(&status, MPI_CHAR, &size);
      bytes.resize(static_cast<size_t>(size));
      receive.begun = true;
      Status begun = check(MPI_Irecv(bytes.data(), size, MPI_CHAR, receive.peer,
                                     kGather, MPI_COMM_WORLD, &receive.request),
                           "MPI_Irecv");
      if (!begun) return begun;
    }
    return test(receive);
  }

  static Status test(Transfer& transfer) {
    if (transfer.done) return {};
    int done = 0;
    Status tested = check(MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE),
                          "MPI_Test");
    transfer.done = done != 0;
    return tested;
  }

  Status exchange(int peer, const Message& message) {
    Transfer transfer{.peer = peer};
    const int count = message.value != nullptr ? 1 : 0;
    return wait_for(
        [&]() -> Result<int> {
          Status status;
          if (!transfer.begun) {
            transfer.begun = true;
            status =
                check(message.sends
                          ? MPI_Isend(message.value, count, MPI_INT64_T, peer,
                                      kPing, MPI_COMM_WORLD, &transfer.request)
                          : MPI_Irecv(message.value, count, MPI_INT64_T, peer,
                                      kPing, MPI_COMM_WORLD, &transfer.request),
                      "a ping");
          }
          if (status) status = test(transfer);
          if (!status) return pass(status.error());
          return transfer.done ? rank_ : peer;
        },
        kSpinning);
  }

  const double timeout_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::mutex mutex_;  ///< Held by who calls MPI.
  std::condition_variable wake_;
  bool ending_ = false;
  std::vector<Clock::time_point> heard_;  ///< [peer]
  std::thread signs_;
};

}  // namespace

Result<std::unique_ptr<ProcessGroup>> make_mpi_process_group(double timeout_s) {
  int provided = 0;
  const Status started =
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
            "MPI_Init_thread");
  if (!started) return pass(started.error());
  if (provided < MPI_THREAD_SERIALIZED) {
    return fail(ErrorKind::kDevice,
                "this MPI serves one thread only (MPI_THREAD_SERIALIZED)");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::make_unique<MpiProcessGroup>(timeout_s);
}

}  // namespace reprise
