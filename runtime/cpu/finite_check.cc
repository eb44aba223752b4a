#include "runtime/cpu/finite_check.h"

#include <algorithm>
#include <cmath>

#include "data/element.h"

namespace reprise {

void FiniteCheck::look(UnitId id) {
  const Unit& unit = schedule_.units[index_of(id)];
  switch (unit.kind) {
    case UnitKind::kKernel: {
      const Kernel& kernel =
          schedule_.kernels[static_cast<size_t>(unit.kernel)];
      size_t write = 0;
      for (const KernelArgument& argument : kernel.arguments) {
        if (argument.is_output)
          note(id, argument.type, bytes_(unit.writes[write++]));
      }
      return;
    }
    case UnitKind::kLibrary:
      return note(id, unit.dot.result_type, bytes_(unit.dot.out.location));
    case UnitKind::kCollective:
      return note(id, unit.collective.type, bytes_(unit.collective.output));
    default:  // What copies makes nothing new.
      return;
  }
}

void FiniteCheck::note(UnitId id, PrimitiveType type,
                       std::span<const std::byte> values) {
  if (!is_plain_float(type)) return;
  const auto size = static_cast<size_t>(primitive_type_bits(type) / 8);
  bool nan = false, infinite = false;
  for (size_t at = 0; at + size <= values.size(); at += size) {
    const double value = load_element(type, &values[at]);
    nan = nan || std::isnan(value);
    infinite = infinite || std::isinf(value);
  }
  const std::lock_guard lock(mutex_);
  const auto keep_first = [&](std::optional<UnitId>& first) {
    first = first ? std::min(*first, id) : id;
  };
  if (nan) keep_first(nan_);
  if (infinite) keep_first(infinite_);
}

NonFinite FiniteCheck::found() const {
  const auto name = [&](const std::optional<UnitId>& unit) {
    return unit ? schedule_.units[index_of(*unit)].name : std::string();
  };
  // An infinity that comes after the first NaN explains nothing.
  const bool leads = infinite_ && (!nan_ || *infinite_ < *nan_);
  return {name(nan_), leads ? name(infinite_) : std::string()};
}

}  // namespace reprise
