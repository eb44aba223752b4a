#include "runtime/process/core_choice.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "data/file.h"

namespace reprise {

Result<std::vector<int>> choose_cores(ProcessGroup& group) {
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
  const long place = std::count(machines->begin(), ours, machine);
  const long ranks = std::count(machines->begin(), machines->end(), machine);
  const long share = known ? CPU_COUNT(&allowed) / ranks : 0;
  std::vector<int> cores;
  long number = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (number >= place * share && number < (place + 1) * share)
      cores.push_back(core);
    ++number;
  }
  return cores;
}

}  // namespace reprise
