// A cuBLASLt for tests (libcublasLt.so.13): real arithmetic, enqueued on the
// fake driver's streams like a kernel. Products are computed by oneDNN, as the
// CPU runtime's are, so that whole training steps can be compared bit for bit;
// cublas_test.cc holds it against the definition. (For the same reason a bias
// is added before C here; the real one adds it after.) Those of bf16, which
// oneDNN has with AVX-512 alone, of f16 and of f64 are computed by the
// definition.
#include "tests/runtime/cuda/fake_cublas.h"

#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/cpu/dot.h"
#include "runtime/kernels/element_ops.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/testing/matrix_view.h"

namespace {

using reprise::MatrixView;
using reprise::PrimitiveType;

struct Layout {
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, leading = 0;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};
struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  ///< The result's.
};
struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment = 256;  ///< The default of the real one.
};
/// What an algorithm was chosen for; it serves nothing else.
struct Algorithm {
  uint64_t shape;
  uint64_t workspace_bytes;
  uint32_t alignment;
  uint32_t number;  ///< Of those that are offered.
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// Guards live_handles(): ranks of a test are threads.
std::mutex handles_mutex;

std::set<const void*>& live_handles() {
  static auto* handles = new std::set<const void*>();
  return *handles;
}

template <typename Made, typename Handle>
cublasStatus_t make(Handle* handle, const Made& value) {
  auto* made = new Made(value);  // NOLINT: freed by drop, as in C.
  {
    const std::lock_guard lock(handles_mutex);
    live_handles().insert(made);
  }
  *handle = reinterpret_cast<Handle>(made);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Made, typename Handle>
cublasStatus_t drop(Handle handle) {
  auto* made = reinterpret_cast<Made*>(handle);
  {
    const std::lock_guard lock(handles_mutex);
    if (live_handles().erase(made) == 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  delete made;  // NOLINT
  return CUBLAS_STATUS_SUCCESS;
}

/// Nanoseconds of each algorithm that is offered.
std::vector<int64_t>& offered() {
  static auto* costs = new std::vector<int64_t>{0};
  return *costs;
}
uint32_t refused_number = UINT32_MAX;
std::atomic<uint64_t> launches_of[16];  // By threads of several ranks.

// FAKE_CUBLAS_COSTS=NS,NS,...: those of a process of its own.
void read_costs() {
  const char* text = std::getenv("FAKE_CUBLAS_COSTS");
  if (text == nullptr) return;
  offered().clear();
  for (char* end = nullptr;; text = end + 1) {
    offered().push_back(std::strtoll(text, &end, 10));
    if (*end != ',') break;
  }
}

template <typename T>
cublasStatus_t set(T& value, const void* from, size_t bytes) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

const Layout& layout_of(cublasLtMatrixLayout_t handle) {
  return *reinterpret_cast<const Layout*>(handle);
}
const Operation& operation_of(cublasLtMatmulDesc_t handle) {
  return *reinterpret_cast<const Operation*>(handle);
}

PrimitiveType primitive_type(cudaDataType type) {
  return type == CUDA_R_32F    ? PrimitiveType::kF32
         : type == CUDA_R_64F  ? PrimitiveType::kF64
         : type == CUDA_R_16BF ? PrimitiveType::kBF16
                               : PrimitiveType::kF16;
}
int64_t bytes_of_type(cudaDataType type) {
  return reprise::primitive_type_bits(primitive_type(type)) / 8;
}

// Any mix of the words that must be the same when an algorithm is used.
uint64_t shape_of(const Operation& operation, const Layout& a, const Layout& b,
                  const Layout& out) {
  uint64_t hash = 1469598103934665603U;
  const auto add = [&](int64_t word) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211U;
  };
  add(operation.compute);
  add(operation.transpose_a);
  add(operation.transpose_b);
  add(operation.epilogue);
  add(operation.bias_type);
  for (const Layout* layout : {&a, &b, &out}) {
    for (const int64_t word :
         {static_cast<int64_t>(layout->type), layout->rows, layout->columns,
          layout->leading, static_cast<int64_t>(layout->batches),
          layout->batch_stride}) {
      add(word);
    }
  }
  return hash;
}

// The matrix that is multiplied: rows and columns after the transpose.
MatrixView view_of(const Layout& layout, bool transposed) {
  MatrixView view;
  if (layout.batches > 1) {
    view.dimensions.push_back(layout.batches);
    view.strides.push_back(layout.batch_stride);
  }
  const int64_t dimensions[] = {layout.rows, layout.columns};
  const int64_t strides[] = {1, layout.leading};
  for (const size_t i : {transposed ? 1U : 0U, transposed ? 0U : 1U}) {
    view.dimensions.push_back(dimensions[i]);
    view.strides.push_back(strides[i]);
  }
  return view;
}

bool fits(const Operation& operation, const Layout& a, const Layout& b,
          const Layout& out) {
  const bool ta = operation.transpose_a == CUBLAS_OP_T,
             tb = operation.transpose_b == CUBLAS_OP_T;
  const int64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
  const int64_t n = tb ? b.rows : b.columns, l = tb ? b.columns : b.rows;
  return m == out.rows && n == out.columns && k == l && a.type == b.type &&
         (a.type == out.type ||
          (out.type == CUDA_R_32F && a.type != CUDA_R_64F)) &&
         (a.type == CUDA_R_64F) == (operation.compute == CUBLAS_COMPUTE_64F) &&
         a.batches == b.batches && a.batches == out.batches;
}

bool has_bias(const Operation& operation) {
  return operation.epilogue == CUBLASLT_EPILOGUE_BIAS ||
         operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool has_relu(const Operation& operation) {
  return operation.epilogue == CUBLASLT_EPILOGUE_RELU ||
         operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool knows(const Operation& operation) {
  return operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
         has_bias(operation) || has_relu(operation);
}

/// A product on its way through a stream.
struct Product {
  reprise::DotSpec spec;
  reprise::DotMemory memory;
};

/// The definition, summed in `Sum`.
template <typename Sum>
void multiply_plainly(const Product& product) {
  const reprise::DotSpec& spec = product.spec;
  if (!spec.is_plain()) std::abort();
  const auto load = [&](const std::byte* data, int64_t at) {
    return reprise::from_memory<Sum>(
        spec.type, data + at * reprise::memory_bytes(spec.type));
  };
  const std::vector<int64_t>& size = spec.out.dimensions;
  const size_t n = size.size();
  const int64_t batches = n == 3 ? size[0] : 1;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < size[n - 2]; ++i) {
      for (int64_t j = 0; j < size[n - 1]; ++j) {
        Sum sum = 0;
        for (int64_t k = 0; k < spec.lhs.dimensions.back(); ++k) {
          sum += load(product.memory.lhs, offset(spec.lhs, b, i, k)) *
                 load(product.memory.rhs, offset(spec.rhs, b, k, j));
        }
        reprise::to_memory(
            spec.result_type, sum,
            product.memory.out + offset(spec.out, b, i, j) *
                                     reprise::memory_bytes(spec.result_type));
      }
    }
  }
}

void multiply(void* data) {
  static auto* library = new reprise::DotLibrary();
  const auto& product = *static_cast<const Product*>(data);
  if (product.spec.type == PrimitiveType::kF64)
    return multiply_plainly<double>(product);
  if (product.spec.type != PrimitiveType::kF32)
    return multiply_plainly<float>(product);
  const auto call = library->bind(product.spec, product.memory);
  if (!call || !call->run()) std::abort();
}

// The product with its epilogue. A bias runs along the rows of the result, so
// with one the transpose is computed.
Product product_of(const Operation& what, const Layout& a, const Layout& b,
                   const Layout& out, float alpha, bool accumulates) {
  const bool ta = what.transpose_a == CUBLAS_OP_T,
             tb = what.transpose_b == CUBLAS_OP_T, turned = has_bias(what);
  Product product;
  reprise::DotSpec& spec = product.spec;
  spec.type = primitive_type(a.type);
  spec.result_type = primitive_type(out.type);
  spec.lhs = turned ? view_of(b, !tb) : view_of(a, ta);
  spec.rhs = turned ? view_of(a, !ta) : view_of(b, tb);
  spec.out = view_of(out, turned);
  spec.alpha = alpha;
  if (has_bias(what)) spec.bias.emplace();
  if (accumulates) spec.accumulate.emplace();
  if (has_relu(what)) spec.activation = reprise::DotActivation::kRelu;
  return product;
}

/// A factor, of the type that sums are of.
float scalar(const void* from, bool is_f64) {
  return is_f64 ? static_cast<float>(*static_cast<const double*>(from))
                : *static_cast<const float*>(from);
}

bool in_memory(const Layout& layout, const void* data, uint32_t alignment) {
  const auto address = reinterpret_cast<uint64_t>(data);
  if (address % alignment != 0) return false;
  const int64_t elements = (layout.batches - 1) * layout.batch_stride +
                           (layout.columns - 1) * layout.leading + layout.rows;
  return fake_cuda_is_device_memory(
             address,
             static_cast<uint64_t>(elements * bytes_of_type(layout.type))) != 0;
}

}  // namespace

extern "C" {

void fake_cublas_offer(const int64_t* costs_ns, int count, int refused) {
  offered().assign(costs_ns, costs_ns + count);
  refused_number = static_cast<uint32_t>(refused);
  for (std::atomic<uint64_t>& launches : launches_of) launches = 0;
}
uint64_t fake_cublas_launches(int number) { return launches_of[number]; }

size_t cublasLtGetVersion() { return 130000; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                               : "CUBLAS_STATUS_OTHER";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static std::once_flag once;
  std::call_once(once, read_costs);
  return make(handle, int{0});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return drop<int>(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != (compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return make(handle, Operation{.compute = compute});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return drop<Operation>(handle);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
    const void* from, size_t bytes) {
  auto& operation = *reinterpret_cast<Operation*>(handle);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    return set(operation.transpose_a, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    return set(operation.transpose_b, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
    return set(operation.epilogue, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    return set(operation.bias, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
    return set(operation.bias_type, from, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return make(handle, Layout{.type = type,
                             .rows = static_cast<int64_t>(rows),
                             .columns = static_cast<int64_t>(columns),
                             .leading = leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return drop<Layout>(handle);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute,
    const void* from, size_t bytes) {
  auto& layout = *reinterpret_cast<Layout*>(handle);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(layout.batches, from, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(layout.batch_stride, from, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(
    cublasLtMatmulPreference_t* handle) {
  return make(handle, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t handle) {
  return drop<Preference>(handle);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t handle,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* from,
    size_t bytes) {
  auto& preference = *reinterpret_cast<Preference*>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference.workspace_bytes, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference.reduction_schemes, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference.alignment, from, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t preference,
    int wanted, cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const Layout &la = layout_of(a), &lb = layout_of(b), &lout = layout_of(out);
  if (!fits(operation_of(operation), la, lb, lout))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!knows(operation_of(operation))) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& wish = *reinterpret_cast<const Preference*>(preference);
  const int count = std::min(wanted, static_cast<int>(offered().size()));
  for (int i = 0; i < count; ++i) {
    const Algorithm chosen{
        .shape = shape_of(operation_of(operation), la, lb, lout),
        .workspace_bytes = wish.workspace_bytes / 2,
        .alignment = wish.alignment,
        .number = static_cast<uint32_t>(i)};
    results[i] = {};
    std::memcpy(&results[i].algo, &chosen, sizeof chosen);
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].workspaceSize = chosen.workspace_bytes;
  }
  *found = count;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t* algorithm,
    cublasLtMatmulHeuristicResult_t* result) {
  Algorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (chosen.shape != shape_of(operation_of(operation), layout_of(a),
                               layout_of(b), layout_of(out)) ||
      chosen.number >= offered().size()) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *result = {};
  result->algo = *algorithm;
  result->workspaceSize = chosen.workspace_bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
    const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
    cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
    cublasLtMatrixLayout_t c_layout, void* out,
    cublasLtMatrixLayout_t out_layout, const cublasLtMatmulAlgo_t* algorithm,
    void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const Layout &la = layout_of(a_layout), &lb = layout_of(b_layout),
               &lout = layout_of(out_layout);
  const Operation& what = operation_of(operation);
  const bool is_f64 = what.compute == CUBLAS_COMPUTE_64F;
  const float scale = scalar(alpha, is_f64), kept = scalar(beta, is_f64);
  Algorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  const bool accumulates = kept != 0;
  const Layout bias{.rows = lout.rows, .columns = 1, .leading = lout.rows};
  const bool lives = [&] {
    const std::lock_guard lock(handles_mutex);
    return live_handles().contains(handle);
  }();
  if (!lives || (kept != 0 && kept != 1) || c_layout != out_layout ||
      chosen.shape != shape_of(what, la, lb, lout) ||
      workspace_bytes < chosen.workspace_bytes ||
      fake_cuda_is_device_memory(reinterpret_cast<uint64_t>(workspace),
                                 workspace_bytes) == 0 ||
      !in_memory(la, a, chosen.alignment) ||
      !in_memory(lb, b, chosen.alignment) ||
      (accumulates && !in_memory(lout, c, chosen.alignment)) ||
      (has_bias(what) &&
       (what.bias_type != CUDA_R_32F || !in_memory(bias, what.bias, 4))) ||
      !in_memory(lout, out, chosen.alignment)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (chosen.number == refused_number) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++launches_of[chosen.number];
  auto product = std::make_unique<Product>(
      product_of(what, la, lb, lout, scale, accumulates));
  const auto address = [](const void* data) {
    return static_cast<std::byte*>(const_cast<void*>(data));
  };
  product->memory = {.lhs = address(has_bias(what) ? b : a),
                     .rhs = address(has_bias(what) ? a : b),
                     .out = address(out),
                     .bias = address(what.bias),
                     .accumulate = address(c)};
  fake_cuda_name_kernel("matrix_product");
  fake_cuda_next_lasts(offered()[chosen.number]);
  const CUresult enqueued = fake_cuda_enqueue(
      reinterpret_cast<CUstream>(stream), multiply, product.release(),
      [](void* data) { delete static_cast<Product*>(data); });  // NOLINT
  return enqueued == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
