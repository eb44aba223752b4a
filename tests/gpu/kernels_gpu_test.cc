// On a GPU, every kernel of every shipped program computes bit for bit what the
// interpreter computes. NVRTC compiles for the device at hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "data/kernel/kernel_parts.h"
#include "runtime/cuda/cubins.h"
#include "runtime/cuda/driver.h"
#include "runtime/kernels/interpreter.h"
#include "runtime/process/thread_setup.h"
#include "tests/runtime/kernels/cuda_program_kernels.h"

namespace reprise {
namespace {

using Bytes = std::vector<char>;

/// Any NaN as one: its sign and payload are the device's own
/// (runtime/cuda/cubins.h).
template <typename Word>
void make_nans_alike(Bytes& bytes, Word magnitude, Word infinity) {
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if ((word & magnitude) <= infinity) continue;
    std::memcpy(bytes.data() + at, &magnitude, sizeof word);
  }
}

void make_nans_alike(Bytes& bytes, PrimitiveType type) {
  if (type == PrimitiveType::kF32)
    make_nans_alike<uint32_t>(bytes, 0x7fffffffU, 0x7f800000U);
  if (type == PrimitiveType::kF64)
    make_nans_alike<uint64_t>(bytes, ~uint64_t{0} >> 1, 0x7ff0ULL << 48);
  if (type == PrimitiveType::kBF16)
    make_nans_alike<uint16_t>(bytes, 0x7fff, 0x7f80);
  if (type == PrimitiveType::kF16)
    make_nans_alike<uint16_t>(bytes, 0x7fff, 0x7c00);
}

/// The first byte that differs, in words; empty: none.
std::string difference(const Bytes& want, const Bytes& got) {
  const auto [a, b] = std::ranges::mismatch(want, got);
  if (a == want.end()) return {};
  size_t differ = 0;
  for (size_t i = 0; i < want.size(); ++i) differ += want[i] != got[i];
  return fmt::format(
      "{} of {} bytes differ, the first at {}: {:02x}, not {:02x}", differ,
      want.size(), a - want.begin(), static_cast<unsigned char>(*b),
      static_cast<unsigned char>(*a));
}

/// Every kernel, or every Nth under slow checkers.
std::vector<Kernel> chosen_kernels() {
  const char* every = std::getenv("REPRISE_EVERY_KERNEL");
  const int stride = every == nullptr ? 1 : std::max(1, std::atoi(every));
  std::vector<Kernel> chosen;
  const std::vector<Kernel> all = program_kernels();
  for (size_t k = 0; k < all.size(); k += static_cast<size_t>(stride))
    chosen.push_back(all[k]);
  return chosen;
}

class KernelsOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = DeviceContext::open(0);
    ASSERT_TRUE(opened) << opened.error().message;
    context_ = *opened;
    auto stream = make_stream(driver(), false);
    ASSERT_TRUE(stream) << stream.error().message;
    stream_ = std::move(*stream);
  }
  const Driver& driver() const { return context_->driver(); }

  Result<DeviceMemory> upload(const Bytes& bytes) {
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(driver(), bytes.size());
    if (!memory || bytes.empty()) return memory;
    const Status copied = write_device(driver(), memory->address(),
                                       std::as_bytes(std::span(bytes)));
    if (!copied) return pass(copied.error());
    return memory;
  }

  /// Runs the launches of a kernel in order on one stream.
  Status launch(const CubinKernel& shape, CUmodule module,
                std::vector<CUdeviceptr> addresses) {
    addresses.push_back(0);  // The first block: no two arguments share memory.
    std::vector<void*> parameters;
    for (CUdeviceptr& address : addresses) parameters.push_back(&address);
    for (const PrintedLaunch& one : shape.launches) {
      CUfunction function = nullptr;
      Status done = driver().check(
          driver().module_get_function(&function, module, one.entry.c_str()),
          "cuModuleGetFunction");
      if (!done) return done;
      done = driver().check(
          driver().launch_kernel(function, one.grid_blocks, 1, 1,
                                 one.block_threads, 1, 1, 0, stream_.get(),
                                 parameters.data(), nullptr),
          one.entry);
      if (!done) return done;
    }
    return driver().check(driver().stream_synchronize(stream_.get()),
                          "cuStreamSynchronize");
  }

  /// Outputs of a kernel on the device.
  void run(const CubinKernel& shape, CUmodule module,
           std::vector<Bytes>& memory) {
    std::vector<DeviceMemory> device;
    std::vector<CUdeviceptr> addresses;
    const Bytes workspace(static_cast<size_t>(shape.workspace_bytes), 0x7f);
    for (size_t i = 0; i <= memory.size(); ++i) {
      Result<DeviceMemory> one =
          upload(i < memory.size() ? memory[i] : workspace);
      ASSERT_TRUE(one) << one.error().message;
      addresses.push_back(one->address());
      device.push_back(std::move(*one));
    }
    const Status launched = launch(shape, module, addresses);
    ASSERT_TRUE(launched) << launched.error().message;
    for (size_t i = 0; i < memory.size(); ++i) {
      const Status copied =
          driver().check(driver().copy_to_host(memory[i].data(), addresses[i],
                                               memory[i].size()),
                         "cuMemcpyDtoH");
      ASSERT_TRUE(copied) << copied.error().message;
    }
  }

  std::shared_ptr<const DeviceContext> context_;
  CudaStream stream_;
};

TEST_F(KernelsOnGpu, ComputeTheBitsOfTheInterpreter) {
  // As the threads of the CPU runtime compute, and the cubins.
  flush_denormals();
  const std::vector<Kernel> kernels = chosen_kernels();
  const Result<Cubins> cubins = compile_cubins(
      kernels, context_->architecture(),
      {.jobs = static_cast<int>(std::thread::hardware_concurrency())});
  ASSERT_TRUE(cubins) << cubins.error().message;
  std::vector<CudaModule> modules;
  for (const std::string& image : cubins->images) {
    CUmodule module = nullptr;
    const Status loaded = driver().check(
        driver().module_load_data(&module, image.data()), "cuModuleLoadData");
    ASSERT_TRUE(loaded) << loaded.error().message;
    modules.emplace_back(
        module, DriverDeleter<CUmod_st>{&driver(), &Driver::module_unload});
  }
  std::mt19937_64 generator(5);
  std::set<size_t> different;
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::vector<Bytes> want;
    for (const KernelArgument& argument : kernels[k].arguments)
      want.push_back(random_argument(argument, generator));
    std::vector<Bytes> got = want;
    std::vector<void*> pointers;
    for (Bytes& bytes : want) pointers.push_back(bytes.data());
    interpret_kernel(kernels[k], pointers.data(), 0,
                     kernel_iterations(kernels[k]));
    run(cubins->kernels[k], modules[cubins->kernels[k].image].get(), got);
    if (HasFatalFailure()) return;
    for (size_t a = 0; a < want.size(); ++a) {
      make_nans_alike(want[a], kernels[k].arguments[a].type);
      make_nans_alike(got[a], kernels[k].arguments[a].type);
      const std::string off = difference(want[a], got[a]);
      if (off.empty()) continue;
      different.insert(k);
      // The first few tell: what is wrong in one is wrong in many.
      if (different.size() > 3) continue;
      ADD_FAILURE() << "argument " << a << ": " << off << "\n"
                    << kernel_text(kernels[k]);
    }
  }
  EXPECT_TRUE(different.empty())
      << different.size() << " of " << kernels.size() << " kernels differ";
  RecordProperty("kernels", static_cast<int>(kernels.size()));
  RecordProperty("device", context_->name());
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const auto driver = reprise::Driver::load(); !driver) {
    std::printf("skipped: %s\n", driver.error().message.c_str());
    const char* required = std::getenv("REPRISE_REQUIRE_GPU");
    return required != nullptr && required[0] == '1' ? 1 : 77;
  }
  return RUN_ALL_TESTS();
}
