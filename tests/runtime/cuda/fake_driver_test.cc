// The fake driver must notice what it is there to notice.
#include "tests/runtime/cuda/fake_driver.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/cuda/driver.h"

namespace reprise {
namespace {

constexpr size_t kBytes = 4096;

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda_clear();
    const Result<const Driver*> loaded = Driver::load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    driver_ = *loaded;
    const auto context = DeviceContext::open(0);
    ASSERT_TRUE(context) << context.error().message;
    context_ = *context;
    before_ = fake_cuda_live_objects();
  }

  const Driver& driver() const { return *driver_; }
  std::string report() const { return fake_cuda_report(); }
  int leaked() const { return fake_cuda_live_objects() - before_; }

  const Driver* driver_ = nullptr;
  std::shared_ptr<const DeviceContext> context_;
  int before_ = 0;
};

/// Copies 1s to the device on one stream and back on another.
/// `joined`: the second waits for the first.
bool second_stream_sees_the_first(const Driver& driver, bool joined,
                                  uint64_t seed) {
  fake_cuda_seed(seed);
  const auto first = make_stream(driver, false),
             second = make_stream(driver, true);
  const auto event = make_event(driver, false);
  const auto memory = DeviceMemory::allocate(driver, kBytes);
  const auto from = PinnedMemory::allocate(driver, kBytes),
             to = PinnedMemory::allocate(driver, kBytes);
  std::memset(from->bytes().data(), 1, kBytes);
  driver.copy_to_device_async(memory->address(), from->bytes().data(), kBytes,
                              first->get());
  driver.event_record(event->get(), first->get());
  if (joined) driver.stream_wait_event(second->get(), event->get(), 0);
  driver.copy_to_host_async(to->bytes().data(), memory->address(), kBytes,
                            second->get());
  driver.stream_synchronize(second->get());
  driver.stream_synchronize(first->get());
  return std::memcmp(from->bytes().data(), to->bytes().data(), kBytes) == 0;
}

TEST_F(FakeDriver, GivesAWrongAnswerWhereAnEventEdgeIsMissing) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(second_stream_sees_the_first(driver(), true, seed)) << seed;
    if (!second_stream_sees_the_first(driver(), false, seed)) ++wrong;
  }
  // Half of the orders run the second stream first, were they drawn evenly.
  EXPECT_GE(wrong, 3);
  EXPECT_EQ(report(), "");
  EXPECT_EQ(leaked(), 0);
}

TEST_F(FakeDriver, RunsNothingBeforeSomebodyWaits) {
  const auto stream = make_stream(driver(), false);
  const auto memory = DeviceMemory::allocate(driver(), kBytes);
  const auto staging = PinnedMemory::allocate(driver(), kBytes);
  std::memset(staging->bytes().data(), 1, kBytes);
  driver().copy_to_device_async(memory->address(), staging->bytes().data(),
                                kBytes, stream->get());
  // Overwritten before the copy ran: the copy sees it.
  std::memset(staging->bytes().data(), 2, kBytes);
  driver().stream_synchronize(stream->get());
  std::vector<char> back(kBytes);
  driver().copy_to_host(back.data(), memory->address(), kBytes);
  EXPECT_EQ(back[0], 2);
}

TEST_F(FakeDriver, NoticesLeaksAndUseAfterFree) {
  CUdeviceptr address = 0;
  ASSERT_EQ(driver().memory_allocate(&address, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(leaked(), 1);
  ASSERT_EQ(driver().memory_free(address), CUDA_SUCCESS);
  EXPECT_EQ(leaked(), 0);
  std::vector<char> back(kBytes);
  EXPECT_EQ(driver().copy_to_host(back.data(), address, kBytes),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(report(), "cuMemcpyDtoH of 4096 bytes outside device memory\n");
}

TEST_F(FakeDriver, NoticesCopiesOutOfBounds) {
  const auto memory = DeviceMemory::allocate(driver(), kBytes);
  std::vector<char> back(2 * kBytes);
  EXPECT_EQ(driver().copy_to_host(back.data(), memory->address() + 256, kBytes),
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeDriver, NoticesAStreamThatACaptureDoesNotJoin) {
  for (const bool joined : {true, false}) {
    const auto origin = make_stream(driver(), false),
               other = make_stream(driver(), false);
    const auto fork = make_event(driver(), false),
               join = make_event(driver(), false);
    const auto memory = DeviceMemory::allocate(driver(), kBytes);
    ASSERT_EQ(driver().stream_begin_capture(
                  origin->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    driver().event_record(fork->get(), origin->get());
    driver().stream_wait_event(other->get(), fork->get(), 0);
    driver().memset_async(memory->address(), 7, kBytes, other->get());
    driver().event_record(join->get(), other->get());
    if (joined) driver().stream_wait_event(origin->get(), join->get(), 0);
    CUgraph graph = nullptr;
    EXPECT_EQ(driver().stream_end_capture(origin->get(), &graph),
              joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (graph != nullptr) driver().graph_destroy(graph);
  }
  EXPECT_EQ(leaked(), 0);
}

TEST_F(FakeDriver, ReplaysWhatWasCaptured) {
  const auto stream = make_stream(driver(), false);
  const auto memory = DeviceMemory::allocate(driver(), kBytes);
  const auto staging = PinnedMemory::allocate(driver(), kBytes);
  driver().stream_begin_capture(stream->get(),
                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  driver().copy_to_device_async(memory->address(), staging->bytes().data(),
                                kBytes, stream->get());
  CUgraph graph = nullptr;
  ASSERT_EQ(driver().stream_end_capture(stream->get(), &graph), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(driver().graph_instantiate(&executable, graph, 0), CUDA_SUCCESS);
  driver().graph_destroy(graph);
  for (const int value : {3, 4}) {
    std::memset(staging->bytes().data(), value, kBytes);
    ASSERT_EQ(driver().graph_launch(executable, stream->get()), CUDA_SUCCESS);
    driver().stream_synchronize(stream->get());
    std::vector<char> back(kBytes);
    driver().copy_to_host(back.data(), memory->address(), kBytes);
    EXPECT_EQ(back[kBytes - 1], value);
  }
  driver().graph_executable_destroy(executable);
}

TEST_F(FakeDriver, FailsWhereItIsTold) {
  fake_cuda_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const auto first = DeviceMemory::allocate(driver(), kBytes),
             second = DeviceMemory::allocate(driver(), kBytes);
  ASSERT_TRUE(first);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kDevice);
  EXPECT_EQ(second.error().message,
            "4096 bytes: cuMemAlloc: FAKE_ERROR_2 (2), an error of the fake "
            "driver");
}

// What the documentation forbids is reported, and so fails the test that does
// it: no test of the runtime passes by the fake's leniency.
TEST_F(FakeDriver, ReportsWhatTheDocumentationForbids) {
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  void* host = nullptr;
  CUevent event = nullptr;
  const auto plain = make_event(driver(), /*timed=*/false);
  float milliseconds = 0;
  const std::pair<const char*, std::function<CUresult()>> misuses[] = {
      {"cuMemAlloc", [&] { return driver().memory_allocate(&address, 0); }},
      {"cuMemHostAlloc", [&] { return driver().host_allocate(&host, 8, 64); }},
      {"cuStreamCreateWithPriority",
       [&] { return driver().stream_create(&stream, 0, 7); }},
      {"cuEventCreate", [&] { return driver().event_create(&event, 64); }},
      {"cuEventElapsedTime",
       [&] {
         return driver().event_elapsed_time(&milliseconds, plain->get(),
                                            plain->get());
       }},
      {"outside page-locked memory",
       [&] { return driver().stream_write_value(nullptr, 64, 1, 0); }},
  };
  for (const auto& [what, misuse] : misuses) {
    fake_cuda_clear();
    EXPECT_NE(misuse(), CUDA_SUCCESS) << what;
    EXPECT_NE(std::string(fake_cuda_report()).find(what), std::string::npos)
        << what << ": " << fake_cuda_report();
  }
  std::thread([&] {
    fake_cuda_clear();
    EXPECT_EQ(driver().memory_allocate(&address, 8),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_NE(std::string(fake_cuda_report()).find("without a current context"),
              std::string::npos);
  }).join();
  fake_cuda_clear();
}

}  // namespace
}  // namespace reprise
