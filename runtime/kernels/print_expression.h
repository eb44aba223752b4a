// How scalars of kernels are spelled in C++: types, literals, index expressions
// and element operations by the math prelude. Shared by the printers for hosts
// and for GPUs, so that both compute the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// How a type is spelled in memory and as a local.
struct TypeNames {
  const char* memory;
  const char* local;
  const char* load;    ///< Function around a load, or "".
  const char* store;   ///< Function or cast around a stored local, or "".
  const char* suffix;  ///< Of rk_to_….
};

TypeNames names_of(PrimitiveType type);

/// Narrower than a lane of f32, which stops g++ from vectorizing well: lane
/// loops read and write such elements through wide copies of the row, loops
/// that compute much through columns.
inline bool is_narrow(PrimitiveType type) {
  return primitive_type_bits(type) < 32;
}

/// One element from its bits.
std::string literal_text(PrimitiveType type, uint64_t bits);

/// A result of `type` computed in its wider local, rounded as the contract of
/// kernel.h asks.
std::string rounded(PrimitiveType type, std::string text);

/// A reduction's next value: texts of what it has and of what comes in.
std::string combined(Opcode combine, PrimitiveType type, const std::string& old,
                     const std::string& added);

/// Texts of a kernel's index expressions and values. Loop i is `i3`, value v is
/// `v5`; either may be an array with an element for each `u`, see `wide_loops`.
class ExpressionPrinter {
 public:
  explicit ExpressionPrinter(const Kernel& kernel);

  std::string loop(int32_t id) const;
  std::string name(int32_t value) const;
  std::string index(int32_t expression) const;
  std::string apply(const KernelValue& value) const;
  std::string load(const KernelValue& value) const;
  /// "int" where every index of the kernel fits, else "rk_s64".
  const char* index_type() const { return index_type_; }

  std::vector<bool> wide_loops, wide_values;  ///< Printed with "[u]".

 private:
  std::string atom(const IndexAtom& atom) const;

  const Kernel& kernel_;
  const char* index_type_;
};

}  // namespace reprise
