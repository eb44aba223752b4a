// Calls of the fake NCCL: what a group gathers, what its profiler plugin hears
// of it, and the exchange that does it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/profiler/fake_nccl/exchange.h"

/// ncclComm_t.
struct ncclComm {
  std::unique_ptr<fake_nccl::Exchange> exchange;
  uint64_t hash = 0;
  void* profiler = nullptr;  ///< The plugin's context.
  int collectives = 0;       ///< Given to the plugin, per function really.
  int splits = 0;
  int asynchronous_error = 0;
};

namespace fake_nccl {

inline constexpr int kRemoteError = 6;  ///< Of ncclResult_t.

enum class Function {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAlltoAll,
  kSend,
  kRecv,
};
const char* word(Function function);

/// One call, as the host program made it.
struct Work {
  Function function{};
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  int data_type = 0, operation = 0;
  int peer = 0;  ///< Or the root.
  ncclComm* communicator = nullptr;
  void* stream = nullptr;
  void* api = nullptr;  ///< The plugin's handle.
};

/// All calls of one communicator's group, done in steps that wait for nobody.
class Performance {
 public:
  explicit Performance(std::vector<Work> group) : group_(std::move(group)) {}

  /// Does what can be done now. True at the end, or when a peer is lost, which
  /// becomes the communicator's asynchronous error.
  bool advance();
  /// Waits for the end.
  void finish();
  /// To be done again, as a graph's node is.
  void restart() { *this = Performance(std::move(group_)); }

 private:
  /// A send's or receive's bytes that are done.
  struct Message {
    const Work* work;
    size_t done_bytes = 0, size_bytes = 0;
  };
  bool advance_collective();
  bool advance_messages();
  void write_slice(const Work& work);
  void read_slice(const Work& work);
  bool is_late();

  std::vector<Work> group_;
  size_t current_ = 0;  ///< Place of the collective that is done now,
  size_t at_ = 0;       ///< and the elements of it that are.
  /// 0: to write a slice, 1: wait to read it, 2: wait for all to have read.
  int phase_ = 0;
  uint32_t round_ = 0;
  bool has_messages_ = false;
  std::vector<Message> messages_;
  std::chrono::steady_clock::time_point begin_{};
};

/// What the plugin hears when the host program makes a call, and when the group
/// with it is launched.
void announce_call(Work& work, void* group_api);
void announce_launch(const std::vector<Work>& group);

}  // namespace fake_nccl
