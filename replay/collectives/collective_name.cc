#include "replay/collectives/collective_name.h"

#include <algorithm>
#include <array>

#include "data/trace/collective_words.h"

namespace reprise {
namespace {

// How names that libraries and frameworks give to collectives start.
constexpr std::array<std::string_view, 10> kPrefixes = {
    "nccl", "rccl", "mscclpp", "oneccl",           "c10d::",
    "gloo", "MPI_", "mpi:",    "_c10d_functional", "ucc:"};

bool has_prefix(std::string_view name) {
  constexpr std::string_view kReturnType = "void ";
  if (name.starts_with(kReturnType)) name.remove_prefix(kReturnType.size());
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool names_collective(std::string_view name) {
  return has_prefix(name) && holds_collective_word(name);
}

bool describes_collective(std::string_view name) {
  if (name == "record_param_comms") return true;
  return names_collective(name);
}

bool joins_all_ranks(std::string_view op) {
  return op == "all-reduce" || op == "all-gather" || op == "reduce-scatter" ||
         op == "all-to-all" || op == "barrier";
}

bool has_one_size(std::string_view op) {
  return op == "all-reduce" || op == "all-gather" || op == "reduce-scatter" ||
         op == "broadcast" || op == "reduce";
}

double bus_factor(std::string_view op, double ranks) {
  if (ranks < 2) return 0;
  if (op == "all-reduce") return 2 * (ranks - 1) / ranks;
  if (op == "all-gather" || op == "reduce-scatter" || op == "all-to-all" ||
      op == "gather" || op == "scatter") {
    return (ranks - 1) / ranks;
  }
  const bool whole =
      op == "broadcast" || op == "reduce" || op == "send" || op == "receive";
  return whole ? 1 : 0;
}

}  // namespace reprise
