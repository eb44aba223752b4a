// The copy is a kernel of the same IR as all others, a nest of one loop a
// dimension, so that it needs no code of its own on any device.
#include "runtime/cuda/packed_dots.h"

#include <algorithm>

namespace reprise {
namespace {

constexpr int64_t kScratchAlignment = 256;

bool has_unit_stride(const MatrixView& view) {
  const size_t n = view.dimensions.size();
  for (const size_t i : {n - 2, n - 1}) {
    if (view.dimensions[i] == 1 || view.strides[i] == 1) return true;
  }
  return false;
}

int64_t elements_of(const MatrixView& view) {
  int64_t elements = 1;
  for (const int64_t dimension : view.dimensions) elements *= dimension;
  return elements;
}

// dense[position] = strided[sum of index * stride], one loop a dimension.
Kernel copy_kernel(const MatrixView& view, PrimitiveType type) {
  const int64_t width = primitive_type_bits(type) / 8;
  Kernel kernel;
  KernelArgument argument;
  argument.type = type;
  argument.elements = view.location.size_bytes / width;
  kernel.arguments.push_back(argument);
  argument.elements = elements_of(view);
  argument.is_output = true;
  kernel.arguments.push_back(argument);

  int32_t from = kernel.indices.constant(0);
  std::vector<int32_t> position;
  for (size_t i = 0; i < view.dimensions.size(); ++i) {
    kernel.loops.push_back({.extent = view.dimensions[i]});
    const int32_t loop =
        kernel.indices.loop(static_cast<int32_t>(i), view.dimensions[i]);
    position.push_back(loop);
    from =
        kernel.indices.add(from, kernel.indices.scale(loop, view.strides[i]));
  }
  KernelValue value;
  value.kind = KernelValue::Kind::kLoad;
  value.type = type;
  value.source = 0;
  value.index = from;
  kernel.values.push_back(value);

  KernelStatement let;
  let.value = 0;
  KernelStatement store;
  store.kind = KernelStatement::Kind::kStore;
  store.value = 0;
  store.target = 1;
  store.index = kernel.indices.linearize(position, view.dimensions);
  std::vector<KernelStatement> body = {let, store};
  for (size_t i = view.dimensions.size(); i-- > 0;) {
    KernelStatement loop;
    loop.kind = KernelStatement::Kind::kLoop;
    loop.target = static_cast<int32_t>(i);
    loop.body = std::move(body);
    body.clear();
    body.push_back(std::move(loop));
  }
  kernel.body = std::move(body);
  return kernel;
}

}  // namespace

PackedDots pack_dots(const Schedule& schedule) {
  PackedDots packed;
  for (size_t i = 0; i < schedule.units.size(); ++i) {
    const Unit& unit = schedule.units[i];
    if (unit.kind != UnitKind::kLibrary) continue;
    int64_t offset = 0;
    for (const bool is_rhs : {false, true}) {
      const MatrixView& view = is_rhs ? unit.dot.rhs : unit.dot.lhs;
      if (has_unit_stride(view)) continue;
      packed.operands[static_cast<UnitId>(i)].push_back(
          {.is_rhs = is_rhs,
           .kernel = static_cast<int32_t>(packed.kernels.size()),
           .scratch_offset = offset});
      packed.kernels.push_back(copy_kernel(view, unit.dot.type));
      const int64_t bytes =
          elements_of(view) * primitive_type_bits(unit.dot.type) / 8;
      offset += (bytes + kScratchAlignment - 1) / kScratchAlignment *
                kScratchAlignment;
    }
    packed.scratch_bytes = std::max(packed.scratch_bytes, offset);
  }
  return packed;
}

MatrixView dense_view(const MatrixView& view) {
  MatrixView dense = view;
  int64_t stride = 1;
  for (size_t i = view.dimensions.size(); i-- > 0;) {
    dense.strides[i] = stride;
    stride *= view.dimensions[i];
  }
  return dense;
}

}  // namespace reprise
