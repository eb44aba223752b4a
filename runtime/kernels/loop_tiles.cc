#include "runtime/kernels/loop_tiles.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/kernels/kept_rows.h"
#include "runtime/kernels/loop_segments.h"
#include "runtime/kernels/row_blocks.h"

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

constexpr int64_t kLine_bytes = 64;
/// Lines that pass between two elements of one line from here on.
constexpr int64_t kManyLines = 64;

class TileFinder {
 public:
  TileFinder(const Kernel& kernel, const KernelStatement& loop)
      : kernel_(kernel), loop_(loop) {}

  std::optional<LoopTile> run() {
    tile_.nest = plain_nest(kernel_, loop_);
    if (tile_.nest.size() < 2) return {};
    for (const KernelStatement* const each : tile_.nest) {
      if (kept_rows(kernel_, *each)) return {};
    }
    const KernelStatement& innermost = *tile_.nest.back();
    if (goes_through_columns(kernel_, innermost) ||
        loop_segments(kernel_, innermost).size() > 2)
      return {};
    if (extent(loop_) < kTile || extent(innermost) < kTile) return {};
    for (const KernelStatement* const each : tile_.nest) add_accesses(*each);
    if (gain_ == 0) return {};
    tile_.is_turned = along_outer_ > along_inner_;
    return std::move(tile_);
  }

 private:
  int64_t extent(const KernelStatement& loop) const {
    return kernel_.loops[static_cast<size_t>(loop.target)].extent;
  }

  void add_accesses(const KernelStatement& loop) {
    for (const KernelStatement& inner : loop.body) {
      if (inner.kind == Kind::kStore) {
        add(inner.index,
            kernel_.arguments[static_cast<size_t>(inner.target)].type);
      } else if (inner.kind == Kind::kLet) {
        const KernelValue& let =
            kernel_.values[static_cast<size_t>(inner.value)];
        if (let.kind == KernelValue::Kind::kLoad) add(let.index, let.type);
      }
    }
  }

  int64_t stride(int32_t expression, const KernelStatement& loop) const {
    return std::abs(loop_coefficient(kernel_.indices, expression, loop.target));
  }

  /// Counts what an access of the innermost loop gains.
  void add(int32_t index, PrimitiveType type) {
    const int64_t inner = stride(index, *tile_.nest.back());
    const int64_t outer = stride(index, loop_);
    const int64_t size_bytes =
        std::max<int64_t>(primitive_type_bits(type) / 8, 1);
    if (inner == 0 || outer == 0) return;
    if (inner == 1) ++along_inner_;
    if (outer == 1) ++along_outer_;
    if (inner * size_bytes < kLine_bytes || outer * size_bytes >= kLine_bytes)
      return;
    int64_t lines = 1;  // Between two elements of one line.
    for (size_t i = 1; i < tile_.nest.size(); ++i) {
      if (stride(index, *tile_.nest[i]) != 0) lines *= extent(*tile_.nest[i]);
    }
    if (lines >= kManyLines) ++gain_;
  }

  const Kernel& kernel_;
  const KernelStatement& loop_;
  LoopTile tile_;
  int gain_ = 0, along_inner_ = 0, along_outer_ = 0;
};

}  // namespace

std::optional<LoopTile> loop_tile(const Kernel& kernel,
                                  const KernelStatement& loop) {
  return TileFinder(kernel, loop).run();
}

}  // namespace reprise
