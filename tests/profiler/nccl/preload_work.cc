// A host program's use of NCCL, for the interposer to see: two ranks on threads
// of their own, then both on one. Prints what the calls gave.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
struct ncclComm;
struct UniqueId {
  char bytes[128];
};
/// The start of ncclConfig_t of 2.28.
struct Config {
  size_t size = 104;
  unsigned magic = 0xcafebeef, version = 22809;
  int blocking = 1, cluster = 0, least = 0, most = 0;
  const char* network = nullptr;
  int share = 0, traffic = 0;
  const char* name = nullptr;
  int rest[12] = {};
};
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(ncclComm**, int, UniqueId, int);
int ncclCommInitRankConfig(ncclComm**, int, UniqueId, int, Config*);
int ncclCommInitAll(ncclComm**, int, const int*);
int ncclCommSplit(ncclComm*, int, int, ncclComm**, Config*);
int ncclCommDestroy(ncclComm*);
int ncclCommAbort(ncclComm*);
int ncclAllReduce(const void*, void*, size_t, int, int, ncclComm*, void*);
int ncclReduce(const void*, void*, size_t, int, int, int, ncclComm*, void*);
int ncclBroadcast(const void*, void*, size_t, int, int, ncclComm*, void*);
int ncclBcast(void*, size_t, int, int, ncclComm*, void*);
int ncclAllGather(const void*, void*, size_t, int, ncclComm*, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, ncclComm*, void*);
int ncclAlltoAll(const void*, void*, size_t, int, ncclComm*, void*);
int ncclSend(const void*, size_t, int, int, ncclComm*, void*);
int ncclRecv(void*, size_t, int, int, ncclComm*, void*);
int ncclGroupStart();
int ncclGroupEnd();
}

namespace {

constexpr int kUint8 = 1, kInt32 = 2, kInt64 = 4, kFloat32 = 7, kFloat64 = 8;

/// Results of calls and bytes of buffers, folded into one number.
struct Digest {
  uint64_t value = 1469598103934665603ULL;
  void add(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      value = (value ^ static_cast<const unsigned char*>(data)[i]) *
              1099511628211ULL;
    }
  }
  void add(int result) { add(&result, sizeof result); }
};

void call_everything(int rank, ncclComm* communicator, Digest& digest) {
  std::vector<float> f32(1000, 1.5F * static_cast<float>(rank + 1));
  digest.add(ncclAllReduce(f32.data(), f32.data(), f32.size(), kFloat32, 0,
                           communicator, nullptr));
  digest.add(f32.data(), 4000);
  std::vector<int32_t> s32(10, rank + 7);
  digest.add(ncclBroadcast(s32.data(), s32.data(), 10, kInt32, 1, communicator,
                           nullptr));
  digest.add(ncclBcast(s32.data(), 9, kInt32, 0, communicator, nullptr));
  digest.add(ncclReduce(s32.data(), s32.data(), 8, kInt32, 2, 1, communicator,
                        nullptr));
  digest.add(s32.data(), 40);
  std::vector<int64_t> all(12), own(6, 100 + rank);
  digest.add(
      ncclAllGather(own.data(), all.data(), 6, kInt64, communicator, nullptr));
  digest.add(all.data(), 96);
  digest.add(ncclReduceScatter(all.data(), own.data(), 5, kInt64, 0,
                               communicator, nullptr));
  digest.add(own.data(), 48);
  std::vector<uint8_t> from(8, static_cast<uint8_t>(rank)), to(8);
  digest.add(
      ncclAlltoAll(from.data(), to.data(), 4, kUint8, communicator, nullptr));
  digest.add(to.data(), 8);
  std::vector<double> sent(3, 0.25 + rank), received(3);
  digest.add(ncclGroupStart());
  digest.add(
      ncclSend(sent.data(), 3, kFloat64, 1 - rank, communicator, nullptr));
  digest.add(
      ncclRecv(received.data(), 3, kFloat64, 1 - rank, communicator, nullptr));
  digest.add(ncclGroupEnd());
  digest.add(received.data(), 24);
}

void run_rank(int rank, const UniqueId& id, Digest& digest) {
  Config config;
  config.name = "grads";
  ncclComm *whole = nullptr, *part = nullptr, *none = nullptr;
  digest.add(ncclCommInitRankConfig(&whole, 2, id, rank, &config));
  call_everything(rank, whole, digest);
  digest.add(ncclCommSplit(whole, -1, 0, &none, nullptr));
  // Keys turn the order round: rank 0 is rank 1 of the part.
  digest.add(ncclCommSplit(whole, 4, 1 - rank, &part, nullptr));
  int32_t one = rank + 1;
  digest.add(ncclAllReduce(&one, &one, 1, kInt32, 0, part, nullptr));
  digest.add(one);
  digest.add(none == nullptr ? 0 : 1);
  digest.add(ncclCommDestroy(part));
  digest.add(ncclCommAbort(whole));
  digest.add(ncclAllReduce(&one, &one, 1, kInt32, 0, whole, nullptr));
}

void run_both_on_one_thread(Digest& digest) {
  ncclComm* all[2] = {};
  digest.add(ncclCommInitAll(all, 2, nullptr));
  ncclComm* grouped[2] = {};
  UniqueId id;
  digest.add(ncclGetUniqueId(&id));
  digest.add(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    digest.add(ncclCommInitRank(&grouped[rank], 2, id, rank));
  }
  digest.add(ncclGroupEnd());
  for (ncclComm** pair : {all, grouped}) {
    int32_t values[2] = {3, 4};
    digest.add(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) {
      digest.add(ncclAllReduce(&values[rank], &values[rank], 1, kInt32, 0,
                               pair[rank], nullptr));
    }
    digest.add(ncclGroupEnd());
    digest.add(values, sizeof values);
    for (int rank = 0; rank < 2; ++rank)
      digest.add(ncclCommDestroy(pair[rank]));
  }
}

}  // namespace

extern "C" void reprise_test_nccl_work() {
  UniqueId id;
  if (ncclGetUniqueId(&id) != 0) return;
  Digest digests[2];
  std::thread other([&] { run_rank(1, id, digests[1]); });
  run_rank(0, id, digests[0]);
  other.join();
  run_both_on_one_thread(digests[0]);
  std::printf("%016llx %016llx\n",
              static_cast<unsigned long long>(digests[0].value),
              static_cast<unsigned long long>(digests[1].value));
}
