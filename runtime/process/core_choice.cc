#include "runtime/process/core_choice.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "data/file.h"

namespace reprise {

Result<int> choose_core(ProcessGroup& group) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id");
  std::string machine = boot ? *boot : std::to_string(group.rank());
  for (int core = 0; known && core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) machine += fmt::format(" {}", core);
  }
  const Result<std::vector<std::string>> machines = group.all_gather(machine);
  if (!machines) return pass(machines.error());
  const auto ours = machines->begin() + group.rank();
  long place = std::count(machines->begin(), ours, machine);
  const long ranks = std::count(machines->begin(), machines->end(), machine);
  if (!known || CPU_COUNT(&allowed) < ranks) return -1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && place-- == 0) return core;
  }
  return -1;
}

}  // namespace reprise
