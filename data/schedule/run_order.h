// Which units must run after which.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "data/plan/unit_graph.h"

namespace reprise {

/// By their data, by a given order of the plan, and by the edges that placing
/// adds. Of one graph, which must outlive it.
class RunOrder {
 public:
  explicit RunOrder(const UnitGraph& units) : units_(units) {
    place_.resize(units.order.size());
    for (uint32_t p = 0; p < place_.size(); ++p) place_[units.order[p]] = p;
  }

  /// Lets `writer` run after all of `readers` (ascending); false, and nothing
  /// changes, where it cannot.
  bool put_after(const std::vector<uint32_t>& readers, uint32_t writer) {
    if (!place_.empty()) {
      return std::all_of(readers.begin(), readers.end(), [&](uint32_t reader) {
        return place_[reader] <= place_[writer];
      });
    }
    if (reaches(writer, readers)) return false;
    for (uint32_t reader : readers) {
      if (reader == writer) continue;
      extra_.emplace_back(reader, writer);
      successors_[reader].push_back(writer);
    }
    return true;
  }

  std::vector<uint32_t> order() const {
    return place_.empty() ? default_order(units_, extra_) : units_.order;
  }

 private:
  /// True if any of `targets` but `start` itself must run after `start`.
  bool reaches(uint32_t start, const std::vector<uint32_t>& targets) {
    if (successors_.empty()) build_successors();
    std::vector<uint32_t> touched{start};  // Also the queue of the search.
    seen_[start] = true;
    bool found = false;
    for (size_t next = 0; next < touched.size() && !found; ++next) {
      for (uint32_t after : successors_[touched[next]]) {
        if (seen_[after]) continue;
        found =
            found || std::binary_search(targets.begin(), targets.end(), after);
        seen_[after] = true;
        touched.push_back(after);
      }
    }
    for (uint32_t u : touched) seen_[u] = false;
    return found;
  }

  void build_successors() {
    successors_.resize(units_.units.size());
    seen_.assign(units_.units.size(), false);
    for (uint32_t u = 0; u < units_.units.size(); ++u) {
      for (uint32_t before : units_.units[u].predecessors)
        successors_[before].push_back(u);
      if (units_.units[u].chunk > 0) successors_[u - 1].push_back(u);
    }
  }

  const UnitGraph& units_;
  std::vector<uint32_t> place_;  ///< [unit] in the plan's order, if it has one.
  std::vector<std::pair<uint32_t, uint32_t>> extra_;
  std::vector<std::vector<uint32_t>> successors_;  ///< [unit]
  std::vector<bool> seen_;                         ///< [unit]
};

}  // namespace reprise
