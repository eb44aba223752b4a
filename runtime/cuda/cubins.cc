// Kernels that are not in the cache are compiled together, in as many batches
// as there are threads, each with its share of large ones; few are one batch,
// since a second compilation would not pay. Where a batch fails its kernels are
// compiled alone, to name the one at fault. Registers and spills of each entry
// are read from the log of ptxas.
#include "runtime/cuda/cubins.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "data/file.h"
#include "data/sha256.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/kernels/compile_cache.h"
#include "runtime/kernels/print_cuda.h"

namespace reprise {
namespace {

/// Kernels of one image; below kSmallBatch a second compilation does not pay.
constexpr size_t kMaxBatch = 48;
constexpr size_t kSmallBatch = 4;

/// No contraction; division and root as IEEE 754 rounds them; denormals flushed
/// as the CPU runtime's threads flush them.
std::vector<std::string> options_for(int architecture) {
  return {fmt::format("--gpu-architecture=sm_{}", architecture),
          "--std=c++17",
          "--device-as-default-execution-space",
          "--fmad=false",
          "--ftz=true",
          "--prec-div=true",
          "--prec-sqrt=true",
          "--diag-suppress=177",  // An unused function of the prelude.
          "--ptxas-options=-v"};
}

/// One kernel: what to compile and how to launch it.
struct Job {
  std::string key;  ///< Digest of the text under a fixed name.
  PrintedCudaKernel printed;
  const Kernel* kernel = nullptr;
};

struct Batch {
  std::vector<const Job*> jobs;
  Result<NvrtcImage> image;
};

Job make_job(const Kernel& kernel) {
  Job job;
  job.kernel = &kernel;
  job.key = sha256_hex(print_cuda_kernel(kernel, "k").text);
  job.printed = print_cuda_kernel(kernel, "k_" + job.key.substr(0, 16));
  return job;
}

std::string describe(const Kernel& kernel) {
  std::string text = "the kernel that writes";
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.is_output)
      text += fmt::format(
          " instruction {} ({}[{}])", index_of(argument.instruction),
          primitive_type_name(argument.type), argument.elements);
  }
  return text;
}

void compile_batch(const Nvrtc& nvrtc, const std::vector<std::string>& options,
                   Batch& batch) {
  const std::string prelude = cuda_prelude();
  std::string text = prelude;
  for (const Job* job : batch.jobs) text += job->printed.text;
  batch.image = nvrtc.compile(text, options);
  if (batch.image) return;
  // One by one, to name the kernel.
  for (const Job* job : batch.jobs) {
    const Result<NvrtcImage> alone =
        nvrtc.compile(prelude + job->printed.text, options);
    if (alone) continue;
    batch.image = fail(ErrorKind::kDevice, "{}: {}", describe(*job->kernel),
                       alone.error().message);
    return;
  }
}

std::vector<Batch> make_batches(const std::vector<Job>& jobs,
                                const CompileCache& cache, size_t threads) {
  std::vector<const Job*> missing;
  std::map<std::string, bool> seen;
  for (const Job& job : jobs) {
    if (cache.find(job.key) == nullptr && seen.emplace(job.key, true).second)
      missing.push_back(&job);
  }
  size_t count = missing.size() <= kSmallBatch ? 1 : threads;
  count = std::max(count, (missing.size() + kMaxBatch - 1) / kMaxBatch);
  std::vector<Batch> batches;
  for (size_t first = 0; first < count; ++first) {
    Batch batch;
    // Strided, so that every batch gets its share of large kernels.
    for (size_t i = first; i < missing.size(); i += count)
      batch.jobs.push_back(missing[i]);
    if (!batch.jobs.empty()) batches.push_back(std::move(batch));
  }
  return batches;
}

void compile_all(const Nvrtc& nvrtc, const std::vector<std::string>& options,
                 std::vector<Batch>& batches, size_t threads) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < batches.size(); i = next++)
      compile_batch(nvrtc, options, batches[i]);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(threads, batches.size()); ++i)
    others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

/// The number before `word` in a line, or 0.
int64_t number_before(const std::string& line, const std::string& word) {
  const size_t end = line.find(word);
  if (end == std::string::npos) return 0;
  size_t start = end;
  while (start > 0 && line[start - 1] == ' ') --start;
  const size_t stop = start;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9') --start;
  int64_t number = 0;
  for (size_t i = start; i < stop; ++i) number = 10 * number + (line[i] - '0');
  return number;
}

/// Reads ptxas's lines on each entry.
void add_resources(const std::string& log, std::vector<CubinResources>& found) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  CubinResources* last = nullptr;
  for (size_t start = 0; start < log.size();) {
    const size_t end = std::min(log.find('\n', start), log.size());
    const std::string line = log.substr(start, end - start);
    start = end + 1;
    if (const size_t at = line.find(kEntry); at != std::string::npos) {
      const size_t name = at + kEntry.size();
      found.push_back(
          {.entry = line.substr(name, line.find('\'', name) - name)});
      last = &found.back();
    } else if (last == nullptr) {
      continue;
    } else if (line.find("bytes stack frame") != std::string::npos) {
      last->stack_bytes = number_before(line, "bytes stack frame");
      last->spill_store_bytes = number_before(line, "bytes spill stores");
      last->spill_load_bytes = number_before(line, "bytes spill loads");
    } else if (line.find(" registers") != std::string::npos) {
      last->registers = number_before(line, "registers");
    }
  }
}

/// Puts images that the batches made into the cache.
Status keep(std::vector<Batch>& batches, CompileCache& cache, Cubins& cubins) {
  for (Batch& batch : batches) {
    if (!batch.image) return pass(batch.image.error());
    const std::string file = cache.temporary_name(".cubin");
    if (const Status written = write_file_atomically(file, batch.image->cubin);
        !written) {
      return fail(ErrorKind::kDevice, "{}", written.error().message);
    }
    std::vector<std::string> keys;
    for (const Job* job : batch.jobs) keys.push_back(job->key);
    if (Status added = cache.add(file, keys); !added) return added;
    add_resources(batch.image->log, cubins.resources);
    cubins.compiled += static_cast<int>(batch.jobs.size());
  }
  return {};
}

Status load_images(const std::vector<Job>& jobs, const CompileCache& cache,
                   Cubins& cubins) {
  std::map<std::string, size_t> loaded;
  for (const Job& job : jobs) {
    const std::string& hash = *cache.find(job.key);
    const auto [place, is_new] = loaded.emplace(hash, cubins.images.size());
    if (is_new) {
      const Result<std::string> path = cache.checked_path(hash);
      if (!path) return pass(path.error());
      Result<std::string> bytes = read_file(*path);
      if (!bytes) return fail(ErrorKind::kDevice, "{}", bytes.error().message);
      cubins.images.push_back(std::move(*bytes));
    }
    CubinKernel kernel;
    kernel.image = place->second;
    kernel.workspace_bytes = job.printed.workspace_bytes;
    kernel.launches = job.printed.launches;
    cubins.kernels.push_back(std::move(kernel));
  }
  return {};
}

Result<Cubins> compile_with(const Nvrtc& nvrtc, std::span<const Kernel> kernels,
                            int architecture, const CubinOptions& options) {
  const std::vector<std::string> flags = options_for(architecture);
  std::string environment = "nvrtc " + nvrtc.version() + cuda_prelude();
  for (const std::string& flag : flags) environment += flag;
  Result<CompileCache> cache = CompileCache::open(
      options.cache_directory.empty() ? default_cache_directory()
                                      : options.cache_directory,
      sha256_hex(environment));
  if (!cache) return pass(cache.error());
  std::vector<Job> jobs;
  std::vector<std::string> keys;
  for (const Kernel& kernel : kernels) {
    jobs.push_back(make_job(kernel));
    keys.push_back(jobs.back().key);
  }
  cache->remove_damaged(keys);
  const size_t threads = static_cast<size_t>(std::max(options.jobs, 1));
  std::vector<Batch> batches = make_batches(jobs, *cache, threads);
  compile_all(nvrtc, flags, batches, threads);
  Cubins cubins;
  if (const Status kept = keep(batches, *cache, cubins); !kept)
    return pass(kept.error());
  if (const Status loaded = load_images(jobs, *cache, cubins); !loaded)
    return pass(loaded.error());
  return cubins;
}

}  // namespace

namespace {

bool share_memory(const std::vector<int32_t>& stored,
                  const std::vector<int32_t>& used,
                  std::span<const ArgumentPlace> places) {
  for (const int32_t s : stored) {
    const ArgumentPlace& to = places[static_cast<size_t>(s)];
    for (const int32_t u : used) {
      const ArgumentPlace& from = places[static_cast<size_t>(u)];
      if (to.address < from.address + from.size_bytes &&
          from.address < to.address + to.size_bytes)
        return true;
    }
  }
  return false;
}

}  // namespace

std::vector<LaunchedBlocks> launched_blocks(
    const CubinKernel& kernel, std::span<const ArgumentPlace> places) {
  std::vector<LaunchedBlocks> launched;
  for (size_t l = 0; l < kernel.launches.size(); ++l) {
    const PrintedLaunch& launch = kernel.launches[l];
    const std::vector<LaunchPart>& parts = launch.parts;
    uint32_t begin = 0;
    size_t first = 0;
    for (size_t p = 1; p < parts.size(); ++p) {
      const bool waits = std::any_of(
          parts.begin() + static_cast<std::ptrdiff_t>(first),
          parts.begin() + static_cast<std::ptrdiff_t>(p),
          [&](const LaunchPart& earlier) {
            return share_memory(earlier.stored, parts[p].used, places) ||
                   share_memory(parts[p].stored, earlier.used, places);
          });
      if (!waits) continue;
      launched.push_back({l, begin, parts[p].first_block - begin});
      begin = parts[p].first_block;
      first = p;
    }
    launched.push_back({l, begin, launch.grid_blocks - begin});
  }
  return launched;
}

Result<Cubins> compile_cubins(std::span<const Kernel> kernels, int architecture,
                              const CubinOptions& options) {
  NvrtcRequest request{.driver_cuda = options.driver_cuda,
                       .architecture = architecture,
                       .search = options.nvrtc_search};
  while (true) {
    const Result<Nvrtc> nvrtc = Nvrtc::open(request);
    if (!nvrtc) return pass(nvrtc.error());
    Result<Cubins> cubins =
        compile_with(*nvrtc, kernels, architecture, options);
    if (!cubins || cubins->images.empty() || !options.takes) return cubins;
    const Status taken = options.takes(cubins->images.front());
    if (taken) return cubins;
    request.refused.emplace_back(
        nvrtc->path(), fmt::format("the device does not take the code of NVRTC "
                                   "{}: {}",
                                   nvrtc->version(), taken.error().message));
  }
}

}  // namespace reprise
