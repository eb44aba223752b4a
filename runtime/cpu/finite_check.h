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
  /// Names of the first units in the schedule's order that wrote either.
  NonFinite found() const;

 private:
  void note(UnitId id, PrimitiveType type, std::span<const std::byte> values);

  const Schedule& schedule_;
  Bytes bytes_;
  std::mutex mutex_;  ///< Of the two below.
  std::optional<UnitId> nan_, infinite_;
};

}  // namespace reprise
