#include "replay/findings/source_line.h"

#include <algorithm>
#include <string_view>

namespace reprise {
namespace {

/// "train.py(42): step": how Kineto names a Python function.
bool is_python_function(std::string_view name) {
  const size_t at = name.find(".py(");
  return at != std::string_view::npos && name.find("): ", at) != name.npos;
}

/// Of a library, which the user does not edit.
bool is_of_library(std::string_view name) {
  for (const std::string_view part :
       {"torch/", "site-packages/", "dist-packages/", "/lib/python", "<built",
        "threading.py", "contextlib.py", "jax/", "flax/"}) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

/// The host event with a device event's correlation, or itself.
const Event& launch_of(const RankEvents& events, const Event& event) {
  if (event.correlation < 0) return event;
  for (uint32_t at = events.first; at < events.last; ++at) {
    const Event& call = events.trace.events[at];
    if (call.kind == EventKind::kRuntime &&
        call.correlation == event.correlation) {
      return call;
    }
  }
  return event;
}

}  // namespace

std::string source_line(const TraceByRank& trace, uint32_t event) {
  size_t part = 0;
  while (part + 1 < trace.size() && trace.first_event(part + 1) <= event) {
    ++part;
  }
  if (part >= trace.size()) return "";
  const RankEvents events = trace.at(part);
  const Event& own = events.trace.events[event - events.base];
  const Event& call = launch_of(events, own);
  std::string_view user, any;
  for (uint32_t at = events.first; at < events.last; ++at) {
    const Event& around = events.trace.events[at];
    if (around.start_ns > call.start_ns) break;
    if (around.stream != call.stream || around.end_ns < call.end_ns) continue;
    const std::string_view name = events.trace.text(around.name);
    if (!is_python_function(name)) continue;
    any = name;
    if (!is_of_library(name)) user = name;
  }
  return std::string(user.empty() ? any : user);
}

}  // namespace reprise
