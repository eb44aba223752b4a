// Where the ranks of one communicator of the fake NCCL meet: memory that is
// shared between processes or threads, in a file named by the unique id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace fake_nccl {

/// How long to wait for a peer: FAKE_NCCL_PATIENCE_S, 60 by default.
double patience_s();

/// One rank's place in the room. Calls return false when a peer has aborted or
/// has not come in time.
class Exchange {
 public:
  static constexpr size_t kAreaBytes = 1 << 18;
  static constexpr size_t kMessageBytes = 1 << 14;

  /// Null when the room cannot be made or the peers do not come.
  static std::unique_ptr<Exchange> enter(const std::string& name, int rank,
                                         int ranks);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Returns when all ranks have come.
  bool barrier();
  /// The same in two parts: comes, and asks whether all have.
  uint32_t arrive();
  bool all_arrived(uint32_t round) const;
  /// This rank's memory that all can read between two barriers.
  std::byte* area(int of_rank);

  /// One message at most on its way from each rank to each other.
  bool try_send(int to, const void* data, size_t size_bytes);
  bool try_receive(int from, void* data, size_t size_bytes);

  /// Tries until `done` or the peers are lost.
  bool wait_for(const std::function<bool()>& done);
  void abort();
  bool is_aborted() const;

 private:
  struct Room;
  struct Message;
  Exchange(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  bool map(const std::string& name);
  size_t size_bytes() const;
  Message& message(int from, int to);

  int rank_, ranks_;
  Room* room_ = nullptr;
  std::string path_;
};

}  // namespace fake_nccl
