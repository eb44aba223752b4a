#include "profiler/process_identity.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "data/io/json_text.h"

namespace reprise {
namespace {

constexpr size_t kArgumentBytes = 4096;

/// The first bytes of a small file; empty when it cannot be read.
std::string file_head(const char* path, size_t limit) {
  std::string bytes(limit, '\0');
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t count = ::read(file, bytes.data(), bytes.size());
  ::close(file);
  bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return bytes;
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

std::string boot_id() {
  std::string id = file_head("/proc/sys/kernel/random/boot_id", 64);
  if (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string program_path() {
  std::string path(4096, '\0');
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return path;
}

std::string arguments_json() {
  std::string text = "[";
  const std::string line = file_head("/proc/self/cmdline", kArgumentBytes);
  std::string_view rest = line;
  while (!rest.empty()) {
    const std::string_view argument = rest.substr(0, rest.find('\0'));
    if (text.size() > 1) text += ',';
    text += json_quoted(argument);
    rest.remove_prefix(std::min(rest.size(), argument.size() + 1));
  }
  return text + "]";
}

/// A variable's number, -1 when there is none.
int64_t variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return -1;
  const std::string_view digits = text;
  int64_t number = -1;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_whole = error == std::errc() &&
                        end == digits.data() + digits.size() && number >= 0;
  return is_whole ? number : -1;
}

struct RankVariables {
  const char* rank;
  const char* ranks;
  const char* local_rank;
};

/// Innermost launcher first: torchrun may run inside mpirun inside Slurm.
constexpr RankVariables kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

int64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void append_number(std::string* json, std::string_view key, int64_t value) {
  *json += ",\"";
  *json += key;
  *json += "\":";
  *json += std::to_string(value);
}

void append_text(std::string* json, std::string_view key,
                 std::string_view value) {
  *json += ",\"";
  *json += key;
  *json += "\":";
  *json += json_quoted(value);
}

void append_ranks(std::string* json) {
  int64_t rank = -1, ranks = -1, local_rank = -1;
  for (const RankVariables& launcher : kLaunchers) {
    rank = variable(launcher.rank);
    ranks = variable(launcher.ranks);
    local_rank = variable(launcher.local_rank);
    if (rank >= 0 && ranks > rank) break;
    rank = ranks = local_rank = -1;
  }
  append_number(json, "rank", rank);
  append_number(json, "ranks", ranks);
  append_number(json, "local_rank", local_rank);
}

}  // namespace

std::string shard_host_name() {
  std::string name = host_name();
  for (char& letter : name) {
    if (letter <= ' ' || letter > '~' || letter == '/') letter = '_';
  }
  return name;
}

std::string process_header_json(std::string_view source, int image) {
  std::string json = "{\"host\":" + json_quoted(host_name());
  append_number(&json, "process", ::getpid());
  append_number(&json, "parent", ::getppid());
  append_text(&json, "boot_id", boot_id());
  append_ranks(&json);
  append_text(&json, "program", program_path());
  json += ",\"arguments\":" + arguments_json();
  append_text(&json, "source", source);
  append_number(&json, "image", image);
  // The two clocks are read back to back, the realtime one in between: the
  // offset is good to half the time that takes.
  const int64_t before_ns = clock_ns(CLOCK_MONOTONIC);
  const int64_t epoch_ns = clock_ns(CLOCK_REALTIME);
  const int64_t after_ns = clock_ns(CLOCK_MONOTONIC);
  append_number(&json, "start_ns", before_ns);
  append_number(&json, "epoch_offset_ns",
                epoch_ns - (before_ns + (after_ns - before_ns) / 2));
  return json + "}";
}

}  // namespace reprise
