#include "runtime/cpu/finite_check.h"

#include <algorithm>
#include <cmath>

#include "data/element.h"

namespace reprise {

FiniteCheck::Seen FiniteCheck::seen_in(PrimitiveType type,
                                       const Location& location) const {
  Seen seen;
  if (!is_plain_float(type)) return seen;
  const std::span<const std::byte> values = bytes_(location);
  const auto size = static_cast<size_t>(primitive_type_bits(type) / 8);
  for (size_t at = 0; at + size <= values.size(); at += size) {
    const double value = load_element(type, &values[at]);
    seen.nan = seen.nan || std::isnan(value);
    seen.infinite = seen.infinite || std::isinf(value);
  }
  return seen;
}

FiniteCheck::Seen FiniteCheck::seen_by(const Unit& unit, bool written) const {
  Seen all;
  const auto add = [&](PrimitiveType type, const Location& location) {
    const Seen seen = seen_in(type, location);
    all.nan = all.nan || seen.nan;
    all.infinite = all.infinite || seen.infinite;
  };
  if (unit.kind == UnitKind::kKernel) {
    const std::vector<Location>& arrays = written ? unit.writes : unit.reads;
    size_t array = 0;
    for (const KernelArgument& argument :
         schedule_.kernels[static_cast<size_t>(unit.kernel)].arguments) {
      if (argument.is_output == written) add(argument.type, arrays[array++]);
    }
  } else if (unit.kind == UnitKind::kLibrary) {
    if (written) {
      add(unit.dot.result_type, unit.dot.out.location);
    } else {
      add(unit.dot.type, unit.dot.lhs.location);
      add(unit.dot.type, unit.dot.rhs.location);
    }
  } else if (unit.kind == UnitKind::kCollective) {
    for (const CollectiveArray& array : unit.collective.arrays)
      add(unit.collective.type, written ? array.output : array.input);
  }
  return all;  // What copies makes nothing new.
}

void FiniteCheck::First::note(UnitId id, const Seen& seen) {
  if (seen.nan) nan = nan ? std::min(*nan, id) : id;
  if (seen.infinite) infinite = infinite ? std::min(*infinite, id) : id;
}

void FiniteCheck::look(UnitId id) {
  const Unit& unit = schedule_.units[index_of(id)];
  const Seen written = seen_by(unit, true);
  if (!written.nan && !written.infinite) return;
  const Seen read = seen_by(unit, false);
  const std::lock_guard lock(mutex_);
  written_.note(id, written);
  if (!read.nan && !read.infinite) made_.note(id, written);
}

NonFinite FiniteCheck::found() const {
  const First& first = made_.nan || made_.infinite ? made_ : written_;
  const auto name = [&](const std::optional<UnitId>& unit) {
    return unit ? schedule_.units[index_of(*unit)].name : std::string();
  };
  // An infinity that comes after the first NaN explains nothing.
  const bool leads =
      first.infinite && (!first.nan || *first.infinite < *first.nan);
  return {name(first.nan), leads ? name(first.infinite) : std::string()};
}

}  // namespace reprise
