#include "replay/collective_name.h"

#include <algorithm>
#include <array>
#include <string>

namespace reprise {
namespace {

// Letters in lower case, everything else left out: "ncclDevKernel_AllReduce"
// and "nccl:all_reduce" read the same. Names are cut: the operation comes
// early.
std::string letters_of(std::string_view name) {
  constexpr size_t kEnough = 256;
  std::string letters;
  for (const char c : name.substr(0, kEnough)) {
    if (c >= 'a' && c <= 'z') letters.push_back(c);
    if (c >= 'A' && c <= 'Z') letters.push_back(static_cast<char>(c | 0x20));
  }
  return letters;
}

struct Word {
  std::string_view letters, op;
};

// At one position of a name the first that fits wins ("reducescatter" before
// "reduce").
constexpr std::array<Word, 16> kWords = {{
    {"allreduce", "all-reduce"},
    {"allgather", "all-gather"},
    {"reducescatter", "reduce-scatter"},
    {"alltoall", "all-to-all"},
    {"sendrecv", ""},
    {"barrier", "barrier"},
    {"broadcast", "broadcast"},
    {"bcast", "broadcast"},
    {"receive", "receive"},
    {"recv", "receive"},
    {"send", "send"},
    {"scatter", "scatter"},
    {"gather", "gather"},
    {"reduce", "reduce"},
    {"collectivepermute", ""},
    {"generic", ""},
}};

const Word* first_word(std::string_view letters) {
  for (size_t at = 0; at < letters.size(); ++at) {
    for (const Word& word : kWords) {
      if (letters.substr(at).starts_with(word.letters)) return &word;
    }
  }
  return nullptr;
}

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

std::string_view collective_op_of(std::string_view name) {
  const Word* word = first_word(letters_of(name));
  return word ? word->op : std::string_view();
}

bool names_collective(std::string_view name) {
  return has_prefix(name) && first_word(letters_of(name)) != nullptr;
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

int element_bytes(std::string_view type) {
  if (type == "pred" || type.starts_with("f8") || type == "s8" ||
      type == "u8" || type == "s4" || type == "u4") {
    return 1;
  }
  if (type == "bf16" || type == "f16" || type == "s16" || type == "u16") {
    return 2;
  }
  if (type == "f32" || type == "s32" || type == "u32") return 4;
  if (type == "f64" || type == "s64" || type == "u64" || type == "c64") {
    return 8;
  }
  return type == "c128" ? 16 : 0;
}

}  // namespace reprise
