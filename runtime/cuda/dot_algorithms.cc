// A choice is a record of fixed length: the SHA-256 of the shape's text, then
// the bytes by which the library knows the algorithm. A file of the cache, and
// what rank 0 tells the others, are such records.
#include "runtime/cuda/dot_algorithms.h"

#include <map>
#include <optional>
#include <utility>

#include "data/file.h"
#include "data/sha256.h"
#include "runtime/kernels/compile_cache.h"

namespace reprise {
namespace {

constexpr size_t kDigestBytes = 64;

/// Digest of a shape -> algorithm.
using Choices = std::map<std::string, std::string>;

// What bytes of an algorithm hold for.
std::string environment_of(const CublasLibrary& cublas,
                           const DeviceContext& context) {
  return sha256_hex(
      fmt::format("cuBLASLt's algorithms, {}, {}, sm_{}, workspace {}, {}",
                  cublas.version(), context.name(), context.architecture(),
                  cublas.options().workspace_bytes,
                  cublas.options().math == MatrixMath::kTf32 ? "tf32" : "f32"));
}

std::string print_choices(const Choices& choices) {
  std::string text;
  for (const auto& [digest, algorithm] : choices) text += digest + algorithm;
  return text;
}

Choices parse_choices(std::string_view text) {
  const size_t record = kDigestBytes + CublasLibrary::kAlgorithmBytes;
  Choices choices;
  for (; text.size() >= record; text.remove_prefix(record)) {
    choices.emplace(text.substr(0, kDigestBytes),
                    text.substr(kDigestBytes, CublasLibrary::kAlgorithmBytes));
  }
  return choices;
}

std::optional<std::string> find_kept(const CompileCache& cache,
                                     const std::string& digest) {
  const std::string* hash = cache.find(digest);
  if (hash == nullptr) return {};
  const Result<std::string> path = cache.checked_path(*hash);
  if (!path) return {};
  const Choices kept = parse_choices(read_file(*path).value_or(""));
  const auto found = kept.find(digest);
  if (found == kept.end()) return {};
  return found->second;
}

void keep(const Choices& timed, CompileCache& cache) {
  const std::string file = cache.temporary_name(".algorithms");
  std::vector<std::string> digests;
  for (const auto& [digest, algorithm] : timed) digests.push_back(digest);
  // A run is none the worse for a cache that cannot be written.
  if (write_file_atomically(file, print_choices(timed)))
    static_cast<void>(cache.add(file, digests));
}

// Rank 0's part.
Choices choose(CublasLibrary& cublas, const std::string& environment,
               const std::string& cache_directory, DotAlgorithms& done) {
  Result<CompileCache> cache = CompileCache::open(
      cache_directory.empty() ? default_cache_directory() : cache_directory,
      environment);
  Choices choices, timed;
  for (const std::string& shape : cublas.shapes()) {
    const std::string digest = sha256_hex(shape);
    std::optional<std::string> algorithm;
    if (cache) algorithm = find_kept(*cache, digest);
    if (!algorithm) {
      Result<std::string> fastest = cublas.fastest(shape);
      if (!fastest) {
        done.note = fmt::format("dots keep cuBLASLt's first choice: {}",
                                fastest.error().message);
        break;
      }
      algorithm = std::move(*fastest);
      timed.emplace(digest, *algorithm);
    }
    choices.emplace(digest, std::move(*algorithm));
  }
  done.timed = static_cast<int>(timed.size());
  if (cache && !timed.empty()) keep(timed, *cache);
  return choices;
}

}  // namespace

Result<DotAlgorithms> choose_dot_algorithms(CublasLibrary& cublas,
                                            const DeviceContext& context,
                                            const std::string& cache_directory,
                                            ProcessGroup& group) {
  DotAlgorithms done;
  const std::string environment = environment_of(cublas, context);
  std::string mine;
  if (group.rank() == 0) {
    mine = environment +
           print_choices(choose(cublas, environment, cache_directory, done));
  }
  const Result<std::vector<std::string>> all = group.all_gather(mine);
  if (!all) return pass(all.error());
  const std::string& told = all->front();
  if (told.substr(0, environment.size()) != environment) return done;
  const Choices choices =
      parse_choices(std::string_view(told).substr(environment.size()));
  for (const std::string& shape : cublas.shapes()) {
    const auto found = choices.find(sha256_hex(shape));
    // One that the library refuses after all leaves its own first choice.
    if (found != choices.end()) cublas.use(shape, found->second);
  }
  return done;
}

}  // namespace reprise
