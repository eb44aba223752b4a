#include "data/formats/node_dependencies.h"

namespace reprise {

void NodeDependencies::add(int64_t before, int64_t after) {
  if (before == after) {
    ++selfish_;
  } else if (ids_.contains(before)) {
    spool_.add_dependency({rank_, before, after});
  } else {
    open_.emplace_back(before, after);
  }
}

void NodeDependencies::finish(FileReport& report) {
  int64_t dangling = 0;
  for (const auto& [before, after] : open_) {
    if (ids_.contains(before)) {
      spool_.add_dependency({rank_, before, after});
    } else {
      ++dangling;
    }
  }
  open_.clear();
  if (dangling > 0) {
    report.dropped["dependency on a node that is not there"] += dangling;
  }
  if (selfish_ > 0) {
    report.dropped["dependency of a node on itself"] += selfish_;
  }
}

}  // namespace reprise
