// Batches share the cost of starting the compiler and of parsing the prelude;
// several compilers run at a time. Kernels of one text are compiled once.
#include "runtime/kernels/compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "data/file.h"
#include "data/sha256.h"
#include "runtime/kernels/compile_cache.h"
#include "runtime/kernels/print_kernel.h"

extern char** environ;

namespace reprise {
namespace {

/// Kernels of one library; below kSmallBatch a second compiler does not pay.
constexpr size_t kMaxBatch = 48;
constexpr size_t kSmallBatch = 4;

/// Every flag that changes code; no contraction and no -ffast-math (see
/// kernel.h). Redundancy elimination and dominator optimizations make booleans
/// of paths through selects, and a loop with log(x) == inf or softplus stays
/// scalar: 75 ns an element instead of 7.
constexpr const char* kFlags[] = {"-std=c++17",
                                  "-O3",
                                  "-march=native",
                                  "-fno-math-errno",
                                  "-fno-trapping-math",
                                  "-fno-tree-pre",
                                  "-fno-tree-dominator-opts",
                                  "-ffp-contract=off",
                                  "-fopenmp-simd",
                                  "-mprefer-vector-width=512",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fPIC",
                                  "-shared",
                                  "-w"};

struct Process {
  pid_t id = -1;
  std::string source, library, log;
  std::vector<std::string> keys;
};

/// Starts a program with an argument vector, its output into a descriptor.
Result<pid_t> spawn(const std::vector<std::string>& arguments, int output) {
  std::vector<char*> vector;
  vector.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments)
    vector.push_back(const_cast<char*>(argument.c_str()));
  vector.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t id = -1;
  const int error =
      ::posix_spawnp(&id, vector[0], &actions, nullptr, vector.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return fail(ErrorKind::kDevice,
                "cannot run the compiler {}: {} (install g++)", arguments[0],
                std::strerror(error));
  }
  return id;
}

/// Exit status of a child, or -1 when it was killed.
int wait_for(pid_t id) {
  int status = 0;
  while (::waitpid(id, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string read_and_remove(const std::string& path) {
  const Result<std::string> text = read_file(path);
  ::unlink(path.c_str());
  return text ? *text : std::string();
}

/// Model and instruction sets of this CPU: -march=native depends on them.
std::string processor() {
  const Result<std::string> text = read_file("/proc/cpuinfo");
  if (!text) return "unknown";
  std::string found;
  for (const char* field : {"model name", "flags", "CPU part", "Features"}) {
    const size_t start = text->find(field);
    if (start != std::string::npos)
      found += text->substr(start, text->find('\n', start) - start);
  }
  return found;
}

/// What the compiler says of itself. Through a pipe: a cache that cannot be
/// written may still hold every kernel.
Result<std::string> compiler_version(const std::string& compiler) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(ErrorKind::kDevice, "no pipe: {}", std::strerror(errno));
  const Result<pid_t> child = spawn({compiler, "--version"}, ends[1]);
  ::close(ends[1]);
  std::string version;
  char chunk[4096];
  for (ssize_t got = 1; child && got != 0;) {
    got = ::read(ends[0], chunk, sizeof chunk);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) version.append(chunk, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  if (!child) return pass(child.error());
  if (wait_for(*child) != 0) {
    return fail(ErrorKind::kDevice,
                "{} --version failed; is it a C++ compiler?", compiler);
  }
  return version;
}

Result<std::string> environment_digest(const CompileOptions& options) {
  const Result<std::string> version = compiler_version(options.compiler);
  if (!version) return pass(version.error());
  std::string text = *version + processor() + std::string(kernel_prelude());
  for (const char* flag : kFlags) text += flag;
  return sha256_hex(text);
}

std::string symbol_of(const std::string& key) {
  return "k_" + key.substr(0, 16);
}

/// Key in the cache: digest of the printed text, so that a new printer finds
/// nothing old.
std::string cache_key(const Kernel& kernel) {
  return sha256_hex(print_kernel(kernel, "k"));
}

class Batches {
 public:
  Batches(const CompileOptions& options, CompileCache& cache)
      : options_(options), cache_(cache) {}
  ~Batches() {
    while (!running_.empty()) (void)finish();
  }

  Status start(
      const std::vector<std::pair<std::string, const Kernel*>>& kernels) {
    if (running_.size() >= static_cast<size_t>(std::max(options_.jobs, 1))) {
      if (Status finished = finish(); !finished) return finished;
    }
    Process process;
    process.source = cache_.temporary_name(".cc");
    process.library = cache_.temporary_name(".so");
    process.log = cache_.temporary_name(".log");
    std::string text(kernel_prelude());
    for (const auto& [key, kernel] : kernels) {
      text += print_kernel(*kernel, symbol_of(key));
      process.keys.push_back(key);
    }
    if (const Status written = write_file_atomically(process.source, text);
        !written) {
      return fail(ErrorKind::kDevice, "{}", written.error().message);
    }
    std::vector<std::string> arguments{options_.compiler};
    arguments.insert(arguments.end(), std::begin(kFlags), std::end(kFlags));
    for (const std::string& argument :
         {std::string("-o"), process.library, process.source}) {
      arguments.push_back(argument);
    }
    const int log = ::open(process.log.c_str(),
                           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const Result<pid_t> child =
        log >= 0 ? spawn(arguments, log)
                 : fail(ErrorKind::kDevice, "{}: cannot write: {}", process.log,
                        std::strerror(errno));
    if (log >= 0) ::close(log);
    if (!child) {
      ::unlink(process.source.c_str());
      ::unlink(process.log.c_str());
      return pass(child.error());
    }
    process.id = *child;
    running_.push_back(std::move(process));
    return {};
  }

  /// Tells how many of `all` kernels are compiled.
  void tell(size_t all) const {
    if (!options_.watch) return;
    options_.watch(
        {.what = fmt::format("compiling {} kernels", all),
         .share = static_cast<double>(compiled_) / static_cast<double>(all),
         .count = static_cast<double>(compiled_),
         .unit = "kernels"});
  }

  Status finish_all(size_t all) {
    while (!running_.empty()) {
      if (Status finished = finish(); !finished) return finished;
      tell(all);
    }
    return {};
  }

 private:
  Status finish() {
    const Process process = std::move(running_.front());
    running_.pop_front();
    const int status = wait_for(process.id);
    ::unlink(process.source.c_str());
    const std::string log = read_and_remove(process.log);
    if (status != 0) {
      ::unlink(process.library.c_str());
      return fail(ErrorKind::kDevice,
                  "{} failed on generated kernels (status {}): {}",
                  options_.compiler, status, log.substr(0, 600));
    }
    compiled_ += process.keys.size();
    return cache_.add(process.library, process.keys);
  }

  const CompileOptions& options_;
  CompileCache& cache_;
  std::deque<Process> running_;
  size_t compiled_ = 0;
};

/// Compiles what the cache lacks; returns how many kernels that were.
Result<int> compile_missing(std::span<const Kernel> kernels,
                            const std::vector<std::string>& keys,
                            const CompileOptions& options,
                            CompileCache& cache) {
  std::vector<std::pair<std::string, const Kernel*>> missing;
  std::map<std::string, bool> seen;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (cache.find(keys[i]) != nullptr || !seen.emplace(keys[i], true).second)
      continue;
    missing.emplace_back(keys[i], &kernels[i]);
  }
  if (missing.empty()) return 0;
  const size_t jobs = static_cast<size_t>(std::max(options.jobs, 1));
  size_t batches = missing.size() <= kSmallBatch ? 1 : jobs;
  batches = std::max(batches, (missing.size() + kMaxBatch - 1) / kMaxBatch);
  Batches running(options, cache);
  for (size_t batch = 0; batch < batches; ++batch) {
    // Strided, so that every batch gets its share of large kernels.
    std::vector<std::pair<std::string, const Kernel*>> part;
    for (size_t i = batch; i < missing.size(); i += batches)
      part.push_back(missing[i]);
    if (part.empty()) continue;
    running.tell(missing.size());
    if (const Status started = running.start(part); !started)
      return pass(started.error());
  }
  if (const Status finished = running.finish_all(missing.size()); !finished)
    return pass(finished.error());
  return static_cast<int>(missing.size());
}

using Handles = std::vector<void*>;

Result<void*> load(const CompileCache& cache, const std::string& hash,
                   Handles& handles, std::map<std::string, void*>& loaded) {
  const auto known = loaded.find(hash);
  if (known != loaded.end()) return known->second;
  const Result<std::string> path = cache.checked_path(hash);
  if (!path) return pass(path.error());
  void* handle = ::dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorKind::kDevice, "{}: {}", *path, ::dlerror());
  handles.push_back(handle);
  loaded.emplace(hash, handle);
  return handle;
}

}  // namespace

Result<CompiledKernels> compile_kernels(std::span<const Kernel> kernels,
                                        const CompileOptions& options) {
  const std::string directory = options.cache_directory.empty()
                                    ? default_cache_directory()
                                    : options.cache_directory;
  const Result<std::string> digest = environment_digest(options);
  if (!digest) return pass(digest.error());
  Result<CompileCache> cache = CompileCache::open(directory, *digest);
  if (!cache) return pass(cache.error());

  std::vector<std::string> keys;
  for (const Kernel& kernel : kernels) keys.push_back(cache_key(kernel));
  cache->remove_damaged(keys);
  const Result<int> compiled = compile_missing(kernels, keys, options, *cache);
  if (!compiled) return pass(compiled.error());

  auto handles = std::shared_ptr<Handles>(new Handles, [](Handles* open) {
    for (void* handle : *open) ::dlclose(handle);
    delete open;
  });
  CompiledKernels result;
  result.compiled = *compiled;
  std::map<std::string, void*> loaded;
  for (const std::string& key : keys) {
    const Result<void*> library =
        load(*cache, *cache->find(key), *handles, loaded);
    if (!library) return pass(library.error());
    void* symbol = ::dlsym(*library, symbol_of(key).c_str());
    if (symbol == nullptr) {
      return fail(ErrorKind::kDevice,
                  "the kernel cache in {} lacks {}; remove it", directory,
                  symbol_of(key));
    }
    result.functions.push_back(reinterpret_cast<KernelFunction>(symbol));
  }
  result.libraries = std::move(handles);
  return result;
}

}  // namespace reprise
