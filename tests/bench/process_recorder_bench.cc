// Cost of what runs inside a profiled process: a record and a known name on the
// program's threads, decoding and writing on the writer's.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "profiler/cupti/record_decoder.h"
#include "profiler/process_recorder.h"

namespace reprise {
namespace {

/// A recorder whose writer wakes only when its ring is half full.
class Recording {
 public:
  Recording() {
    std::string name =
        std::filesystem::temp_directory_path() / "process_recorder.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    recorder_ = ProcessRecorder::start({.directory = name, .source = "bench"});
    if (!recorder_) std::abort();
  }
  ~Recording() {
    recorder_.reset();
    std::filesystem::remove_all(directory_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ProcessRecorder& recorder() { return *recorder_; }

 private:
  std::filesystem::path directory_;
  std::unique_ptr<ProcessRecorder> recorder_;
};

constexpr int64_t kBatch = 1 << 14;  // A quarter of the ring.

void BM_Record(benchmark::State& state) {
  Recording recording;
  ProcessRecord record;
  record.kind = RecordKind::kRange;
  while (state.KeepRunningBatch(kBatch)) {
    for (int64_t i = 0; i < kBatch; ++i) {
      record.start_ns = i;
      benchmark::DoNotOptimize(recording.recorder().record(record));
    }
    state.PauseTiming();
    recording.recorder().flush();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Record);

void BM_KnownName(benchmark::State& state) {
  Recording recording;
  const std::string name = "aten::native_layer_norm_backward";
  for (auto _ : state) {
    benchmark::DoNotOptimize(recording.recorder().string_id(name));
  }
}
BENCHMARK(BM_KnownName);

cupti::Result next_kernel(uint8_t* buffer, size_t valid, void** record) {
  constexpr size_t kKernelBytes = 216;  // Of CUDA 13.
  auto* next = static_cast<uint8_t*>(*record);
  next = next == nullptr ? buffer : next + kKernelBytes;
  if (next + kKernelBytes > buffer + valid) return 12;
  *record = next;
  return cupti::kSuccess;
}

/// A buffer's worth of kernels, decoded and written.
void BM_DecodeAndWriteKernel(benchmark::State& state) {
  Recording recording;
  constexpr size_t kKernels = 4'000;
  std::vector<uint8_t> buffer(kKernels * 216);
  for (size_t i = 0; i < kKernels; ++i) {
    cupti::KernelRecord kernel{};
    kernel.kind = cupti::kConcurrentKernel;
    kernel.start = i + 1;
    kernel.end = i + 2;
    kernel.correlation = static_cast<uint32_t>(i);
    kernel.grid[0] = static_cast<int32_t>(i % 50);
    kernel.name = i % 2 == 0 ? "_Z6kernelIfEvPT_" : "ampere_sgemm_128x64_nn";
    std::memcpy(buffer.data() + i * 216, &kernel, sizeof kernel);
  }
  cupti::Functions functions{};
  functions.next_record = next_kernel;
  cupti::RecordDecoder decoder(functions, 130001, 0);
  while (state.KeepRunningBatch(kKernels)) {
    decoder.decode(buffer.data(), buffer.size(), /*is_copy=*/false,
                   recording.recorder());
    recording.recorder().flush();
  }
}
BENCHMARK(BM_DecodeAndWriteKernel);

}  // namespace
}  // namespace reprise

BENCHMARK_MAIN();
