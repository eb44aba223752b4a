// Dots by oneDNN: one primitive for each distinct shape, over strided views;
// bf16 is multiplied as it is, or widened where that is quicker, and summed in
// f32.
//
// An epilogue is a pass of our own over the result, right after the product
// and in its place, not oneDNN's post-ops. So the product is the one that a
// plain dot computes and every later step is rounded on its own, as the ops of
// the program are: a plan that fuses them gives the same bits by construction,
// NaN and -0 included. Post-ops would not be quicker: on 14 shapes of the
// shipped programs, each with bias and with bias and accumulate, they took
// between 0.95 and 1.27 (median 1.03) times as long as primitive and pass, and
// oneDNN 2.6.3 crashes in some of those over strided batches. (oneDNN 2.6.3,
// AVX-512, one core, medians of 15 runs, CPU time; 2026-11.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/part_trials.h"
#include "runtime/cpu/widened_dot.h"

namespace reprise {

/// First elements of a dot's operands; bias and accumulate as the spec has
/// them.
struct DotMemory {
  std::byte *lhs = nullptr, *rhs = nullptr, *out = nullptr;
  const std::byte *bias = nullptr, *accumulate = nullptr;
};

struct DotPart;
enum class DotCut : uint8_t;

/// A dot bound to its memory. Deterministic: the same primitive, one thread.
/// Copies share what a dot widens into, so one of them runs at a time.
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
  friend class DotLibrary;
  std::shared_ptr<const Bound> bound_;
};

/// Makes dots; must outlive nothing: calls keep what they need.
class DotLibrary {
 public:
  DotLibrary();
  ~DotLibrary();

  /// Binds a dot to its memory. Calls of one library run one at a time, but for
  /// parts. Errors: kUnsupported for types and strides that
  /// oneDNN refuses, for an epilogue of a type other than f32, and for a bias
  /// along columns that are not contiguous.
  Result<DotCall> bind(const DotSpec& spec, const DotMemory& memory);

  /// The same as at most `count` calls that may run side by side, each of some
  /// matrices, rows or columns of the result. None where that is one, or where
  /// made-up operands show that oneDNN sums the parts in another order than the
  /// whole: the bits are those of `bind` for any count. oneDNN 2.6.3 sums deep
  /// products by blocks that depend on the columns, never on the rows. Errors:
  /// as `bind`. Cost: of each shape new to `trials`, the dot twice a cut.
  Result<std::vector<DotCall>> bind_parts(const DotSpec& spec,
                                          const DotMemory& memory, size_t count,
                                          PartTrials* trials);

 private:
  struct Primitive;
  /// Without epilogue.
  Result<DotCall> bind_product(const DotSpec& spec, const DotMemory& memory);
  Result<std::vector<DotCall>> bind_all(const std::vector<DotPart>& parts);
  /// `spec`: a plain dot.
  bool parts_have_its_bits(const DotSpec& spec, size_t count, DotCut cut);
  /// The same of bf16 by a product of f32. Errors: as of bind_product.
  Result<DotCall> bind_widened(const DotSpec& spec, const DotMemory& memory);
  /// Throws what oneDNN throws.
  Result<std::shared_ptr<const Primitive>> primitive_of(const DotSpec& spec);
  std::map<std::string, std::shared_ptr<const Primitive>> primitives_;
  /// oneDNN's own working memory serves one thread; a part has its own.
  bool own_scratch_ = false;
  /// Of all calls that are no parts, so one of them runs at a time.
  WidenedDot::Scratch widened_;
  friend struct DotCall::Bound;
};

}  // namespace reprise
