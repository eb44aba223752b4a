// The columns of a query or of a CSV header by name. Rows are read by the
// members of an enum, whose list of names is checked while compiling, so that a
// place cannot drift from the name that stands at it.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace reprise {

/// Not constexpr: a list that gets here does not compile.
inline void columns_stand_in_another_order() {}

/// The names of the members of `Column`, an enum that ends with kCount.
template <typename Column>
class ColumnNames {
 public:
  static constexpr size_t kCount = static_cast<size_t>(Column::kCount);
  struct Named {
    Column column;
    std::string_view name;
  };

  /// Takes each member once, in the order of the enum.
  // NOLINTNEXTLINE(google-explicit-constructor): reads as a table.
  consteval ColumnNames(std::initializer_list<Named> columns) {
    size_t place = 0;
    for (const Named& named : columns) {
      if (static_cast<size_t>(named.column) != place)
        columns_stand_in_another_order();
      names_[place++] = named.name;
    }
    if (place != kCount) columns_stand_in_another_order();
  }

  constexpr std::span<const std::string_view> all() const { return names_; }
  constexpr std::string_view operator[](Column column) const {
    return names_[static_cast<size_t>(column)];
  }

 private:
  std::array<std::string_view, kCount> names_;
};

}  // namespace reprise
