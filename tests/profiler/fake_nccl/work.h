// Calls of the fake NCCL: what a group gathers, what its profiler plugin hears
// of it, and the exchange that does it.
#pragma once

#include <cstddef>
#include <memory>
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

/// Does all calls of one communicator's group, now. False when a peer is lost.
bool perform(const std::vector<Work>& group);

/// What the plugin hears when the host program makes a call, and when the group
/// with it is launched.
void announce_call(Work& work, void* group_api);
void announce_launch(const std::vector<Work>& group);

}  // namespace fake_nccl
