// Two ranks, each a process, that train six steps: two all-reduces of 100 + s
// floats in step s, then the step's mark, as our trainer makes it. With
// FAKE_CAPTURE, a driver, the calls of step 0 go to a stream that it captures.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" {
struct ncclComm;
struct UniqueId {
  char bytes[128];
};
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(ncclComm**, int, UniqueId, int);
int ncclCommDestroy(ncclComm*);
int ncclAllReduce(const void*, void*, size_t, int, int, ncclComm*, void*);
}

namespace {

constexpr int kRanks = 2, kSteps = 6, kFloat32 = 7;

int train(int rank, const UniqueId& id) {
  const auto mark =
      reinterpret_cast<void (*)(int32_t, int32_t, int64_t, int64_t)>(
          ::dlsym(RTLD_DEFAULT, "reprise_mark_step"));
  const char* driver = std::getenv("FAKE_CAPTURE");
  const bool captures =
      driver != nullptr && ::dlopen(driver, RTLD_NOW) != nullptr;
  ncclComm* communicator = nullptr;
  int failed = ncclCommInitRank(&communicator, kRanks, id, rank);
  for (int step = 0; step < kSteps && failed == 0; ++step) {
    std::vector<float> values(static_cast<size_t>(100 + step), 1.0F);
    void* stream = captures && step == 0 ? reinterpret_cast<void*>(9) : nullptr;
    for (int i = 0; i < 2; ++i) {
      failed |= ncclAllReduce(values.data(), values.data(), values.size(),
                              kFloat32, 0, communicator, stream);
    }
    if (mark != nullptr) mark(step, 0, 10 + step, 20 + step);
  }
  if (communicator != nullptr) failed |= ncclCommDestroy(communicator);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main() {
  UniqueId id;
  if (ncclGetUniqueId(&id) != 0) return 1;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (::fork() == 0) return train(rank, id);
  }
  int failed = 0, status = 0;
  while (::wait(&status) > 0) failed |= status;
  return failed == 0 ? 0 : 1;
}
