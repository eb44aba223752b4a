// Programs that stand in the place of one instruction, written as HLO text,
// which is shorter than building instructions, and read by the parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

using ArrayExtents = std::vector<int64_t>;  ///< Of an array, or one a place.

/// 1 of none.
int64_t product(const ArrayExtents& extents);

/// Instructions, each called by a number, of one type where none is said.
class ProgramText {
 public:
  explicit ProgramText(PrimitiveType type) : type_(primitive_type_name(type)) {}

  /// Adds `expression`, of an array of `shape`; returns its name.
  std::string add(const ArrayExtents& shape, const std::string& expression) {
    return add(type_, shape, expression);
  }
  std::string add(std::string_view type, const ArrayExtents& shape,
                  const std::string& expression);
  std::string broadcast(std::string_view type, const ArrayExtents& shape,
                        const std::string& scalar);
  std::string reshape(const std::string& array, const ArrayExtents& shape);
  /// Dimension d of the result is number order[d] of `shape`.
  std::string transpose(const std::string& array, const ArrayExtents& shape,
                        const ArrayExtents& order);
  std::string reverse(const std::string& array, const ArrayExtents& shape,
                      const ArrayExtents& dimensions);
  std::string concatenate(const std::vector<std::string>& arrays,
                          const ArrayExtents& shape, size_t dimension);
  /// A module that gives a tuple of `result` alone.
  std::string module(const std::string& result,
                     const ArrayExtents& shape) const;

 private:
  std::string type_, text_;
  int count_ = 0;
};

/// Requires: `text` is a module; `name` is that of the instruction.
InlinedModule read_program(const std::string& text, std::string_view name,
                           Arithmetic arithmetic = Arithmetic::kAsXla);

}  // namespace reprise
