#include "tests/runtime/kernels/cuda_twin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <fstream>

#include "tests/testing/directories.h"

namespace reprise {
Result<std::shared_ptr<void>> load_twin(const std::string& image) {
  char path[] = "/tmp/reprise_twin_XXXXXX";
  const int file = ::mkstemp(path);
  if (file < 0) return fail(ErrorKind::kIo, "no temporary file");
  ::close(file);
  std::ofstream(path, std::ios::binary) << image;
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ::unlink(path);
  if (handle == nullptr) return fail(ErrorKind::kDevice, "{}", ::dlerror());
  return std::shared_ptr<void>(handle, [](void* open) { ::dlclose(open); });
}

Result<CudaTwins> CudaTwins::make(std::span<const Kernel> kernels) {
  CudaTwins twins;
  Result<Cubins> cubins =
      compile_cubins(kernels, 90,
                     {.cache_directory = build_directory() + "/kernel_cache",
                      .nvrtc_search = {.only = REPRISE_FAKE_NVRTC}});
  if (!cubins) return pass(cubins.error());
  twins.cubins_ = std::move(*cubins);
  for (const std::string& image : twins.cubins_.images) {
    Result<std::shared_ptr<void>> library = load_twin(image);
    if (!library) return pass(library.error());
    twins.libraries_.push_back(std::move(*library));
  }
  for (const Kernel& kernel : kernels) {
    std::vector<uint64_t>& sizes = twins.sizes_.emplace_back();
    for (const KernelArgument& argument : kernel.arguments) {
      sizes.push_back(static_cast<uint64_t>(argument.elements) *
                      primitive_type_bits(argument.type) / 8);
    }
  }
  for (const CubinKernel& kernel : twins.cubins_.kernels) {
    twins.entries_.emplace_back();
    for (const PrintedLaunch& launch : kernel.launches) {
      void* entry =
          ::dlsym(twins.libraries_[kernel.image].get(), launch.entry.c_str());
      if (entry == nullptr)
        return fail(ErrorKind::kDevice, "no entry {}", launch.entry);
      twins.entries_.back().push_back(reinterpret_cast<Entry>(entry));
    }
  }
  return twins;
}

void CudaTwins::run(size_t kernel, std::span<void* const> arguments) const {
  const CubinKernel& shape = cubins_.kernels[kernel];
  // Aligned to 256, as the contract of cubins.h promises.
  std::vector<char> memory(static_cast<size_t>(shape.workspace_bytes) + 256,
                           0x7f);
  const size_t odd = reinterpret_cast<uintptr_t>(memory.data()) % 256;
  std::vector<void*> parameters(arguments.begin(), arguments.end());
  parameters.push_back(memory.data() + (odd == 0 ? 0 : 256 - odd));
  std::vector<ArgumentPlace> places;
  for (size_t i = 0; i < arguments.size(); ++i) {
    places.push_back({.address = reinterpret_cast<uintptr_t>(arguments[i]),
                      .size_bytes = sizes_[kernel][i]});
  }
  parameters.push_back(nullptr);
  for (const LaunchedBlocks& blocks : launched_blocks(shape, places)) {
    parameters.back() = reinterpret_cast<void*>(uintptr_t{blocks.first_block});
    entries_[kernel][blocks.launch](parameters.data(), blocks.blocks);
  }
}

}  // namespace reprise
