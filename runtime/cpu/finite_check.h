// Which units of a step wrote NaN or an infinity, for runs whose loss is no
// number any more.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "data/schedule/schedule.h"
#include "runtime/train/step_executor.h"

namespace reprise {

/// Looks at what units wrote, right after each; units of two streams may end at
/// once. Cost: one pass over everything written.
class FiniteCheck {
 public:
  using Bytes = std::function<std::span<std::byte>(const Location&)>;

  FiniteCheck(const Schedule& schedule, Bytes bytes)
      : schedule_(schedule), bytes_(std::move(bytes)) {}

  void look(UnitId id);
  /// Names of the first units in the schedule's order that made either of
  /// finite values alone; where none did, that wrote either.
  NonFinite found() const;

 private:
  struct Seen {
    bool nan = false, infinite = false;
  };
  struct First {
    std::optional<UnitId> nan, infinite;
    void note(UnitId id, const Seen& seen);
  };

  Seen seen_in(PrimitiveType type, const Location& location) const;
  /// In what a unit read (as far as it has not written over it) or wrote.
  Seen seen_by(const Unit& unit, bool written) const;

  const Schedule& schedule_;
  Bytes bytes_;
  std::mutex mutex_;  ///< Of the two below.
  First made_, written_;
};

}  // namespace reprise
