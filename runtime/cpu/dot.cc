// oneDNN is asked for one primitive a distinct shape and keeps it. It writes
// rows, so a product whose output has contiguous columns is computed as the
// transpose of the product of transposes.
#include "runtime/cpu/dot.h"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/cpu/dnnl_engine.h"
#include "runtime/cpu/dot_epilogue_pass.h"
#include "runtime/cpu/dot_parts.h"
#include "runtime/cpu/vector_product.h"
#include "runtime/cpu/widened_dot.h"

namespace reprise {
namespace {

using Memory = dnnl::memory;

// A matrix is better read as the transpose of its transpose when its rows, not
// its columns, are contiguous in the output: oneDNN writes rows.
bool writes_columns(const MatrixView& out) {
  const size_t n = out.strides.size();
  return out.strides[n - 1] != 1 && out.strides[n - 2] == 1 &&
         out.dimensions[n - 1] > 1;
}

MatrixView transposed(MatrixView view) {
  const size_t n = view.strides.size();
  std::swap(view.dimensions[n - 1], view.dimensions[n - 2]);
  std::swap(view.strides[n - 1], view.strides[n - 2]);
  return view;
}

/// The same elements with strides of row-major order where a dimension has one
/// element: for others, which name no other element, oneDNN has its reference
/// implementation alone (512x256 times 256x1: 3.9 ms for 0.03).
MatrixView plain_unit_strides(MatrixView view) {
  const size_t n = view.strides.size();
  for (size_t d = n; d-- > 0;) {
    if (view.dimensions[d] == 1)
      view.strides[d] =
          d + 1 == n ? 1 : view.strides[d + 1] * view.dimensions[d + 1];
  }
  return view;
}

std::string shape_key(const DotSpec& spec) {
  std::string key = fmt::format("{} giving {}", primitive_type_name(spec.type),
                                primitive_type_name(spec.result_type));
  for (const MatrixView* view : {&spec.lhs, &spec.rhs, &spec.out}) {
    key += '|';
    for (const int64_t dimension : view->dimensions)
      key += fmt::format("{},", dimension);
    key += '/';
    for (const int64_t stride : view->strides)
      key += fmt::format("{},", stride);
  }
  return key;
}

}  // namespace

struct DotLibrary::Primitive {
  dnnl::matmul primitive;
  Memory::desc scratch;  ///< Of no bytes where oneDNN has its own.
  std::array<Memory::desc, 3> descriptors;
  std::string implementation;
};

struct DotCall::Bound {
  std::shared_ptr<const DotLibrary::Primitive> shape;  ///< Or `vector`.
  std::optional<VectorProduct> vector;
  std::array<Memory, 3> memories;
  std::optional<Memory> scratch;
  std::vector<dnnl_exec_arg_t> arguments;
  std::optional<DotEpiloguePass> pass;
  std::shared_ptr<const WidenedDot> widened;  ///< Around a product of f32.
};

DotCall::DotCall(std::shared_ptr<const Bound> bound)
    : bound_(std::move(bound)) {}
DotCall::~DotCall() = default;

bool DotCall::run() const {
  if (bound_->widened) bound_->widened->load();
  if (bound_->vector) {
    bound_->vector->run();
  } else if (dnnl_primitive_execute(bound_->shape->primitive.get(),
                                    dnnl_engine().stream.get(),
                                    static_cast<int>(bound_->arguments.size()),
                                    bound_->arguments.data()) != dnnl_success) {
    return false;
  }
  if (bound_->pass) bound_->pass->run();
  if (bound_->widened) bound_->widened->store();
  return true;
}

const std::string& DotCall::implementation() const {
  static const std::string own = "vector";
  return bound_->vector ? own : bound_->shape->implementation;
}

DotLibrary::DotLibrary() = default;
DotLibrary::~DotLibrary() = default;

Result<std::shared_ptr<const DotLibrary::Primitive>> DotLibrary::primitive_of(
    const DotSpec& spec) {
  const Result<Memory::data_type> type = dnnl_type(spec.type),
                                  result = dnnl_type(spec.result_type);
  if (!type) return pass(type.error());
  if (!result) return pass(result.error());
  std::shared_ptr<const Primitive>& known =
      primitives_[shape_key(spec) + (own_scratch_ ? " in parts" : "")];
  if (known) return known;
  auto made = std::make_shared<Primitive>();
  const std::array views = {&spec.lhs, &spec.rhs, &spec.out};
  for (size_t i = 0; i < views.size(); ++i) {
    made->descriptors[i] = Memory::desc(
        views[i]->dimensions, i == 2 ? *result : *type, views[i]->strides);
  }
  const dnnl::matmul::desc operation(made->descriptors[0], made->descriptors[1],
                                     made->descriptors[2]);
  dnnl::primitive_attr attributes;
  if (own_scratch_) attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc description(operation, attributes,
                                                 dnnl_engine().engine);
  made->scratch = description.scratchpad_desc();
  made->implementation = description.impl_info_str();
  made->primitive = dnnl::matmul(description);
  known = std::move(made);
  return known;
}

Result<DotCall> DotLibrary::bind(const DotSpec& spec, const DotMemory& memory) {
  std::optional<DotEpiloguePass> epilogue;
  if (!spec.is_plain()) {
    Result<DotEpiloguePass> made = DotEpiloguePass::make(spec, memory);
    if (!made) return pass(made.error());
    epilogue = std::move(*made);
  }
  Result<DotCall> product = bind_product(spec, memory);
  if (spec.type == PrimitiveType::kBF16 &&
      (!product || is_slow(product->implementation()) ||
       is_quicker_widened(product->implementation())))
    product = bind_widened(spec, memory);
  if (!product || !epilogue) return product;
  auto bound = std::make_shared<DotCall::Bound>(*product->bound_);
  bound->pass = std::move(epilogue);
  return DotCall(std::move(bound));
}

Result<std::vector<DotCall>> DotLibrary::bind_all(
    const std::vector<DotPart>& parts) {
  std::vector<DotCall> calls;
  for (const DotPart& part : parts) {
    own_scratch_ = true;
    Result<DotCall> call = bind(part.spec, part.memory);
    own_scratch_ = false;
    if (!call) return pass(call.error());
    calls.push_back(std::move(*call));
  }
  return calls;
}

bool DotLibrary::parts_have_its_bits(const DotSpec& spec, size_t count,
                                     DotCut cut) {
  TrialOperands operands(spec);
  const Result<DotCall> whole = bind(spec, operands.memory());
  if (!whole || !whole->run()) return false;
  const std::vector<std::byte> expected = operands.result();
  operands.clear_result();
  const auto parts = bind_all(split_dot(spec, operands.memory(), count, cut));
  return parts &&
         std::all_of(parts->begin(), parts->end(),
                     [](const DotCall& part) { return part.run(); }) &&
         operands.result() == expected;
}

Result<std::vector<DotCall>> DotLibrary::bind_parts(const DotSpec& spec,
                                                    const DotMemory& memory,
                                                    size_t count,
                                                    PartTrials* trials) {
  const DotSpec plain = plain_dot(spec);
  for (const DotCut cut : {DotCut::kLonger, DotCut::kShorter}) {
    const std::vector<DotPart> parts = split_dot(spec, memory, count, cut);
    if (parts.size() < 2) continue;
    const std::string key = fmt::format("dot {} in {} by {}", shape_key(plain),
                                        count, static_cast<int>(cut));
    if (trials->have_its_bits(
            key, [&] { return parts_have_its_bits(plain, count, cut); }))
      return bind_all(parts);
  }
  return std::vector<DotCall>();
}

Result<DotCall> DotLibrary::bind_widened(const DotSpec& spec,
                                         const DotMemory& memory) {
  WidenedDot::Scratch of_part;
  auto widened = std::make_shared<const WidenedDot>(
      spec, memory.lhs, memory.rhs, memory.out,
      own_scratch_ ? of_part : widened_);
  Result<DotCall> product = bind_product(
      widened->spec(),
      {.lhs = widened->lhs(), .rhs = widened->rhs(), .out = widened->out()});
  if (!product) return product;
  auto bound = std::make_shared<DotCall::Bound>(*product->bound_);
  bound->widened = std::move(widened);
  return DotCall(std::move(bound));
}

Result<DotCall> DotLibrary::bind_product(const DotSpec& spec,
                                         const DotMemory& memory) {
  if (auto vector = VectorProduct::bind(spec, memory)) {
    auto bound = std::make_shared<DotCall::Bound>();
    bound->vector = std::move(vector);
    return DotCall(std::move(bound));
  }
  DotSpec product = plain_dot(spec);
  std::array<std::byte*, 3> data = {memory.lhs, memory.rhs, memory.out};
  if (writes_columns(spec.out)) {
    product.lhs = transposed(spec.rhs);
    product.rhs = transposed(spec.lhs);
    product.out = transposed(spec.out);
    std::swap(data[0], data[1]);
  }
  for (MatrixView* matrix : {&product.lhs, &product.rhs, &product.out})
    *matrix = plain_unit_strides(std::move(*matrix));
  try {
    const auto shape = primitive_of(product);
    if (!shape) return pass(shape.error());
    auto bound = std::make_shared<DotCall::Bound>();
    bound->shape = *shape;
    const std::array roles = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    for (size_t i = 0; i < data.size(); ++i) {
      bound->memories[i] =
          Memory((*shape)->descriptors[i], dnnl_engine().engine, data[i]);
      bound->arguments.push_back({roles[i], bound->memories[i].get()});
    }
    if (own_scratch_ && (*shape)->scratch.get_size() > 0) {
      bound->scratch.emplace((*shape)->scratch, dnnl_engine().engine);
      bound->arguments.push_back({DNNL_ARG_SCRATCHPAD, bound->scratch->get()});
    }
    return DotCall(std::move(bound));
  } catch (const dnnl::error& error) {
    return fail(ErrorKind::kUnsupported, "oneDNN refuses a dot of {}: {}",
                shape_key(product), error.what());
  }
}

}  // namespace reprise
