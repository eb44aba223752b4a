#include "replay/collectives/collective_name.h"

#include <algorithm>
#include <array>

#include "data/collective/collective_names.h"

namespace reprise {
namespace {

// How names that libraries and frameworks give to collectives start.
constexpr std::array<std::string_view, 10> kPrefixes = {
    "nccl", "rccl", "mscclpp", "oneccl",           "c10d::",
    "gloo", "MPI_", "mpi:",    "_c10d_functional", "ucc:"};

// Of most names the first letter tells.
constexpr std::string_view kInitials = "nrmocgM_uv";
constexpr std::string_view kReturnType = "void ";

constexpr bool has_initial(std::string_view name) {
  return kInitials.find(name.substr(0, 1)) != std::string_view::npos;
}
static_assert(std::all_of(kPrefixes.begin(), kPrefixes.end(), has_initial) &&
              has_initial(kReturnType));

bool has_prefix(std::string_view name) {
  if (!has_initial(name)) return false;
  if (name.starts_with(kReturnType)) name.remove_prefix(kReturnType.size());
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool names_collective(std::string_view name) {
  return has_prefix(name) && names_any_collective(name);
}

bool describes_collective(std::string_view name) {
  if (name == "record_param_comms") return true;
  return names_collective(name);
}

}  // namespace reprise
