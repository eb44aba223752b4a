// ProcessGroup over MPI. Waits poll and sleep: ranks that share a core with one
// that still compiles must not burn it.
#include <mpi.h>
#include <unistd.h>

#include <numeric>

#include "profiler/recorder.h"
#include "runtime/process/process_group.h"

namespace reprise {
namespace {

constexpr int kPingTag = 7;
constexpr int kRollCallTag = 8;
constexpr useconds_t kMpiPollMicroseconds = 100;

Status check(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return fail(ErrorKind::kDevice, "{}: {}", what, text);
}

Status wait_asleep(MPI_Request& request) {
  for (;;) {
    int done = 0;
    Status tested =
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!tested || done != 0) return tested;
    ::usleep(kMpiPollMicroseconds);
  }
}

class MpiProcessGroup : public ProcessGroup {
 public:
  MpiProcessGroup() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_,
                        MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local_rank_);
    MPI_Comm_size(host, &local_size_);
    MPI_Comm_free(&host);
  }
  ~MpiProcessGroup() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

  Result<std::vector<std::string>> all_gather(std::string_view bytes) override {
    const size_t ranks = static_cast<size_t>(size_);
    const int length = static_cast<int>(bytes.size());
    std::vector<int> lengths(ranks), offsets(ranks);
    MPI_Request request;
    Status status = check(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1,
                                         MPI_INT, MPI_COMM_WORLD, &request),
                          "MPI_Iallgather");
    if (status) status = wait_asleep(request);
    if (!status) return pass(status.error());
    std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
    std::string all(static_cast<size_t>(offsets.back() + lengths.back()), '\0');
    status = check(MPI_Iallgatherv(bytes.data(), length, MPI_CHAR, all.data(),
                                   lengths.data(), offsets.data(), MPI_CHAR,
                                   MPI_COMM_WORLD, &request),
                   "MPI_Iallgatherv");
    if (status) status = wait_asleep(request);
    if (!status) return pass(status.error());
    std::vector<std::string> result;
    for (size_t r = 0; r < ranks; ++r) {
      result.push_back(all.substr(static_cast<size_t>(offsets[r]),
                                  static_cast<size_t>(lengths[r])));
    }
    return result;
  }

  Result<int64_t> ping(int peer) override {
    int64_t stamp = 0;
    const Status status =
        check(MPI_Sendrecv(&stamp, 0, MPI_INT64_T, peer, kPingTag, &stamp, 1,
                           MPI_INT64_T, peer, kPingTag, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
    if (!status) return pass(status.error());
    return stamp;
  }

  Status answer_ping(int peer) override {
    int64_t stamp = 0;
    Status received = check(MPI_Recv(&stamp, 0, MPI_INT64_T, peer, kPingTag,
                                     MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                            "MPI_Recv");
    if (!received) return received;
    stamp = Recorder::now_ns();
    return check(
        MPI_Send(&stamp, 1, MPI_INT64_T, peer, kPingTag, MPI_COMM_WORLD),
        "MPI_Send");
  }

  std::vector<int> roll_call(double wait_s) override {
    const size_t ranks = static_cast<size_t>(size_);
    std::vector<MPI_Request> sends(ranks), receives(ranks);
    std::vector<bool> present(ranks, false);
    char byte = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const size_t p = static_cast<size_t>(peer);
      MPI_Irecv(&byte, 0, MPI_CHAR, peer, kRollCallTag, MPI_COMM_WORLD,
                &receives[p]);
      MPI_Isend(&byte, 0, MPI_CHAR, peer, kRollCallTag, MPI_COMM_WORLD,
                &sends[p]);
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
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace

Result<std::unique_ptr<ProcessGroup>> make_mpi_process_group() {
  int provided = 0;
  const Status started =
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
            "MPI_Init_thread");
  if (!started) return pass(started.error());
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::make_unique<MpiProcessGroup>();
}

}  // namespace reprise
