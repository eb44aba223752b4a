// Dots by oneDNN: one primitive for each distinct shape, over strided views.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// A dot bound to its memory. Deterministic: the same primitive, one thread.
class DotCall {
 public:
  struct Bound;  ///< oneDNN's handles.
  explicit DotCall(std::shared_ptr<const Bound> bound);
  ~DotCall();
  DotCall(const DotCall&) = default;
  DotCall& operator=(const DotCall&) = default;

  /// False when oneDNN failed, which no later call repairs.
  bool run() const;
  /// Name of oneDNN's implementation, such as "brg:avx512_core".
  const std::string& implementation() const;

 private:
  std::shared_ptr<const Bound> bound_;
};

/// Makes dots; must outlive nothing: calls keep what they need.
class DotLibrary {
 public:
  DotLibrary();
  ~DotLibrary();

  /// Binds a dot to its operands' first elements. Errors: kUnsupported for
  /// types and strides that oneDNN refuses.
  Result<DotCall> bind(const DotSpec& spec, std::byte* lhs, std::byte* rhs,
                       std::byte* out);

 private:
  struct Primitive;
  std::map<std::string, std::shared_ptr<const Primitive>> primitives_;
  friend struct DotCall::Bound;
};

}  // namespace reprise
